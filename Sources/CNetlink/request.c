#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/if_link.h>
#include <string.h>
#include <sys/socket.h>

/// Sends a message, which it frees, with the socket's next sequence number.
static int32_t send_message(cnl_socket *socket, struct nl_msg *message, int failed, uint32_t *sequence)
{
    if (!message)
        return -ENOMEM;
    // The only way that nlmsg_append and nla_put fail is a lack of room.
    int32_t result = failed ? -EMSGSIZE : 0;
    if (!failed) {
        struct nlmsghdr *header = nlmsg_hdr(message);
        header->nlmsg_seq = *sequence = ++socket->sequence;
        header->nlmsg_pid = nl_socket_get_local_port(socket->socket);
        struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
        ssize_t sent;
        do
            sent = sendto(cnl_descriptor(socket), header, header->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel);
        while (sent < 0 && errno == EINTR);
        if (sent < 0)
            result = -errno;
    }
    nlmsg_free(message);
    return result;
}

int32_t cnl_request_links(cnl_socket *socket, uint32_t *sequence)
{
    struct ifinfomsg header = {.ifi_family = AF_UNSPEC};
    struct nl_msg *message = nlmsg_alloc_simple(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
    int failed = message
        && (nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO) < 0
            || nla_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0);
    return send_message(socket, message, failed, sequence);
}

int32_t cnl_request_addresses(cnl_socket *socket, uint32_t *sequence)
{
    // The whole header: with strict checking the kernel refuses the four bytes of libnl's rtnl_addr_alloc_cache, and says so inside NLMSG_DONE.
    struct ifaddrmsg header = {.ifa_family = AF_UNSPEC};
    struct nl_msg *message = nlmsg_alloc_simple(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP);
    int failed = message && nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO) < 0;
    return send_message(socket, message, failed, sequence);
}

int32_t cnl_request_route(cnl_socket *socket, const cnl_route_query *query, uint32_t *sequence)
{
    bool is_ipv4 = query->destination.family == AF_INET;
    uint8_t size = is_ipv4 ? 4 : 16;
    // IPv6 always answers with the table the route was found in, and with strict checking refuses to be asked for it
    // (inet6_rtm_valid_getroute_req, net/ipv6/route.c): its EINVAL would look like a blackhole.
    struct rtmsg header = {
        .rtm_family = query->destination.family,
        .rtm_dst_len = (uint8_t)(size * 8),
        .rtm_flags = (is_ipv4 ? RTM_F_LOOKUP_TABLE : 0) | (query->wants_match ? RTM_F_FIB_MATCH : 0),
    };
    struct nl_msg *message = nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST);
    int failed = message
        && (nlmsg_append(message, &header, sizeof header, NLMSG_ALIGNTO) < 0
            || nla_put(message, RTA_DST, size, query->destination.bytes) < 0
            || (query->interface && nla_put_u32(message, RTA_OIF, query->interface) < 0)
            || (query->has_mark && nla_put_u32(message, RTA_MARK, query->mark) < 0)
            || (query->has_uid && nla_put_u32(message, RTA_UID, query->uid) < 0));
    return send_message(socket, message, failed, sequence);
}
