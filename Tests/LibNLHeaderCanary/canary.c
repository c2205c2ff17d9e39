// Compiles only while cnetlink.h shows nothing of libnl, neither its headers nor its names. The include path cannot be
// the test: libnl's travels with CNetlink to every target that depends on it.
#include "cnetlink.h"

#if defined(NETLINK_NETLINK_H_) || defined(NETLINK_TYPES_H_) || defined(NETLINK_SOCKET_H_) || defined(NETLINK_MSG_H_) \
    || defined(NETLINK_ATTR_H_) || defined(NETLINK_OBJECT_H_) || defined(NETLINK_ERRNO_H_) || defined(NETLINK_RTNL_H_) \
    || defined(NETLINK_LINK_H_) || defined(NETADDR_ADDR_H_) || defined(NETLINK_ADDR_H_)
#error "cnetlink.h includes a header of libnl: an embedder would have to install libnl's headers"
#endif

// The kernel's headers for netlink stay inside as well: their macros and structs would become part of the interface.
#if defined(RTM_NEWLINK) || defined(NLMSG_ALIGNTO)
#error "cnetlink.h includes linux/netlink.h or linux/rtnetlink.h"
#endif

// A second kind of entity with a visible name is an error, whatever header it came from.
enum libnl_is_hidden {
    nl_socket_alloc, nl_connect, nl_msg_parse, nl_geterror, nlmsg_alloc, nlmsg_parse, nla_put, nla_parse,
    nl_addr_get_len, rtnl_link_get_name, rtnl_addr_get_local, nl_list_head, nla_policy
};
