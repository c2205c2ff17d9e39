// Links, their addresses and their neighbours: RTM_NEWLINK, RTM_NEWADDR, RTM_NEWNEIGH and their removals.
//
// libnl's rtnl_link is not used: 3.7 parses every attribute it knows, IFLA_INFO_DATA and IFLA_AF_SPEC included, and rejects the
// whole message if a newer kernel changes the shape of one of them. A live interface would be missing.
#include "internal.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/if_tunnel.h>
#include <linux/neighbour.h>
#include <netinet/in.h>

_Static_assert(CNL_NAME_SIZE == IFNAMSIZ && CNL_LONG_NAME_SIZE == ALTIFNAMSIZ, "a name fits, with its NUL");
_Static_assert(sizeof(struct ifinfomsg) == 16, "rtnetlink(7)");
_Static_assert(CNL_LINK_UP == IFF_UP && CNL_LINK_POINT_TO_POINT == IFF_POINTOPOINT && CNL_LINK_LOWER_UP == IFF_LOWER_UP
               && CNL_LINK_DORMANT == IFF_DORMANT && CNL_LINK_MODE_DEFAULT == IF_LINK_MODE_DEFAULT,
               "the reader of cnl_link.flags and link_mode relies on these");
_Static_assert(IF_OPER_UNKNOWN == 0 && IF_OPER_DORMANT == 5 && IF_OPER_UP == 6, "RFC 2863 as numbered by linux/if.h");
_Static_assert(CNL_HARDWARE_ETHERNET == ARPHRD_ETHER && CNL_HARDWARE_LOOPBACK == ARPHRD_LOOPBACK
    && CNL_HARDWARE_PPP == ARPHRD_PPP && CNL_HARDWARE_RAWIP == ARPHRD_RAWIP && CNL_HARDWARE_NONE == ARPHRD_NONE,
    "the reader of cnl_link.hardware_type relies on these");

/// The highest attribute that is read.
enum { LAST_OF_LINK = IFLA_PROP_LIST };

static const struct nla_policy link_policy[LAST_OF_LINK + 1] = {
    [IFLA_IFNAME] = { .type = NLA_STRING, .maxlen = IFNAMSIZ },
    [IFLA_LINK] = CNL_EXACTLY(4),
    [IFLA_MASTER] = CNL_EXACTLY(4),
    [IFLA_OPERSTATE] = CNL_EXACTLY(1),
    [IFLA_LINKMODE] = CNL_EXACTLY(1),
    [IFLA_LINKINFO] = { .type = NLA_NESTED },
    [IFLA_CARRIER_CHANGES] = CNL_EXACTLY(4),
    [IFLA_PROP_LIST] = { .type = NLA_NESTED },
};
static const struct nla_policy information_policy[IFLA_INFO_DATA + 1] = {
    [IFLA_INFO_KIND] = { .type = NLA_STRING },
    [IFLA_INFO_DATA] = { .type = NLA_NESTED },
};

/// Copies a NUL-terminated text, truncated to the destination.
static void copy_text(char *destination, size_t size, const struct nlattr *attribute) {
    const char *source = cnl_payload(attribute);
    memcpy(destination, source, strnlen(source, size - 1));
}

/// Reads a hardware address and returns its length; 0 without one, and for a longer one: the link still counts.
static uint8_t read_hardware_address(const struct nlattr *attribute, uint8_t *bytes) {
    const int length = attribute == NULL ? 0 : attribute->nla_len - NLA_HDRLEN;
    if (length <= 0 || length > CNL_HARDWARE_ADDRESS_SIZE) { return 0; }
    memcpy(bytes, cnl_payload(attribute), (size_t)length);
    return (uint8_t)length;
}

/// The attributes of a kind of tunnel in IFLA_INFO_DATA; 0 for those that it lacks.
typedef struct {
    const char *kind;
    uint8_t protocol;
    uint8_t interface, mark, type_of_service;
    uint8_t remote, local;   ///< Of IPv4.
    uint8_t remote6, local6; ///< Of IPv6.
} tunnel_kind;

