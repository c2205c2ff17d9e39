// Bounded access to attributes, shared by the decoders.
#include "internal.h"

#include <netinet/in.h>

_Static_assert(AF_INET == 2 && AF_INET6 == 10, "the reader of cnl_address relies on these");
_Static_assert(sizeof(struct in_addr) == 4 && sizeof(struct in6_addr) == sizeof(((cnl_address *)0)->bytes), "address sizes");
_Static_assert(sizeof(struct nlattr) == 4 && NLA_HDRLEN == 4, "netlink(7): an attribute starts with 4 bytes");

bool cnl_attributes(const struct nlmsghdr *header, int size, struct nlattr **first, int *length) {
    if (header->nlmsg_len < (uint32_t)(NLMSG_HDRLEN + size)) { return false; }
    *first = (struct nlattr *)((char *)header + NLMSG_HDRLEN + NLMSG_ALIGN(size));
    // Negative when the message ends inside the padding of its fixed part; nla_ok then stops at once.
    *length = (int)header->nlmsg_len - NLMSG_HDRLEN - NLMSG_ALIGN(size);
    return true;
}

bool cnl_read_u32(const struct nlattr *attribute, uint32_t *value) {
    if (cnl_attribute_length(attribute) != (int)sizeof *value) { return false; }
    memcpy(value, cnl_attribute_data(attribute), sizeof *value);
    return true;
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
