// Look-ups, one request and one answer each.
#define _GNU_SOURCE
#include "cbench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

static void read_route(const struct nlmsghdr *header, bench_answer *answer) {
    const struct rtmsg *message = NLMSG_DATA(header);
    answer->type = message->rtm_type;
    answer->flags = message->rtm_flags;
    int left = (int)RTM_PAYLOAD(header);
    for (const struct rtattr *attribute = RTM_RTA(message); RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        if (attribute->rta_type == RTA_OIF) { memcpy(&answer->interface, RTA_DATA(attribute), sizeof answer->interface); }
        if (attribute->rta_type == RTA_PREFSRC && RTA_PAYLOAD(attribute) == sizeof answer->source) {
            memcpy(answer->source, RTA_DATA(attribute), sizeof answer->source);
            answer->has_source = true;
        }
    }
}

int32_t bench_lookup(int32_t descriptor, const char *destination, const unsigned char *source, bool match, bench_answer *answer) {
    struct {
        struct nlmsghdr header;
        struct rtmsg message;
        struct rtattr attribute;
        unsigned char address[16];
    } request = { 0 };
    const int family = strchr(destination, ':') != NULL ? AF_INET6 : AF_INET;
    const unsigned size = family == AF_INET ? 4 : 16;
    if (inet_pton(family, destination, request.address) != 1) { return -EINVAL; }
    request.attribute = (struct rtattr){ .rta_len = (unsigned short)RTA_LENGTH(size), .rta_type = RTA_DST };
    request.message = (struct rtmsg){
        .rtm_family = (unsigned char)family, .rtm_dst_len = (unsigned char)(size * 8),
        .rtm_flags = (family == AF_INET ? RTM_F_LOOKUP_TABLE : 0) | (match ? RTM_F_FIB_MATCH : 0),
    };
    request.header = (struct nlmsghdr){
        .nlmsg_len = NLMSG_LENGTH(sizeof request.message) + RTA_LENGTH(size), .nlmsg_type = RTM_GETROUTE,
        .nlmsg_flags = NLM_F_REQUEST,
    };
    if (source != NULL && family == AF_INET) {
        const struct rtattr attribute = { .rta_len = RTA_LENGTH(4), .rta_type = RTA_SRC };
        memcpy(request.address + 4, &attribute, sizeof attribute);
        memcpy(request.address + 4 + sizeof attribute, source, 4);
        request.message.rtm_src_len = 32;
        request.header.nlmsg_len += RTA_LENGTH(4);
    }
    if (send(descriptor, &request, request.header.nlmsg_len, 0) < 0) { return -errno; }
    _Alignas(struct nlmsghdr) char reply[8192];
    const ssize_t length = recv(descriptor, reply, sizeof reply, 0);
    if (length < 0) { return -errno; }
    const struct nlmsghdr *header = (const struct nlmsghdr *)reply;
    *answer = (bench_answer){ 0 };
    if (!NLMSG_OK(header, (size_t)length)) { return -EPROTO; }
    if (header->nlmsg_type == NLMSG_ERROR) {
        answer->error = -((const struct nlmsgerr *)NLMSG_DATA(header))->error;
    } else {
        read_route(header, answer);
    }
    return 0;
}

static const char *const representatives[] = {
    BENCH_FIRST_REPRESENTATIVE, "1.1.1.1", "2001:503:ba3e::2:30", "2801:1b8:10::b",
};

/// The lookups of connect(2): IPv4 again with the source that the kernel chose.
static bool has_way(int32_t descriptor, const char *destination, bool match) {
    bench_answer answer;
    if (bench_lookup(descriptor, destination, NULL, match, &answer) != 0 || answer.error != 0) { return false; }
    if (!match && answer.has_source) {
        unsigned char source[sizeof answer.source];
        memcpy(source, answer.source, sizeof source);
        if (bench_lookup(descriptor, destination, source, match, &answer) != 0) { return false; }
    }
    return answer.error == 0 && answer.type == RTN_UNICAST && answer.interface != 1
        && (answer.flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)) == 0;
}

/// No short cuts: the work is the same whatever the answers.
static bool family_has_ways(int32_t descriptor, int family, bool match) {
    const int first = family == AF_INET ? 0 : 2;
    const bool ways[] = {
        has_way(descriptor, representatives[first], match), has_way(descriptor, representatives[first + 1], match),
    };
    return ways[0] && ways[1];
}

bool bench_family_is_reachable(int32_t descriptor, int family) { return family_has_ways(descriptor, family, false); }

static bool have_ways(int32_t descriptor, bool match) {
    const bool ipv4 = family_has_ways(descriptor, AF_INET, match), ipv6 = family_has_ways(descriptor, AF_INET6, match);
    return ipv4 || ipv6;
}

bool bench_truth(int32_t descriptor) {
    // Only the entry of the table tells of a next hop without carrier (RTNH_F_LINKDOWN).
    return have_ways(descriptor, false) && have_ways(descriptor, true);
}