#define GRE(name, protocol, ...) { name, protocol, IFLA_GRE_LINK, IFLA_GRE_FWMARK, __VA_ARGS__ }
#define IPTUN(name, protocol, ...) { name, protocol, IFLA_IPTUN_LINK, IFLA_IPTUN_FWMARK, __VA_ARGS__ }
static const tunnel_kind tunnel_kinds[] = {
    GRE("gre", IPPROTO_GRE, IFLA_GRE_TOS, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL, 0, 0),
    GRE("gretap", IPPROTO_GRE, IFLA_GRE_TOS, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL, 0, 0),
    GRE("erspan", IPPROTO_GRE, IFLA_GRE_TOS, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL, 0, 0),
    GRE("ip6gre", IPPROTO_GRE, 0, 0, 0, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL),
    GRE("ip6gretap", IPPROTO_GRE, 0, 0, 0, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL),
    GRE("ip6erspan", IPPROTO_GRE, 0, 0, 0, IFLA_GRE_REMOTE, IFLA_GRE_LOCAL),
    IPTUN("ipip", IPPROTO_IPIP, IFLA_IPTUN_TOS, IFLA_IPTUN_REMOTE, IFLA_IPTUN_LOCAL, 0, 0),
    IPTUN("sit", IPPROTO_IPV6, IFLA_IPTUN_TOS, IFLA_IPTUN_REMOTE, IFLA_IPTUN_LOCAL, 0, 0),
    IPTUN("ip6tnl", IPPROTO_IPV6, 0, 0, 0, IFLA_IPTUN_REMOTE, IFLA_IPTUN_LOCAL),
    { "vxlan", IPPROTO_UDP, IFLA_VXLAN_LINK, 0, IFLA_VXLAN_TOS, IFLA_VXLAN_GROUP, IFLA_VXLAN_LOCAL, IFLA_VXLAN_GROUP6,
      IFLA_VXLAN_LOCAL6 },
    { "geneve", IPPROTO_UDP, 0, 0, IFLA_GENEVE_TOS, IFLA_GENEVE_REMOTE, 0, IFLA_GENEVE_REMOTE6, 0 },
};

/// Reads an address of the length of its family; an empty one (0.0.0.0, ::) counts as none.
static void read_tunnel_address(struct nlattr *const *table, uint8_t type, uint8_t family, cnl_address *address) {
    static const unsigned char none[sizeof address->bytes];
    const struct nlattr *attribute = type == 0 ? NULL : table[type];
    const size_t length = cnl_address_length(family);
    if (attribute == NULL || (size_t)(attribute->nla_len - NLA_HDRLEN) != length) { return; }
    if (memcmp(cnl_payload(attribute), none, length) != 0) { cnl_read_address(attribute, family, address); }
}

/// Returns the payload of an attribute of four bytes, or 0.
static uint32_t tunnel_u32(struct nlattr *const *table, uint8_t type) {
    const struct nlattr *attribute = type == 0 ? NULL : table[type];
    return attribute == NULL || attribute->nla_len != NLA_HDRLEN + 4 ? 0 : cnl_u32(attribute, 0);
}

