// Requests: dumps, single entries, and route lookups.
#define _GNU_SOURCE
#include "internal.h"

#include <arpa/inet.h>

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/xfrm.h>

/// Sends requests. Returns 0 or a negative errno, which nl_send_auto would turn into an NLE_ code.
static int32_t send_to_kernel(cnl_socket *socket, const void *requests, size_t length) {
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    ssize_t sent;
    do {
        sent = sendto(socket->descriptor, requests, length, 0, (const struct sockaddr *)&kernel, sizeof kernel);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static int32_t send_message(cnl_socket *socket, struct nl_msg *message, uint32_t *sequence) {
    struct nlmsghdr *header = nlmsg_hdr(message);
    header->nlmsg_seq = ++socket->sequence;
    nl_complete_msg(socket->handle, message);
    const int32_t error = send_to_kernel(socket, header, header->nlmsg_len);
    if (error == 0) { *sequence = header->nlmsg_seq; }
    return error;
}

// A strict socket rejects a dump with another header than the type's own (a lenient one accepts rtgenmsg): NLMSG_DONE then
// carries -EINVAL (net/core/rtnetlink.c, rtnl_valid_dump_ifinfo_req; net/ipv4/devinet.c, inet_valid_dump_ifaddr_req).
static struct nl_msg *make_message(int type, int flags, const void *fixed, size_t size) {
    struct nl_msg *message = nlmsg_alloc_simple(type, flags);
    if (message == NULL) { return NULL; }
    // libnl declares the bytes as `void *` and only reads them.
    if (nlmsg_append(message, (void *)fixed, size, NLMSG_ALIGNTO) < 0) {
        nlmsg_free(message);
        return NULL;
    }
    return message;
}

/// An attribute of a request; no payload ends a list.
typedef struct {
    int type;
    const void *payload;
    size_t size;
} attribute;

/// Sends a request with up to two attributes.
static int32_t request(cnl_socket *socket, int type, int flags, const void *fixed, size_t size, const attribute attributes[2],
                       uint32_t *sequence) {
    *sequence = 0;
    struct nl_msg *message = make_message(type, NLM_F_REQUEST | flags, fixed, size);
    if (message == NULL) { return -ENOMEM; }
    int32_t error = 0;
    for (size_t index = 0; index < 2 && attributes[index].payload != NULL; index++) {
        const attribute *added = &attributes[index];
        if (nla_put(message, added->type, (int)added->size, added->payload) < 0) { error = -ENOMEM; }
    }
    if (error == 0) { error = send_message(socket, message, sequence); }
    nlmsg_free(message);
    return error;
}

static const uint32_t without_statistics = RTEXT_FILTER_SKIP_STATS;

int32_t cnl_request_links(cnl_socket *socket, uint32_t *sequence) {
    const struct ifinfomsg fixed = { .ifi_family = AF_UNSPEC };
    const attribute attributes[2] = { { IFLA_EXT_MASK, &without_statistics, sizeof without_statistics } };
    return request(socket, RTM_GETLINK, NLM_F_DUMP, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_link(cnl_socket *socket, uint32_t index, uint32_t *sequence) {
    const struct ifinfomsg fixed = { .ifi_family = AF_UNSPEC, .ifi_index = (int)index };
    const attribute attributes[2] = { { IFLA_EXT_MASK, &without_statistics, sizeof without_statistics } };
    return request(socket, RTM_GETLINK, 0, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_addresses(cnl_socket *socket, uint32_t *sequence) {
    const struct ifaddrmsg fixed = { .ifa_family = AF_UNSPEC };
    return request(socket, RTM_GETADDR, NLM_F_DUMP, &fixed, sizeof fixed, (const attribute[2]){ { 0 } }, sequence);
}

int32_t cnl_request_routes(cnl_socket *socket, uint8_t family, uint32_t interface, uint32_t *sequence) {
    const struct rtmsg fixed = { .rtm_family = family };
    const attribute attributes[2] = { { RTA_OIF, &interface, sizeof interface } };
    return request(socket, RTM_GETROUTE, NLM_F_DUMP, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_neighbour(cnl_socket *socket, uint32_t interface, const cnl_address *address, uint32_t *sequence) {
    const struct ndmsg fixed = { .ndm_family = address->family, .ndm_ifindex = (int)interface };
    const attribute attributes[2] = { { NDA_DST, address->bytes, cnl_address_length(address->family) } };
    return request(socket, RTM_GETNEIGH, 0, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_port(cnl_socket *socket, uint32_t bridge, const uint8_t *hardware_address, size_t length, uint32_t *sequence) {
    const struct ndmsg fixed = { .ndm_family = AF_BRIDGE };
    const attribute attributes[2] = {
        { NDA_LLADDR, hardware_address, length }, { NDA_MASTER, &bridge, sizeof bridge },
    };
    return request(socket, RTM_GETNEIGH, 0, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_ports(cnl_socket *socket, uint32_t bridge, uint32_t *sequence) {
    const struct ndmsg fixed = { .ndm_family = AF_BRIDGE };
    const attribute attributes[2] = { { NDA_MASTER, &bridge, sizeof bridge } };
    return request(socket, RTM_GETNEIGH, NLM_F_DUMP, &fixed, sizeof fixed, attributes, sequence);
}

int32_t cnl_request_policies(cnl_socket *socket, uint32_t *sequence) {
    const struct xfrm_userpolicy_id fixed = { .dir = XFRM_POLICY_OUT };
    return request(socket, XFRM_MSG_GETPOLICY, NLM_F_DUMP, &fixed, sizeof fixed, (const attribute[2]){ { 0 } }, sequence);
}

// A verdict takes several lookups. All of them travel in one datagram and all answers are read in one call, because system calls
// are most of the cost.

/// The size of the largest request: an IPv6 destination with every optional attribute.
#define REQUEST_SIZE 108
/// The size of an answer; the kernel makes no larger one (NLMSG_GOODSIZE, inet_rtm_getroute and inet6_rtm_getroute).
#define ANSWER_SIZE (CNL_BUFFER_SIZE / CNL_LOOKUP_LIMIT)

_Static_assert(ANSWER_SIZE >= 8192, "NLMSG_GOODSIZE is at most 8192, also where pages are larger (linux/netlink.h)");
_Static_assert(NLMSG_LENGTH(sizeof(struct rtmsg)) + 2 * (NLA_HDRLEN + sizeof(struct in6_addr))
               + 5 * (NLA_HDRLEN + sizeof(uint32_t)) == REQUEST_SIZE, "the largest request fits");

// libnl would allocate memory for each message.
static void put(struct nlmsghdr *header, uint16_t type, const void *payload, size_t size) {
    struct nlattr *attribute = (struct nlattr *)((char *)header + header->nlmsg_len);
    attribute->nla_type = type;
    attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
    memcpy((char *)attribute + NLA_HDRLEN, payload, size);
    const uint32_t end = header->nlmsg_len + attribute->nla_len;
    header->nlmsg_len += NLA_ALIGN(attribute->nla_len);
    memset((char *)header + end, 0, header->nlmsg_len - end);
}

/// Writes a request and returns its length, or 0 if the destination has no family.
static size_t write_request(void *place, const cnl_route_query *query, uint32_t port, uint32_t sequence) {
    const size_t length = cnl_address_length(query->destination.family);
    if (length == 0) { return 0; }
    struct nlmsghdr *header = place;
    *header = (struct nlmsghdr){
        .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)), .nlmsg_type = RTM_GETROUTE, .nlmsg_flags = NLM_F_REQUEST,
        .nlmsg_seq = sequence, .nlmsg_pid = port,
    };
    // Without RTM_F_LOOKUP_TABLE an IPv4 answer claims the main table. An IPv6 answer always names the real one, and a
    // strict socket refuses the flag there with EINVAL (net/ipv6/route.c, inet6_rtm_valid_getroute_req).
    const uint32_t table = query->destination.family == AF_INET ? RTM_F_LOOKUP_TABLE : 0;
    *(struct rtmsg *)NLMSG_DATA(header) = (struct rtmsg){
        .rtm_family = query->destination.family,
        .rtm_dst_len = (unsigned char)(length * 8),
        .rtm_tos = query->type_of_service,
        .rtm_src_len = (unsigned char)(query->source.family == query->destination.family ? length * 8 : 0),
        .rtm_flags = table | (query->fib_match ? RTM_F_FIB_MATCH : 0),
    };
    put(header, RTA_DST, query->destination.bytes, length);
    if (query->source.family == query->destination.family) { put(header, RTA_SRC, query->source.bytes, length); }
    if (query->interface != 0) { put(header, RTA_OIF, &query->interface, sizeof query->interface); }
    if (query->has_mark) { put(header, RTA_MARK, &query->mark, sizeof query->mark); }
    if (query->has_uid) { put(header, RTA_UID, &query->uid, sizeof query->uid); }
    // Rules may select by these (since Linux 4.17; earlier kernels ignore the attributes).
    if (query->transport != 0) { put(header, RTA_IP_PROTO, &query->transport, sizeof query->transport); }
    if (query->port != 0) {
        const uint16_t port = htons(query->port);
        put(header, RTA_DPORT, &port, sizeof port);
    }
    return header->nlmsg_len;
}

/// Reads the answers in a datagram. Returns the number of queries that they answer.
static size_t read_answers(const void *buffer, size_t place, size_t length, const uint32_t *sequences, size_t count,
                           cnl_message *answers) {
    size_t answered = 0, offset = 0;
    cnl_message message;
    while (cnl_decode((const char *)buffer + place, length, &offset, &message)) {
        // Skip acknowledgements.
        if (message.kind != CNL_ROUTE && (message.kind != CNL_ERROR || message.error == 0)) { continue; }
        for (size_t index = 0; index < count; index++) {
            if (message.sequence != sequences[index] || answers[index].kind != CNL_OTHER) { continue; }
            answers[index] = message;
            if (message.route.hops_length != 0) { answers[index].route.hops_offset += (uint32_t)place; }
            answered++;
        }
    }
    return answered;
}

int32_t cnl_lookup(cnl_socket *socket, const cnl_route_query *queries, size_t count, void *buffer, cnl_message *answers) {
    if (count == 0 || count > CNL_LOOKUP_LIMIT) { return -EINVAL; }
    _Alignas(struct nlmsghdr) char requests[CNL_LOOKUP_LIMIT * REQUEST_SIZE];
    uint32_t sequences[CNL_LOOKUP_LIMIT];
    size_t length = 0;
    for (size_t index = 0; index < count; index++) {
        sequences[index] = ++socket->sequence;
        const size_t size = write_request(requests + length, &queries[index], socket->port, sequences[index]);
        if (size == 0) { return -EAFNOSUPPORT; }
        length += size;
        answers[index].kind = CNL_OTHER;
    }
    const int32_t error = send_to_kernel(socket, requests, length);
    if (error != 0) { return error; }
    // Next hops are read from the buffer later, so no answer overwrites another.
    size_t used = 0;
    for (size_t answered = 0; answered < count;) {
        struct sockaddr_nl senders[CNL_LOOKUP_LIMIT];
        struct iovec spaces[CNL_LOOKUP_LIMIT];
        struct mmsghdr datagrams[CNL_LOOKUP_LIMIT];
        const size_t missing = count - answered;
        for (size_t index = 0; index < missing; index++) {
            spaces[index] = (struct iovec){ .iov_base = (char *)buffer + (used + index) * ANSWER_SIZE, .iov_len = ANSWER_SIZE };
            datagrams[index].msg_hdr = (struct msghdr){
                .msg_name = &senders[index], .msg_namelen = sizeof senders[index], .msg_iov = &spaces[index], .msg_iovlen = 1,
            };
        }
        const int received = recvmmsg(socket->descriptor, datagrams, (unsigned)missing, MSG_WAITFORONE, NULL);
        if (received < 0 && errno == EINTR) { continue; }
        // SO_RCVTIMEO ends a wait with EAGAIN (socket(7)).
        if (received < 0) { return errno == EAGAIN ? -ETIMEDOUT : -errno; }
        for (int index = 0; index < received; index++) {
            if (senders[index].nl_pid != 0) { continue; }
            if (datagrams[index].msg_hdr.msg_flags & MSG_TRUNC) { return -EMSGSIZE; }
            // In the place of one that answers nothing.
            char *place = (char *)buffer + used * ANSWER_SIZE;
            if (place != spaces[index].iov_base) { memmove(place, spaces[index].iov_base, datagrams[index].msg_len); }
            const size_t found = read_answers(buffer, used * ANSWER_SIZE, datagrams[index].msg_len, sequences, count, answers);
            if (found != 0) {
                answered += found;
                used++;
            }
        }
    }
    return 0;
}
