// Attributes and the values in them, shared by the decoders.
#include "internal.h"

#include <netinet/in.h>

_Static_assert(AF_INET == 2 && AF_INET6 == 10, "the reader of cnl_address relies on these");
_Static_assert(sizeof(struct in_addr) == 4 && sizeof(struct in6_addr) == sizeof(((cnl_address *)0)->bytes), "address sizes");
_Static_assert(sizeof(struct nlattr) == 4 && NLA_HDRLEN == 4, "netlink(7): an attribute starts with 4 bytes");

/// Returns true if the attributes fill `length`; only the padding of the last one may be missing.
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
    // libnl takes the attributes as not const and only reads them.
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
    // Both inline: no call into the C library lies between an event and its verdict for this.
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
