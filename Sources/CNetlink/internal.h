// What the files of this target share. The only header that includes libnl's.
#ifndef CNL_INTERNAL_H
#define CNL_INTERNAL_H

#include "cnetlink.h"

#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

struct cnl_socket {
    struct nl_sock *socket;
    uint32_t sequence;
};

/// The address in an attribute, if it has the right size for the family; otherwise none.
cnl_address cnl_address_from(uint8_t family, const struct nlattr *attribute);

/// Decoders of a message's payload. They return false if it is malformed.
bool cnl_decode_link(struct nlmsghdr *header, cnl_message *message);
bool cnl_decode_address(struct nlmsghdr *header, cnl_message *message);
bool cnl_decode_route(struct nlmsghdr *header, cnl_message *message);

/// Hands a message to libnl-route's parser and the object it makes to `body`. Returns false if libnl refuses it.
bool cnl_parse(struct nlmsghdr *header, void (*body)(struct nl_object *object, void *context), void *context);

#endif
