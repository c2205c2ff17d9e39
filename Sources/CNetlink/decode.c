// Decoding a datagram: message boundaries, control messages, the choice of a decoder, and the attributes that all of them read.
#include "internal.h"

#include <netinet/in.h>
#include <stdlib.h>

_Static_assert(sizeof(struct nlmsghdr) == 16 && NLMSG_HDRLEN == 16, "rtnetlink(7): a message starts with 16 bytes");
_Static_assert(sizeof(struct nlmsgerr) == 20, "NLMSG_ERROR: the errno and the header of the request");
_Static_assert(NLM_F_DUMP_INTR == 0x10 && NLM_F_REPLACE == 0x100, "the kernel's numbers are ABI");
_Static_assert(RTM_NEWNETCONF == 80 && RTM_DELNETCONF == 81, "the kernel's numbers are ABI");
_Static_assert(RTM_NEWNEXTHOP == 104 && RTM_DELNEXTHOP == 105, "the kernel's numbers are ABI");

static bool decode_done(const struct nlmsghdr *header, cnl_message *message) {
    const int length = NLMSG_PAYLOAD(header, 0);
    int32_t error = 0;
    if (length != 0 && length < (int)sizeof error) { return false; }
    if (length != 0) { memcpy(&error, NLMSG_DATA(header), sizeof error); }
    message->kind = CNL_DONE;
    message->error = cnl_positive_errno(error);
    return true;
}

static bool decode_error(const struct nlmsghdr *header, cnl_message *message) {
    struct nlmsgerr payload;
    if (NLMSG_PAYLOAD(header, 0) < sizeof payload) { return false; }
    memcpy(&payload, NLMSG_DATA(header), sizeof payload);
    message->kind = CNL_ERROR;
    message->error = cnl_positive_errno(payload.error);
    return true;
}

static bool decode_body(const struct nlmsghdr *header, cnl_message *message) {
    switch (header->nlmsg_type) {
    case NLMSG_DONE: return decode_done(header, message);
    case NLMSG_ERROR: return decode_error(header, message);
    case NLMSG_OVERRUN: message->kind = CNL_OVERRUN; return true;
    case RTM_NEWLINK: case RTM_DELLINK: return cnl_decode_link(header, message);
    case RTM_NEWADDR: case RTM_DELADDR: return cnl_decode_address(header, message);
    case RTM_NEWROUTE: case RTM_DELROUTE: return cnl_decode_route(header, message);
    case RTM_NEWRULE: case RTM_DELRULE: return cnl_decode_rule(header, message);
    case RTM_NEWNEXTHOP: case RTM_DELNEXTHOP: return cnl_decode_nexthop(header, message);
    case RTM_NEWNEIGH: case RTM_DELNEIGH: return cnl_decode_neighbour(header, message);
    case RTM_NEWNETCONF: case RTM_DELNETCONF: return cnl_decode_netconf(header, message);
    default: return true;
    }
}

