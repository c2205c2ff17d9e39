// Links and their addresses: RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR and RTM_DELADDR.
//
// libnl's rtnl_link is not used: 3.7 parses every attribute it knows, IFLA_INFO_DATA and IFLA_AF_SPEC included, and rejects the
// whole message if a newer kernel changes the shape of one of them. A live interface would be missing.
#include "internal.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>

_Static_assert(CNL_NAME_SIZE == IFNAMSIZ, "an interface name fits, with its NUL");
_Static_assert(sizeof(struct ifinfomsg) == 16, "rtnetlink(7)");
_Static_assert(CNL_LINK_UP == IFF_UP && CNL_LINK_POINT_TO_POINT == IFF_POINTOPOINT && CNL_LINK_LOWER_UP == IFF_LOWER_UP,
               "the reader of cnl_link.flags relies on these");
_Static_assert(IF_OPER_UNKNOWN == 0 && IF_OPER_DORMANT == 5 && IF_OPER_UP == 6, "RFC 2863 as numbered by linux/if.h");
_Static_assert(CNL_HARDWARE_ETHERNET == ARPHRD_ETHER && CNL_HARDWARE_LOOPBACK == ARPHRD_LOOPBACK
    && CNL_HARDWARE_PPP == ARPHRD_PPP && CNL_HARDWARE_RAWIP == ARPHRD_RAWIP && CNL_HARDWARE_NONE == ARPHRD_NONE,
    "the reader of cnl_link.hardware_type relies on these");

/// The highest attribute that is read.
enum { LAST_OF_LINK = IFLA_CARRIER_CHANGES };

static const struct nla_policy link_policy[LAST_OF_LINK + 1] = {
    [IFLA_IFNAME] = { .type = NLA_STRING, .maxlen = IFNAMSIZ },
    [IFLA_MASTER] = CNL_EXACTLY(4),
    [IFLA_OPERSTATE] = CNL_EXACTLY(1),
    [IFLA_LINKINFO] = { .type = NLA_NESTED },
    [IFLA_CARRIER_CHANGES] = CNL_EXACTLY(4),
};
static const struct nla_policy information_policy[IFLA_INFO_KIND + 1] = { [IFLA_INFO_KIND] = { .type = NLA_STRING } };

/// Copies a NUL-terminated text, truncated to the destination.
static void copy_text(char *destination, size_t size, const struct nlattr *attribute) {
    const char *source = cnl_payload(attribute);
    memcpy(destination, source, strnlen(source, size - 1));
}

static void read_hardware_address(const struct nlattr *attribute, cnl_link *link) {
    const int length = attribute == NULL ? 0 : attribute->nla_len - NLA_HDRLEN;
    // A longer address counts as unknown; the link still counts.
    if (length <= 0 || length > CNL_HARDWARE_ADDRESS_SIZE) { return; }
    link->hardware_address_length = (uint8_t)length;
    memcpy(link->hardware_address, cnl_payload(attribute), (size_t)length);
}

static bool read_kind(const struct nlattr *information, cnl_link *link) {
    struct nlattr *table[IFLA_INFO_KIND + 1];
    if (information == NULL) { return true; }
    if (!cnl_parse(cnl_payload(information), information->nla_len - NLA_HDRLEN, table, IFLA_INFO_KIND, information_policy)) {
        return false;
    }
    if (table[IFLA_INFO_KIND] != NULL) { copy_text(link->kind, sizeof link->kind, table[IFLA_INFO_KIND]); }
    return true;
}

bool cnl_decode_link(const struct nlmsghdr *header, cnl_message *message) {
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct ifinfomsg)) { return false; }
    const struct ifinfomsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ifi_family;
    // A port that leaves its bridge is announced as RTM_DELLINK of family AF_BRIDGE; the interface itself remains.
    if (fixed->ifi_family != AF_UNSPEC) { return true; }
    struct nlattr *table[LAST_OF_LINK + 1];
    if (!cnl_parse_message(header, sizeof *fixed, table, LAST_OF_LINK, link_policy)) { return false; }
    // A message about the whole link always has these (rtnl_fill_ifinfo, net/core/rtnetlink.c). One without them says nothing about
    // its state: wireless extensions send their own events as RTM_NEWLINK (rtnetlink_ifinfo_prep, net/wireless/wext-core.c).
    const bool is_whole = table[IFLA_OPERSTATE] != NULL && table[IFLA_CARRIER_CHANGES] != NULL;
    if (header->nlmsg_type == RTM_NEWLINK && !is_whole) { return true; }
    if (fixed->ifi_index <= 0 || table[IFLA_IFNAME] == NULL) { return false; }
    cnl_link *link = &message->link;
    link->index = (uint32_t)fixed->ifi_index;
    link->flags = fixed->ifi_flags;
    link->hardware_type = fixed->ifi_type;
    link->master = cnl_u32(table[IFLA_MASTER], 0);
    link->carrier_changes = cnl_u32(table[IFLA_CARRIER_CHANGES], 0);
    // RTM_DELLINK alone may lack it.
    if (table[IFLA_OPERSTATE] != NULL) { link->operational_state = *(const uint8_t *)cnl_payload(table[IFLA_OPERSTATE]); }
    read_hardware_address(table[IFLA_ADDRESS], link);
    copy_text(link->name, sizeof link->name, table[IFLA_IFNAME]);
    if (link->name[0] == 0 || !read_kind(table[IFLA_LINKINFO], link)) { return false; }
    message->kind = header->nlmsg_type == RTM_NEWLINK ? CNL_LINK : CNL_LINK_GONE;
    return true;
}

_Static_assert(sizeof(struct ifaddrmsg) == 8, "rtnetlink(7)");
_Static_assert(CNL_ADDRESS_TENTATIVE == IFA_F_TENTATIVE && CNL_ADDRESS_DADFAILED == IFA_F_DADFAILED
               && CNL_ADDRESS_OPTIMISTIC == IFA_F_OPTIMISTIC,
               "the reader of cnl_interface_address.flags relies on these");
_Static_assert(RT_SCOPE_UNIVERSE == 0 && RT_SCOPE_LINK == 253 && RT_SCOPE_HOST == 254, "the kernel's numbers are ABI");

/// The highest attribute that is read.
enum { LAST_OF_ADDRESS = IFA_FLAGS };

#define ADDRESS_POLICY(address_length) {                \
    [IFA_ADDRESS] = CNL_EXACTLY(address_length), \
    [IFA_LOCAL] = CNL_EXACTLY(address_length),   \
    [IFA_FLAGS] = CNL_EXACTLY(4),                \
}
static const struct nla_policy ipv4_address_policy[LAST_OF_ADDRESS + 1] = ADDRESS_POLICY(4);
static const struct nla_policy ipv6_address_policy[LAST_OF_ADDRESS + 1] = ADDRESS_POLICY(16);

bool cnl_decode_address(const struct nlmsghdr *header, cnl_message *message) {
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct ifaddrmsg)) { return false; }
    const struct ifaddrmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ifa_family;
    const size_t address_length = cnl_address_length(fixed->ifa_family);
    if (address_length == 0) { return true; }
    if (fixed->ifa_index == 0 || fixed->ifa_prefixlen > address_length * 8) { return false; }
    struct nlattr *table[LAST_OF_ADDRESS + 1];
    const bool is_ipv6 = fixed->ifa_family == AF_INET6;
    const struct nla_policy *policy = is_ipv6 ? ipv6_address_policy : ipv4_address_policy;
    if (!cnl_parse_message(header, sizeof *fixed, table, LAST_OF_ADDRESS, policy)) { return false; }
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
