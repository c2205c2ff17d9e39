// What can move a route without a route message: rules, nexthop objects, and per-interface settings.
#include "internal.h"

#include <linux/fib_rules.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>

_Static_assert(sizeof(struct fib_rule_hdr) == 12 && sizeof(struct nhmsg) == 8 && sizeof(struct netconfmsg) == 1, "kernel ABI");
_Static_assert(NETCONFA_IFINDEX == 1 && NETCONFA_IFINDEX_ALL == -1 && NETCONFA_IFINDEX_DEFAULT == -2, "kernel ABI");
_Static_assert(NHA_ID == 1, "kernel ABI");

/// Reads attribute 1, the identifier of nexthop objects and settings alike; 0 if it is absent.
static bool read_identifier(const struct nlmsghdr *header, int size, cnl_message *message) {
    static const struct nla_policy policy[2] = { [1] = CNL_EXACTLY(4) };
    struct nlattr *table[2];
    if (!cnl_parse_message(header, size, table, 1, policy)) { return false; }
    message->identifier = cnl_u32(table[1], 0);
    return true;
}

bool cnl_decode_rule(const struct nlmsghdr *header, cnl_message *message) {
    // No attribute is read: any change of the rules means that routes have to be looked up again.
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
