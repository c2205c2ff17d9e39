// RTM_NEWROUTE and RTM_DELROUTE: events, and answers to lookups.
//
// Not libnl's rtnl_route: 3.7 refuses a message whose RTA_OIF differs from its first leg's, knows no RTA_NH_ID, and
// yields no next hop for a route by nexthop object.
#include "internal.h"

_Static_assert(sizeof(struct rtmsg) == 12 && sizeof(struct rtnexthop) == 8 && sizeof(struct rtvia) == 2, "rtnetlink(7)");
_Static_assert(CNL_ROUTE_LOCAL == RTN_LOCAL && CNL_ROUTE_ANYCAST == RTN_ANYCAST && CNL_ROUTE_BLACKHOLE == RTN_BLACKHOLE
               && CNL_ROUTE_UNREACHABLE == RTN_UNREACHABLE && CNL_ROUTE_PROHIBIT == RTN_PROHIBIT && CNL_ROUTE_THROW == RTN_THROW,
               "the reader of cnl_route.type relies on these");
_Static_assert(RTNH_F_DEAD == 1 && RTNH_F_LINKDOWN == 16, "the reader of cnl_route.flags relies on these");
_Static_assert(RTM_F_LOOKUP_TABLE == 0x1000 && RTM_F_FIB_MATCH == 0x2000, "the kernel's numbers are ABI");

static bool read_address(uint8_t family, const struct nlattr *attribute, cnl_address *address) {
    return cnl_make_address(family, cnl_attribute_data(attribute), (size_t)cnl_attribute_length(attribute), address);
}

// struct rtvia: a family, then an address of it.
static bool read_via(const struct nlattr *attribute, cnl_address *gateway) {
    uint16_t family;
    if (cnl_attribute_length(attribute) < (int)sizeof(struct rtvia)) { return false; }
    memcpy(&family, cnl_attribute_data(attribute), sizeof family);
    if (family != AF_INET && family != AF_INET6) { return false; }
    const unsigned char *bytes = (const unsigned char *)cnl_attribute_data(attribute) + sizeof(struct rtvia);
    return cnl_make_address((uint8_t)family, bytes, (size_t)cnl_attribute_length(attribute) - sizeof(struct rtvia), gateway);
}

static bool read_leg_attribute(const struct nlattr *attribute, uint8_t family, cnl_address *gateway) {
    switch (cnl_attribute_type(attribute)) {
    case RTA_GATEWAY: return read_address(family, attribute, gateway);
    case RTA_VIA: return read_via(attribute, gateway);
    default: return true;
    }
}

static bool read_first_leg(const struct nlattr *multipath, uint8_t family, uint32_t *interface, cnl_address *gateway) {
    struct rtnexthop leg;
    if (cnl_attribute_length(multipath) < (int)sizeof leg) { return false; }
    memcpy(&leg, cnl_attribute_data(multipath), sizeof leg);
    if (leg.rtnh_len < sizeof leg || leg.rtnh_len > cnl_attribute_length(multipath)) { return false; }
    *interface = (uint32_t)leg.rtnh_ifindex;
    const struct nlattr *attribute = (const void *)((const char *)cnl_attribute_data(multipath) + sizeof leg);
    int left = leg.rtnh_len - (int)sizeof leg;
    for (; cnl_attribute_fits(attribute, left); attribute = cnl_attribute_after(attribute, &left)) {
        if (!read_leg_attribute(attribute, family, gateway)) { return false; }
    }
    return left <= 0;
}

static bool read_attribute(const struct nlattr *attribute, cnl_route *route, const struct nlattr **multipath) {
    switch (cnl_attribute_type(attribute)) {
    case RTA_DST: return read_address(route->family, attribute, &route->destination);
    case RTA_PREFSRC: return read_address(route->family, attribute, &route->source);
    case RTA_GATEWAY: return read_address(route->family, attribute, &route->gateway);
    case RTA_VIA: return read_via(attribute, &route->gateway);
    case RTA_OIF: return cnl_read_u32(attribute, &route->interface);
    case RTA_TABLE: return cnl_read_u32(attribute, &route->table);
    case RTA_PRIORITY: return cnl_read_u32(attribute, &route->metric);
    case RTA_NH_ID: return cnl_read_u32(attribute, &route->nexthop);
    case RTA_MULTIPATH: *multipath = attribute; return true;
    default: return true;
    }
}

bool cnl_decode_route(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int left;
    if (!cnl_attributes(header, sizeof(struct rtmsg), &first, &left)) { return false; }
    const struct rtmsg *fixed = NLMSG_DATA(header);
    message->family = fixed->rtm_family;
    const size_t address_length = cnl_address_length(fixed->rtm_family);
    // Multicast forwarding (RTNL_FAMILY_IPMR) and MPLS come through the same types.
    if (address_length == 0) { return true; }
    if (fixed->rtm_dst_len > address_length * 8) { return false; }
    cnl_route *route = &message->route;
    route->family = fixed->rtm_family;
    route->destination_length = fixed->rtm_dst_len;
    route->type = fixed->rtm_type;
    route->protocol = fixed->rtm_protocol;
    route->table = fixed->rtm_table;
    route->flags = fixed->rtm_flags;
    const struct nlattr *multipath = NULL;
    for (const struct nlattr *attribute = first; cnl_attribute_fits(attribute, left);
         attribute = cnl_attribute_after(attribute, &left)) {
        if (!read_attribute(attribute, route, &multipath)) { return false; }
    }
    if (left > 0) { return false; }
    // A next hop of the route's own comes before the legs: an IPv6 lookup names the chosen one there.
    if (multipath != NULL && route->interface == 0 && route->gateway.family == 0
        && !read_first_leg(multipath, route->family, &route->interface, &route->gateway)) {
        return false;
    }
    message->kind = header->nlmsg_type == RTM_NEWROUTE ? CNL_ROUTE : CNL_ROUTE_GONE;
    return true;
}
