// Routes (events, and answers to lookups), and everything that can move a route without a route message: rules, nexthop objects
// and NETCONF.
//
// libnl's rtnl_route is not used: 3.7 rejects a message whose RTA_OIF differs from its first next hop's, does not know RTA_NH_ID,
// and returns no next hop for a route through a nexthop object.
#include "internal.h"

#include <linux/fib_rules.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>

_Static_assert(sizeof(struct rtmsg) == 12 && sizeof(struct rtnexthop) == 8 && sizeof(struct rtvia) == 2, "rtnetlink(7)");
_Static_assert(CNL_ROUTE_UNICAST == RTN_UNICAST && CNL_ROUTE_LOCAL == RTN_LOCAL && CNL_ROUTE_BROADCAST == RTN_BROADCAST
               && CNL_ROUTE_ANYCAST == RTN_ANYCAST && CNL_ROUTE_MULTICAST == RTN_MULTICAST
               && CNL_ROUTE_BLACKHOLE == RTN_BLACKHOLE && CNL_ROUTE_UNREACHABLE == RTN_UNREACHABLE
               && CNL_ROUTE_PROHIBIT == RTN_PROHIBIT && CNL_ROUTE_THROW == RTN_THROW,
               "the reader of cnl_route.type relies on these");
_Static_assert(RTNH_F_DEAD == CNL_NEXT_HOP_DEAD && RTNH_F_LINKDOWN == 16, "the reader of cnl_route.flags relies on these");
_Static_assert(RTM_F_LOOKUP_TABLE == 0x1000 && RTM_F_FIB_MATCH == 0x2000, "the kernel's numbers are ABI");

/// The highest attribute that is read, of a route and of a next hop.
enum { LAST = RTA_NH_ID, LAST_OF_NEXT_HOP = RTA_VIA };

// RTA_VIA holds an address of any family, whose length read_gateway checks.
#define POLICY(address_length) {                   \
    [RTA_DST] = CNL_EXACTLY(address_length),       \
    [RTA_OIF] = CNL_EXACTLY(4),                    \
    [RTA_GATEWAY] = CNL_EXACTLY(address_length),   \
    [RTA_PRIORITY] = CNL_EXACTLY(4),               \
    [RTA_PREFSRC] = CNL_EXACTLY(address_length),   \
    [RTA_MULTIPATH] = { .type = NLA_UNSPEC },      \
    [RTA_TABLE] = CNL_EXACTLY(4),                  \
    [RTA_VIA] = { .minlen = sizeof(struct rtvia) }, \
    [RTA_NH_ID] = CNL_EXACTLY(4),                  \
}
static const struct nla_policy ipv4_policy[LAST + 1] = POLICY(4);
static const struct nla_policy ipv6_policy[LAST + 1] = POLICY(16);

static const struct nla_policy *policy(uint8_t family) { return family == AF_INET6 ? ipv6_policy : ipv4_policy; }

/// Reads RTA_GATEWAY or RTA_VIA: struct rtvia is a family, then an address of it.
static bool read_gateway(struct nlattr *const *table, uint8_t family, cnl_address *gateway) {
    cnl_read_address(table[RTA_GATEWAY], family, gateway);
    const struct nlattr *via = table[RTA_VIA];
    if (via == NULL) { return true; }
    uint16_t via_family;
    memcpy(&via_family, cnl_payload(via), sizeof via_family);
    if (via_family != AF_INET && via_family != AF_INET6) { return false; }
    const char *bytes = (const char *)cnl_payload(via) + sizeof(struct rtvia);
    return cnl_make_address((uint8_t)via_family, bytes, (size_t)via->nla_len - NLA_HDRLEN - sizeof(struct rtvia), gateway);
}

/// Reads a next hop of RTA_MULTIPATH: struct rtnexthop, then attributes as a route has them. Returns its length; 0 if malformed.
static uint32_t read_next_hop(const void *bytes, uint32_t left, uint8_t family, cnl_hop *result) {
    struct rtnexthop hop;
    struct nlattr *table[LAST_OF_NEXT_HOP + 1];
    if (left < sizeof hop) { return 0; }
    memcpy(&hop, bytes, sizeof hop);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > left) { return 0; }
    memset(result, 0, sizeof *result);
    result->interface = (uint32_t)hop.rtnh_ifindex;
    result->flags = hop.rtnh_flags;
    const bool isRead = cnl_parse((const char *)bytes + sizeof hop, hop.rtnh_len - (int)sizeof hop, table, LAST_OF_NEXT_HOP,
                                  policy(family))
        && read_gateway(table, family, &result->gateway);
    return isRead ? RTNH_ALIGN(hop.rtnh_len) : 0;
}

bool cnl_next_hop(const void *bytes, const cnl_route *route, uint32_t *position, cnl_hop *hop) {
    if (*position >= route->hops_length) { return false; }
    // A misaligned datagram was decoded from a copy; the attributes must not be read in place.
    _Alignas(struct nlmsghdr) char copy[256];
    const uint32_t left = route->hops_length - *position;
    memcpy(copy, (const char *)bytes + route->hops_offset + *position, left < sizeof copy ? left : sizeof copy);
    const uint32_t length = read_next_hop(copy, left < sizeof copy ? left : sizeof copy, route->family, hop);
    *position = length == 0 ? route->hops_length : *position + length;
    return length != 0;
}

/// Reads the remaining time of a route: learnt by router advertisement, added with `expires`, or that of an exception to it.
static void read_expiry(const struct nlattr *attribute, cnl_route *route) {
    struct rta_cacheinfo info;
    if (attribute == NULL || attribute->nla_len < NLA_HDRLEN + (int)sizeof info) { return; }
    memcpy(&info, cnl_payload(attribute), sizeof info);
    // In ticks of USER_HZ, which is 100 on every architecture of Linux that runs Swift (rtnl_put_cacheinfo, net/core/rtnetlink.c).
    if (info.rta_expires > 0) { route->expires = (uint32_t)info.rta_expires; }
}