// memset and not an initializer: two decodings of the same bytes are then equal byte for byte, padding included.
static void start(cnl_message *message, const struct nlmsghdr *header) {
    memset(message, 0, sizeof *message);
    message->sequence = header->nlmsg_seq;
    message->is_interrupted = (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    // Below the first real type the same bit means NLM_F_CAPPED (linux/netlink.h).
    message->is_replacement = header->nlmsg_type >= NLMSG_MIN_TYPE && (header->nlmsg_flags & NLM_F_REPLACE) != 0;
}

/// Decodes a message, `offset` bytes from the start of its datagram.
static void decode_message(const struct nlmsghdr *header, size_t offset, cnl_message *message) {
    start(message, header);
    if (decode_body(header, message)) {
        if (message->link.names_length != 0) { message->link.names_offset += (uint32_t)offset; }
        if (message->route.hops_length != 0) { message->route.hops_offset += (uint32_t)offset; }
        return;
    }
    start(message, header);
    message->kind = CNL_MALFORMED;
}

bool cnl_decode(const void *bytes, size_t length, size_t *offset, cnl_message *message) {
    if (*offset >= length) { return false; }
    const size_t place = *offset;
    const unsigned char *start_of_message = (const unsigned char *)bytes + place;
    const size_t left = length - *offset;
    struct nlmsghdr header;
    if (left >= sizeof header) { memcpy(&header, start_of_message, sizeof header); }
    if (left < sizeof header || header.nlmsg_len < sizeof header || header.nlmsg_len > left) {
        memset(message, 0, sizeof *message);
        message->kind = CNL_MALFORMED;
        *offset = length;
        return true;
    }
    // The last message of a datagram may lack its padding.
    const size_t step = NLMSG_ALIGN((size_t)header.nlmsg_len);
    *offset += step < left ? step : left;
    if ((uintptr_t)start_of_message % NLMSG_ALIGNTO == 0) {
        decode_message((const struct nlmsghdr *)(const void *)start_of_message, place, message);
        return true;
    }
    // A datagram inside a file may be misaligned: its structs must not be read in place.
    struct nlmsghdr *copy = malloc(header.nlmsg_len);
    if (copy == NULL) {
        message->kind = CNL_MALFORMED;
        return true;
    }
    memcpy(copy, start_of_message, header.nlmsg_len);
    decode_message(copy, place, message);
    free(copy);
    return true;
}

_Static_assert(AF_INET == 2 && AF_INET6 == 10, "the reader of cnl_address relies on these");
_Static_assert(sizeof(struct in_addr) == 4 && sizeof(struct in6_addr) == sizeof(((cnl_address *)0)->bytes), "address sizes");
_Static_assert(sizeof(struct nlattr) == 4 && NLA_HDRLEN == 4, "netlink(7): an attribute starts with 4 bytes");

/// Returns true if the attributes fill `length`; only the last one may lack its padding.
// nla_parse stops at an attribute that does not fit and reports success ("leftover after parsing", lib/attr.c).
static bool add_up(const struct nlattr *attribute, int length) {
    while (length >= NLA_HDRLEN && attribute->nla_len >= NLA_HDRLEN && attribute->nla_len <= length) {
        const int size = NLA_ALIGN(attribute->nla_len);
        length -= size;
        attribute = (const struct nlattr *)(const void *)((const char *)attribute + size);
    }
    return length <= 0;
}

bool cnl_parse(const void *first, int length, struct nlattr **table, int last, const struct nla_policy *policy) {
    // libnl declares the attributes as not const and only reads them.
    return add_up(first, length) && nla_parse(table, last, (struct nlattr *)first, length, policy) >= 0;
}

bool cnl_parse_message(const struct nlmsghdr *header, int size, struct nlattr **table, int last, const struct nla_policy *policy) {
    // A message may end inside the padding of its fixed part: the length is negative then, and there are no attributes.
    const int length = (int)header->nlmsg_len - NLMSG_HDRLEN - NLMSG_ALIGN(size);
    return header->nlmsg_len >= (uint32_t)(NLMSG_HDRLEN + size)
        && cnl_parse((const char *)header + NLMSG_HDRLEN + NLMSG_ALIGN(size), length, table, last, policy);
}

size_t cnl_address_length(uint8_t family) {
    switch (family) {
    case AF_INET: return sizeof(struct in_addr);
    case AF_INET6: return sizeof(struct in6_addr);
    default: return 0;
    }
}

bool cnl_make_address(uint8_t family, const void *bytes, size_t length, cnl_address *address) {
    if (length == 0 || length != cnl_address_length(family)) { return false; }
    memset(address, 0, sizeof *address);
    address->family = family;
    // Two constant lengths: the compiler inlines both copies, which lie between an event and its verdict.
    if (length == sizeof(struct in_addr)) {
        memcpy(address->bytes, bytes, sizeof(struct in_addr));
    } else {
        memcpy(address->bytes, bytes, sizeof(struct in6_addr));
    }
    return true;
}

void cnl_read_address(const struct nlattr *attribute, uint8_t family, cnl_address *address) {
    if (attribute != NULL) { cnl_make_address(family, cnl_payload(attribute), cnl_address_length(family), address); }
}
