// Dump requests.
#define _GNU_SOURCE
#include "internal.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>

// Not nl_send_auto: it would turn the errno of a failed send into an NLE_ code.
static int32_t send_message(cnl_socket *socket, struct nl_msg *message, uint32_t *sequence) {
    struct nlmsghdr *header = nlmsg_hdr(message);
    header->nlmsg_seq = ++socket->sequence;
    nl_complete_msg(socket->handle, message);
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
    struct nl_msg *message = nlmsg_alloc_simple(type, flags);
    if (message == NULL) { return NULL; }
    // libnl takes the bytes to copy as `void *` and only reads them.
    if (nlmsg_append(message, (void *)fixed, size, NLMSG_ALIGNTO) < 0) {
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
