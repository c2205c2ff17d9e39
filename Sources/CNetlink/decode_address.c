// RTM_NEWADDR and RTM_DELADDR.
#include "internal.h"

#include <linux/if_addr.h>

_Static_assert(sizeof(struct ifaddrmsg) == 8, "rtnetlink(7)");
_Static_assert(CNL_ADDRESS_TENTATIVE == IFA_F_TENTATIVE && CNL_ADDRESS_DADFAILED == IFA_F_DADFAILED
               && CNL_ADDRESS_OPTIMISTIC == IFA_F_OPTIMISTIC,
               "the reader of cnl_interface_address.flags relies on these");
_Static_assert(RT_SCOPE_UNIVERSE == 0 && RT_SCOPE_LINK == 253 && RT_SCOPE_HOST == 254, "the kernel's numbers are ABI");

/// The highest attribute that is read.
enum { LAST = IFA_FLAGS };

#define POLICY(address_length) {                \
    [IFA_ADDRESS] = CNL_EXACTLY(address_length), \
    [IFA_LOCAL] = CNL_EXACTLY(address_length),   \
    [IFA_FLAGS] = CNL_EXACTLY(4),                \
}
static const struct nla_policy ipv4_policy[LAST + 1] = POLICY(4);
static const struct nla_policy ipv6_policy[LAST + 1] = POLICY(16);

bool cnl_decode_address(const struct nlmsghdr *header, cnl_message *message) {
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct ifaddrmsg)) { return false; }
    const struct ifaddrmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ifa_family;
    const size_t address_length = cnl_address_length(fixed->ifa_family);
    if (address_length == 0) { return true; }
    if (fixed->ifa_index == 0 || fixed->ifa_prefixlen > address_length * 8) { return false; }
    struct nlattr *table[LAST + 1];
    const bool is_ipv6 = fixed->ifa_family == AF_INET6;
    if (!cnl_parse_message(header, sizeof *fixed, table, LAST, is_ipv6 ? ipv6_policy : ipv4_policy)) { return false; }
    cnl_interface_address *address = &message->address;
    address->interface = fixed->ifa_index;
    address->prefix_length = fixed->ifa_prefixlen;
    address->scope = fixed->ifa_scope;
    address->flags = cnl_u32(table[IFA_FLAGS], fixed->ifa_flags);
    // Without a peer IPv6 has no IFA_LOCAL (net/ipv6/addrconf.c, inet6_fill_ifaddr), and IPv4 leaves out 0.0.0.0
    // (net/ipv4/devinet.c, inet_fill_ifaddr).
    address->local.family = is_ipv6 ? 0 : AF_INET;
    cnl_read_address(table[IFA_LOCAL] != NULL || !is_ipv6 ? table[IFA_LOCAL] : table[IFA_ADDRESS], fixed->ifa_family,
                     &address->local);
    if (address->local.family == 0) { return false; }
    message->kind = header->nlmsg_type == RTM_NEWADDR ? CNL_ADDRESS : CNL_ADDRESS_GONE;
    return true;
}