// The attributes that the kernel leaves out, and what their absence says; a route message without any other is malformed:
//   RTA_DST, RTA_SRC      the prefix of length 0                  fib_dump_info, net/ipv4/fib_semantics.c; rt6_fill_node,
//   RTA_PRIORITY          metric 0 (IPv4)                         net/ipv6/route.c
//   RTA_GATEWAY, RTA_VIA  on the link
//   RTA_OIF               a refusing route, or several next hops
//   RTA_MULTIPATH         one next hop
//   RTA_PREFSRC           the kernel selects the source
//   RTA_NH_ID             no nexthop object
//   RTA_CACHEINFO         no end
bool cnl_decode_route(const struct nlmsghdr *header, cnl_message *message) {
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct rtmsg)) { return false; }
    const struct rtmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->rtm_family;
    const size_t address_length = cnl_address_length(fixed->rtm_family);
    // Multicast forwarding (RTNL_FAMILY_IPMR) and MPLS come through the same types.
    if (address_length == 0) { return true; }
    if (fixed->rtm_dst_len > address_length * 8) { return false; }
    struct nlattr *table[LAST + 1];
    if (!cnl_parse_message(header, sizeof *fixed, table, LAST, policy(fixed->rtm_family))) { return false; }
    cnl_route *route = &message->route;
    route->family = fixed->rtm_family;
    route->destination_length = fixed->rtm_dst_len;
    route->type = fixed->rtm_type;
    route->protocol = fixed->rtm_protocol;
    route->scope = fixed->rtm_scope;
    route->flags = fixed->rtm_flags;
    route->table = cnl_u32(table[RTA_TABLE], fixed->rtm_table);
    route->metric = cnl_u32(table[RTA_PRIORITY], 0);
    route->interface = cnl_u32(table[RTA_OIF], 0);
    route->nexthop = cnl_u32(table[RTA_NH_ID], 0);
    if (table[RTA_DST] == NULL && fixed->rtm_dst_len != 0) { return false; }
    cnl_read_address(table[RTA_DST], route->family, &route->destination);
    cnl_read_address(table[RTA_PREFSRC], route->family, &route->source);
    if (!read_gateway(table, route->family, &route->gateway)) { return false; }
    // The route's own next hop takes precedence: an IPv6 lookup puts the chosen one there.
    if (table[RTA_MULTIPATH] != NULL) {
        const struct nlattr *multipath = table[RTA_MULTIPATH];
        cnl_hop first;
        route->hops_offset = (uint32_t)((const char *)cnl_payload(multipath) - (const char *)header);
        route->hops_length = (uint32_t)multipath->nla_len - NLA_HDRLEN;
        if (read_next_hop(cnl_payload(multipath), route->hops_length, route->family, &first) == 0) { return false; }
        if (route->interface == 0 && route->gateway.family == 0) {
            route->interface = first.interface;
            route->gateway = first.gateway;
        }
    }
    read_expiry(table[RTA_CACHEINFO], route);
    message->kind = header->nlmsg_type == RTM_NEWROUTE ? CNL_ROUTE : CNL_ROUTE_GONE;
    return true;
}

_Static_assert(sizeof(struct fib_rule_hdr) == 12 && sizeof(struct nhmsg) == 8 && sizeof(struct netconfmsg) == 1, "kernel ABI");
_Static_assert(NETCONFA_IFINDEX == 1 && NETCONFA_IFINDEX_ALL == -1 && NETCONFA_IFINDEX_DEFAULT == -2, "kernel ABI");
_Static_assert(NHA_ID == 1, "kernel ABI");

/// Reads attribute 1, the identifier in nexthop and NETCONF messages, which the kernel never leaves out (nh_fill_node,
/// net/ipv4/nexthop.c; inet_netconf_fill_devconf, net/ipv4/devinet.c).
static bool read_identifier(const struct nlmsghdr *header, int size, cnl_message *message) {
    static const struct nla_policy identifier_policy[2] = { [1] = CNL_EXACTLY(4) };
    struct nlattr *table[2];
    if (!cnl_parse_message(header, size, table, 1, identifier_policy)) { return false; }
    message->identifier = cnl_u32(table[1], 0);
    return table[1] != NULL;
}

bool cnl_decode_rule(const struct nlmsghdr *header, cnl_message *message) {
    // Attributes are not read: any change of a rule triggers new lookups.
    if (NLMSG_PAYLOAD(header, 0) < sizeof(struct fib_rule_hdr)) { return false; }
    message->family = ((const struct fib_rule_hdr *)NLMSG_DATA(header))->family;
    message->kind = header->nlmsg_type == RTM_NEWRULE ? CNL_RULE : CNL_RULE_GONE;
    return true;
}

bool cnl_decode_nexthop(const struct nlmsghdr *header, cnl_message *message) {
    if (!read_identifier(header, sizeof(struct nhmsg), message)) { return false; }
    message->family = ((const struct nhmsg *)NLMSG_DATA(header))->nh_family;
    message->kind = header->nlmsg_type == RTM_NEWNEXTHOP ? CNL_NEXTHOP : CNL_NEXTHOP_GONE;
    return true;
}

bool cnl_decode_netconf(const struct nlmsghdr *header, cnl_message *message) {
    if (!read_identifier(header, sizeof(struct netconfmsg), message)) { return false; }
    message->family = ((const struct netconfmsg *)NLMSG_DATA(header))->ncm_family;
    message->kind = CNL_NETCONF;
    return true;
}
