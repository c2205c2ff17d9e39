#define _GNU_SOURCE
#include "internal.h"

#include <string.h>

_Static_assert(CNL_ROUTE_LOCAL == RTN_LOCAL && CNL_ROUTE_ANYCAST == RTN_ANYCAST && CNL_ROUTE_BLACKHOLE == RTN_BLACKHOLE
                   && CNL_ROUTE_UNREACHABLE == RTN_UNREACHABLE && CNL_ROUTE_PROHIBIT == RTN_PROHIBIT
                   && CNL_ROUTE_THROW == RTN_THROW,
               "route types are kernel ABI");
_Static_assert(AF_INET == 2 && AF_INET6 == 10, "address families are kernel ABI");

static uint32_t number(const struct nlattr *attribute, uint32_t otherwise)
{
    return attribute && nla_len(attribute) >= 4 ? nla_get_u32(attribute) : otherwise;
}

/// The next hop: of the route's own family (RTA_GATEWAY), or of another (RTA_VIA, struct rtvia).
static cnl_address gateway(uint8_t family, struct nlattr *attributes[])
{
    struct nlattr *via = attributes[RTA_VIA];
    if (!attributes[RTA_GATEWAY] && via && nla_len(via) >= (int)sizeof(struct rtvia)) {
        const struct rtvia *other = nla_data(via);
        cnl_address address = {0};
        size_t size = other->rtvia_family == AF_INET ? 4 : other->rtvia_family == AF_INET6 ? 16 : 0;
        if (size != 0 && (size_t)nla_len(via) >= sizeof *other + size) {
            address.family = (uint8_t)other->rtvia_family;
            memcpy(address.bytes, other->rtvia_addr, size);
        }
        return address;
    }
    return cnl_address_from(family, attributes[RTA_GATEWAY]);
}

/// Fills in interface and next hop from the first leg of a multipath route.
static void take_first_leg(const struct nlattr *multipath, cnl_route *route)
{
    struct nlattr *attributes[RTA_MAX + 1];
    if (nla_len(multipath) < (int)sizeof(struct rtnexthop))
        return;
    struct rtnexthop *leg = nla_data(multipath);
    if (leg->rtnh_len < sizeof *leg || leg->rtnh_len > nla_len(multipath))
        return;
    route->interface = (uint32_t)leg->rtnh_ifindex;
    int length = leg->rtnh_len - (int)NLA_ALIGN(sizeof *leg);
    if (length > 0 && nla_parse(attributes, RTA_MAX, (struct nlattr *)RTNH_DATA(leg), length, NULL) == 0)
        route->gateway = gateway(route->family, attributes);
}

bool cnl_decode_route(struct nlmsghdr *header, cnl_message *message)
{
    struct nlattr *attributes[RTA_MAX + 1];
    // Not rtnl_route_parse: it refuses a route whose RTA_OIF disagrees with its first leg, and knows nothing of RTA_NH_ID.
    if (nlmsg_parse(header, sizeof(struct rtmsg), attributes, RTA_MAX, NULL) < 0)
        return false;
    const struct rtmsg *information = nlmsg_data(header);
    cnl_route *route = &message->route;
    if (information->rtm_family != AF_INET && information->rtm_family != AF_INET6) {
        message->kind = CNL_OTHER;
        return true;
    }
    message->family = route->family = information->rtm_family;
    route->destination_length = information->rtm_dst_len;
    route->type = information->rtm_type;
    route->protocol = information->rtm_protocol;
    route->flags = information->rtm_flags;
    route->table = number(attributes[RTA_TABLE], information->rtm_table);
    route->metric = number(attributes[RTA_PRIORITY], 0);
    route->interface = number(attributes[RTA_OIF], 0);
    route->nexthop = number(attributes[RTA_NH_ID], 0);
    route->destination = cnl_address_from(route->family, attributes[RTA_DST]);
    route->gateway = gateway(route->family, attributes);
    route->source = cnl_address_from(route->family, attributes[RTA_PREFSRC]);
    if (attributes[RTA_MULTIPATH])
        take_first_leg(attributes[RTA_MULTIPATH], route);
    return true;
}