/// Reads what the kernel knows of a tunnel's outer packets (the fill_info functions of net/ipv4/ip_gre.c, ipip.c, net/ipv6/sit.c
/// and others, drivers/net/vxlan and geneve.c). Attributes of another shape are skipped: the link still counts.
static void read_tunnel(const struct nlattr *data, cnl_link *link) {
    enum { LAST = IFLA_GRE_FWMARK };
    _Static_assert(IFLA_IPTUN_FWMARK <= LAST && IFLA_VXLAN_LOCAL6 <= LAST && IFLA_GENEVE_REMOTE6 <= LAST, "all are read");
    static const struct nla_policy any[LAST + 1];
    struct nlattr *table[LAST + 1];
    const tunnel_kind *kind = NULL;
    for (size_t index = 0; index < sizeof tunnel_kinds / sizeof *tunnel_kinds; index++) {
        if (strcmp(link->kind, tunnel_kinds[index].kind) == 0) { kind = &tunnel_kinds[index]; }
    }
    if (kind == NULL || !cnl_parse(cnl_payload(data), data->nla_len - NLA_HDRLEN, table, LAST, any)) { return; }
    cnl_tunnel *tunnel = &link->tunnel;
    read_tunnel_address(table, kind->remote, AF_INET, &tunnel->remote);
    read_tunnel_address(table, kind->local, AF_INET, &tunnel->local);
    read_tunnel_address(table, kind->remote6, AF_INET6, &tunnel->remote);
    read_tunnel_address(table, kind->local6, AF_INET6, &tunnel->local);
    tunnel->interface = tunnel_u32(table, kind->interface);
    tunnel->mark = tunnel_u32(table, kind->mark);
    const struct nlattr *tos = kind->type_of_service == 0 ? NULL : table[kind->type_of_service];
    // The lowest bit means "inherit" (ip_tunnel_xmit, net/ipv4/ip_tunnel.c).
    if (tos != NULL && tos->nla_len == NLA_HDRLEN + 1) { tunnel->type_of_service = *(const uint8_t *)cnl_payload(tos) & 0xfc; }
    tunnel->protocol = kind->protocol;
}

/// Reads whether a bond watches its ports; bond_fill_info (drivers/net/bonding/bond_netlink.c) always writes both intervals.
static void read_bond(const struct nlattr *data, cnl_link *link) {
    enum { LAST = IFLA_BOND_ARP_INTERVAL };
    static const struct nla_policy policy[LAST + 1] = {
        [IFLA_BOND_MIIMON] = CNL_EXACTLY(4), [IFLA_BOND_ARP_INTERVAL] = CNL_EXACTLY(4),
    };
    struct nlattr *table[LAST + 1];
    if (!cnl_parse(cnl_payload(data), data->nla_len - NLA_HDRLEN, table, LAST, policy)) { return; }
    link->is_unmonitored = cnl_u32(table[IFLA_BOND_MIIMON], 1) == 0 && cnl_u32(table[IFLA_BOND_ARP_INTERVAL], 1) == 0;
}

static bool read_kind(const struct nlattr *information, bool is_foreign, cnl_link *link) {
    struct nlattr *table[IFLA_INFO_DATA + 1];
    if (information == NULL) { return true; }
    if (!cnl_parse(cnl_payload(information), information->nla_len - NLA_HDRLEN, table, IFLA_INFO_DATA, information_policy)) {
        return false;
    }
    if (table[IFLA_INFO_KIND] != NULL) { copy_text(link->kind, sizeof link->kind, table[IFLA_INFO_KIND]); }
    if (table[IFLA_INFO_DATA] != NULL && !is_foreign) { read_tunnel(table[IFLA_INFO_DATA], link); }
    if (table[IFLA_INFO_DATA] != NULL && strcmp(link->kind, "bond") == 0) { read_bond(table[IFLA_INFO_DATA], link); }
    return true;
}

bool cnl_next_name(const void *bytes, const cnl_link *link, uint32_t *position, char *name) {
    while (link->names_length >= NLA_HDRLEN && *position <= link->names_length - NLA_HDRLEN) {
        const char *place = (const char *)bytes + link->names_offset + *position;
        // The datagram may be misaligned.
        struct nlattr attribute;
        memcpy(&attribute, place, sizeof attribute);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > link->names_length - *position) { return false; }
        *position += (uint32_t)NLA_ALIGN(attribute.nla_len);
        const size_t length = strnlen(place + NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN);
        if ((attribute.nla_type & NLA_TYPE_MASK) != IFLA_ALT_IFNAME || length == 0 || length >= CNL_LONG_NAME_SIZE) { continue; }
        memcpy(name, place + NLA_HDRLEN, length);
        name[length] = 0;
        return true;
    }
    return false;
}

