// Dump and lookup requests.
#define _GNU_SOURCE
#include "internal.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>

/// Room for the largest request here: a look-up of an IPv6 address with all that can qualify it takes 72 bytes.
#define REQUEST_SIZE 128

// Not nl_send_auto: it would turn the errno of a failed send into an NLE_ code.
static int32_t send_message(cnl_socket *socket, struct nl_msg *message, uint32_t *sequence) {
    nl_complete_msg(socket->handle, message);
    const struct nlmsghdr *header = nlmsg_hdr(message);
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t sent;
    do {
        sent = sendto(socket->descriptor, header, header->nlmsg_len, 0, (const struct sockaddr *)&kernel, sizeof kernel);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) { return -errno; }
    *sequence = header->nlmsg_seq;
    return 0;
}

// A strict socket rejects a dump whose header is not the type's own (rtgenmsg would do for a lenient one), with -EINVAL
// in NLMSG_DONE (net/core/rtnetlink.c, rtnl_valid_dump_ifinfo_req; net/ipv4/devinet.c, inet_valid_dump_ifaddr_req).
static struct nl_msg *make_message(int type, int flags, const void *fixed, size_t size) {
    // Not nlmsg_alloc_simple: it clears a page for each message, and a verdict takes several.
    struct nl_msg *message = nlmsg_alloc_size(REQUEST_SIZE);
    if (message == NULL) { return NULL; }
    // libnl takes the bytes to copy as `void *` and only reads them.
    if (nlmsg_put(message, NL_AUTO_PORT, NL_AUTO_SEQ, type, 0, flags) == NULL
        || nlmsg_append(message, (void *)fixed, size, NLMSG_ALIGNTO) < 0) {
        nlmsg_free(message);
        return NULL;
    }
    return message;
}

int32_t cnl_request_links(cnl_socket *socket, uint32_t *sequence) {
    *sequence = 0;
    const struct ifinfomsg fixed = { .ifi_family = AF_UNSPEC };
    struct nl_msg *message = make_message(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, &fixed, sizeof fixed);
    if (message == NULL) { return -ENOMEM; }
    int32_t error = nla_put_u32(message, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0
        ? -ENOMEM : send_message(socket, message, sequence);
    nlmsg_free(message);
    return error;
}

int32_t cnl_request_addresses(cnl_socket *socket, uint32_t *sequence) {
    *sequence = 0;
    const struct ifaddrmsg fixed = { .ifa_family = AF_UNSPEC };
    struct nl_msg *message = make_message(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, &fixed, sizeof fixed);
    if (message == NULL) { return -ENOMEM; }
    int32_t error = send_message(socket, message, sequence);
    nlmsg_free(message);
    return error;
}

static bool put_query(struct nl_msg *message, const cnl_route_query *query, size_t length) {
    return nla_put(message, RTA_DST, (int)length, query->destination.bytes) >= 0
        && (query->interface == 0 || nla_put_u32(message, RTA_OIF, query->interface) >= 0)
        && (!query->has_mark || nla_put_u32(message, RTA_MARK, query->mark) >= 0)
        && (!query->has_uid || nla_put_u32(message, RTA_UID, query->uid) >= 0);
}

int32_t cnl_request_route(cnl_socket *socket, const cnl_route_query *query, uint32_t *sequence) {
    *sequence = 0;
    const size_t length = cnl_address_length(query->destination.family);
    if (length == 0) { return -EAFNOSUPPORT; }
    // Without RTM_F_LOOKUP_TABLE an IPv4 answer claims the main table. An IPv6 answer always names the real one, and a
    // strict socket refuses the flag there with EINVAL (net/ipv6/route.c, inet6_rtm_valid_getroute_req).
    const uint32_t table = query->destination.family == AF_INET ? RTM_F_LOOKUP_TABLE : 0;
    const struct rtmsg fixed = {
        .rtm_family = query->destination.family,
        .rtm_dst_len = (unsigned char)(length * 8),
        .rtm_flags = table | (query->wants_match ? RTM_F_FIB_MATCH : 0),
    };
    struct nl_msg *message = make_message(RTM_GETROUTE, NLM_F_REQUEST, &fixed, sizeof fixed);
    if (message == NULL) { return -ENOMEM; }
    int32_t error = put_query(message, query, length) ? send_message(socket, message, sequence) : -ENOMEM;
    nlmsg_free(message);
    return error;
}
