// Adding and removing routes.
#define _GNU_SOURCE
#include "cbench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define REQUEST_SIZE 64
/// The number of a flood's requests in one datagram.
#define BATCH 256

static void put(struct nlmsghdr *header, unsigned short type, const void *data, size_t size) {
    struct rtattr *attribute = (struct rtattr *)((char *)header + NLMSG_ALIGN(header->nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute), data, size);
    header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + RTA_ALIGN(attribute->rta_len);
}

static size_t write_request(void *place, bool adds, bool acknowledged, const bench_route *route) {
    struct nlmsghdr *header = place;
    memset(place, 0, REQUEST_SIZE);
    header->nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg));
    header->nlmsg_type = adds ? RTM_NEWROUTE : RTM_DELROUTE;
    header->nlmsg_flags = (unsigned short)(NLM_F_REQUEST | (acknowledged ? NLM_F_ACK : 0) | (adds ? NLM_F_CREATE | NLM_F_EXCL : 0));
    struct rtmsg *message = NLMSG_DATA(header);
    message->rtm_family = AF_INET;
    message->rtm_dst_len = route->length;
    message->rtm_table = RT_TABLE_MAIN;
    message->rtm_protocol = RTPROT_STATIC;
    message->rtm_scope = adds ? RT_SCOPE_UNIVERSE : RT_SCOPE_NOWHERE;
    message->rtm_type = adds ? RTN_UNICAST : RTN_UNSPEC;
    if (route->length > 0) { put(header, RTA_DST, &route->destination, sizeof route->destination); }
    if (route->gateway != 0) { put(header, RTA_GATEWAY, &route->gateway, sizeof route->gateway); }
    put(header, RTA_OIF, &route->interface, sizeof route->interface);
    return header->nlmsg_len;
}

/// Waits for one acknowledgement.
static int32_t read_acknowledgement(int descriptor) {
    char reply[4096];
    for (;;) {
        const ssize_t length = recv(descriptor, reply, sizeof reply, 0);
        if (length < 0 && errno == EINTR) { continue; }
        if (length < 0) { return -errno; }
        const struct nlmsghdr *header = (const struct nlmsghdr *)reply;
        if (!NLMSG_OK(header, (size_t)length) || header->nlmsg_type != NLMSG_ERROR) { return -EPROTO; }
        return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
    }
}

bench_route bench_default_route(const char *gateway, const char *interface) {
    bench_route route = { .interface = if_nametoindex(interface) };
    inet_pton(AF_INET, gateway, &route.gateway);
    return route;
}

int32_t bench_change_route(int32_t descriptor, bool adds, const bench_route *route, int64_t *time) {
    _Alignas(struct nlmsghdr) char request[REQUEST_SIZE];
    const size_t length = write_request(request, adds, true, route);
    if (time != NULL) { *time = bench_now(); }
    if (send(descriptor, request, length, 0) < 0) { return -errno; }
    return read_acknowledgement(descriptor);
}

int32_t bench_flood(int32_t descriptor, bool adds, const bench_route *through, uint32_t first, uint32_t count) {
    _Alignas(struct nlmsghdr) char requests[BATCH * REQUEST_SIZE];
    bench_route route = *through;
    route.length = 32;
    for (uint32_t done = 0; done < count;) {
        size_t length = 0;
        for (int index = 0; index < BATCH && done < count; index++, done++) {
            route.destination = htonl((10u << 24) + first + done);
            // Only the last of all answers; the kernel works through requests in order, and within send.
            length += write_request(requests + length, adds, done + 1 == count, &route);
        }
        if (send(descriptor, requests, length, 0) < 0) { return -errno; }
    }
    return count == 0 ? 0 : read_acknowledgement(descriptor);
}