// The attributes that the kernel leaves out of a whole message, and what their absence says (rtnl_fill_ifinfo,
// net/core/rtnetlink.c, unless named otherwise):
//   IFLA_MASTER           no port of anything
//   IFLA_LINK             nothing below (nla_put_iflink)
//   IFLA_LINK_NETNSID     the device below is in the same namespace (rtnl_fill_link_netnsid)
//   IFLA_ADDRESS          no hardware address
//   IFLA_LINKINFO         hardware, and no master (rtnl_have_link_slave_info, rtnl_link_fill)
//   IFLA_PROP_LIST        no alternative names (rtnl_fill_prop_list)
//   attributes of tunnels net/ipv4/ip_gre.c and others always write them; VXLAN and GENEVE leave out empty addresses
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
    // The index then belongs to the other namespace (rtnl_fill_link_netnsid, net/core/rtnetlink.c).
    const bool is_foreign = table[IFLA_LINK_NETNSID] != NULL;
    link->lower = is_foreign ? 0 : cnl_u32(table[IFLA_LINK], 0);
    link->carrier_changes = cnl_u32(table[IFLA_CARRIER_CHANGES], 0);
    // RTM_DELLINK alone may lack it.
    if (table[IFLA_OPERSTATE] != NULL) { link->operational_state = *(const uint8_t *)cnl_payload(table[IFLA_OPERSTATE]); }
    link->link_mode = table[IFLA_LINKMODE] == NULL ? IF_LINK_MODE_DORMANT : *(const uint8_t *)cnl_payload(table[IFLA_LINKMODE]);
    link->hardware_address_length = read_hardware_address(table[IFLA_ADDRESS], link->hardware_address);
    copy_text(link->name, sizeof link->name, table[IFLA_IFNAME]);
    if (link->name[0] == 0 || !read_kind(table[IFLA_LINKINFO], is_foreign, link)) { return false; }
    if (table[IFLA_PROP_LIST] != NULL) {
        link->names_offset = (uint32_t)((const char *)cnl_payload(table[IFLA_PROP_LIST]) - (const char *)header);
        link->names_length = (uint32_t)table[IFLA_PROP_LIST]->nla_len - NLA_HDRLEN;
    }
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

// IFA_FLAGS is in every message since Linux 3.14; the header has the lower eight flags, duplicate address detection among them.
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

_Static_assert(sizeof(struct ndmsg) == 12, "rtnetlink(7)");
_Static_assert(CNL_NEIGHBOUR_REACHABLE == NUD_REACHABLE && CNL_NEIGHBOUR_FAILED == NUD_FAILED
               && CNL_NEIGHBOUR_INCOMPLETE == NUD_INCOMPLETE,
               "the reader of cnl_neighbour.state relies on these");

bool cnl_decode_neighbour(const struct nlmsghdr *header, cnl_message *message) {
    enum { LAST_OF_NEIGHBOUR = NDA_LLADDR };
    static const struct nla_policy policy[LAST_OF_NEIGHBOUR + 1];
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct ndmsg)) { return false; }
    const struct ndmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ndm_family;
    const size_t address_length = cnl_address_length(fixed->ndm_family);
    // A VXLAN has remote addresses of any length in its forwarding database.
    if (address_length == 0 && fixed->ndm_family != AF_BRIDGE) { return true; }
    struct nlattr *table[LAST_OF_NEIGHBOUR + 1];
    if (!cnl_parse_message(header, sizeof *fixed, table, LAST_OF_NEIGHBOUR, policy)) { return false; }
    cnl_neighbour *neighbour = &message->neighbour;
    neighbour->interface = (uint32_t)fixed->ndm_ifindex;
    neighbour->state = fixed->ndm_state;
    const struct nlattr *address = table[NDA_DST];
    if (address_length != 0) {
        if (address == NULL || (size_t)(address->nla_len - NLA_HDRLEN) != address_length) { return false; }
        cnl_read_address(address, fixed->ndm_family, &neighbour->address);
    }
    neighbour->hardware_address_length = read_hardware_address(table[NDA_LLADDR], neighbour->hardware_address);
    message->kind = header->nlmsg_type == RTM_NEWNEIGH ? CNL_NEIGHBOUR : CNL_NEIGHBOUR_GONE;
    return true;
}
