// RTM_NEWADDR and RTM_DELADDR.
#include "internal.h"

#include <linux/if_addr.h>

#include <netlink/addr.h>
#include <netlink/route/addr.h>

_Static_assert(sizeof(struct ifaddrmsg) == 8, "rtnetlink(7)");
_Static_assert(CNL_ADDRESS_TENTATIVE == IFA_F_TENTATIVE && CNL_ADDRESS_DADFAILED == IFA_F_DADFAILED
               && CNL_ADDRESS_OPTIMISTIC == IFA_F_OPTIMISTIC,
               "the reader of cnl_interface_address.flags relies on these");
_Static_assert(RT_SCOPE_UNIVERSE == 0 && RT_SCOPE_LINK == 253 && RT_SCOPE_HOST == 254, "the kernel's numbers are ABI");

struct excerpt {
    const struct nlattr *local;
    const struct nlattr *address;
    const struct nlattr *flags;
};

static bool find(struct nlattr *first, int length, int address_length, struct excerpt *excerpt) {
    struct nlattr *attribute;
    int left;
    bool is_sound = true;
    nla_for_each_attr(attribute, first, length, left) {
        switch (nla_type(attribute)) {
        case IFA_LOCAL: excerpt->local = attribute; is_sound &= nla_len(attribute) == address_length; break;
        case IFA_ADDRESS: excerpt->address = attribute; is_sound &= nla_len(attribute) == address_length; break;
        case IFA_FLAGS: excerpt->flags = attribute; is_sound &= nla_len(attribute) == 4; break;
        }
    }
    return is_sound && left <= 0;
}

static bool put(struct nl_msg *message, int type, const struct nlattr *attribute) {
    return attribute == NULL || nla_put(message, type, nla_len(attribute), nla_data(attribute)) >= 0;
}

static void read_address(struct nl_object *object, void *context) {
    struct rtnl_addr *from = (struct rtnl_addr *)object;
    cnl_interface_address *to = context;
    to->interface = (uint32_t)rtnl_addr_get_ifindex(from);
    to->flags = rtnl_addr_get_flags(from);
    to->prefix_length = (uint8_t)rtnl_addr_get_prefixlen(from);
    to->scope = (uint8_t)rtnl_addr_get_scope(from);
    // Without IFA_LOCAL libnl answers with IFA_ADDRESS for IPv6 (there is no peer), with 0.0.0.0 for IPv4 (that is the
    // address: net/ipv4/devinet.c, inet_fill_ifaddr leaves out zeros), and with nothing if an IPv6 message has neither.
    struct nl_addr *local = rtnl_addr_get_local(from);
    if (local != NULL) {
        cnl_make_address((uint8_t)rtnl_addr_get_family(from), nl_addr_get_binary_addr(local), nl_addr_get_len(local), &to->local);
    }
}

bool cnl_decode_address(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int length;
    if (!cnl_attributes(header, sizeof(struct ifaddrmsg), &first, &length)) { return false; }
    const struct ifaddrmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ifa_family;
    const size_t address_length = cnl_address_length(fixed->ifa_family);
    if (address_length == 0) { return true; }
    struct excerpt excerpt = { 0 };
    if (!find(first, length, (int)address_length, &excerpt)) { return false; }
    if (fixed->ifa_index == 0 || fixed->ifa_prefixlen > address_length * 8) { return false; }
    struct nl_msg *copy = cnl_excerpt(header, sizeof *fixed);
    if (copy == NULL) { return false; }
    const bool is_understood = put(copy, IFA_LOCAL, excerpt.local)
        && put(copy, IFA_ADDRESS, excerpt.address)
        && put(copy, IFA_FLAGS, excerpt.flags)
        && cnl_parse(copy, read_address, &message->address);
    nlmsg_free(copy);
    if (!is_understood || message->address.local.family != fixed->ifa_family) { return false; }
    message->kind = header->nlmsg_type == RTM_NEWADDR ? CNL_ADDRESS : CNL_ADDRESS_GONE;
    return true;
}
