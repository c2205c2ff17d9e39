// What can move a route without a route message: rules, nexthop objects, and per-interface settings.
#include "internal.h"

#include <linux/fib_rules.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>

_Static_assert(sizeof(struct fib_rule_hdr) == 12 && sizeof(struct nhmsg) == 8 && sizeof(struct netconfmsg) == 1, "kernel ABI");
_Static_assert(NETCONFA_IFINDEX == 1 && NETCONFA_IFINDEX_ALL == -1 && NETCONFA_IFINDEX_DEFAULT == -2, "kernel ABI");
_Static_assert(NHA_ID == 1, "kernel ABI");

/// Finds a 32-bit attribute. False if it is of another size, or if the attributes do not add up; absent leaves 0.
static bool find_u32(struct nlattr *first, int length, int type, uint32_t *value) {
    struct nlattr *attribute;
    int left;
    nla_for_each_attr(attribute, first, length, left) {
        if (nla_type(attribute) == type && !cnl_read_u32(attribute, value)) { return false; }
    }
    return left <= 0;
}

bool cnl_decode_rule(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int length;
    if (!cnl_attributes(header, sizeof(struct fib_rule_hdr), &first, &length)) { return false; }
    message->family = ((const struct fib_rule_hdr *)NLMSG_DATA(header))->family;
    message->kind = header->nlmsg_type == RTM_NEWRULE ? CNL_RULE : CNL_RULE_GONE;
    return true;
}

bool cnl_decode_nexthop(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int length;
    if (!cnl_attributes(header, sizeof(struct nhmsg), &first, &length)) { return false; }
    message->family = ((const struct nhmsg *)NLMSG_DATA(header))->nh_family;
    message->kind = header->nlmsg_type == RTM_NEWNEXTHOP ? CNL_NEXTHOP : CNL_NEXTHOP_GONE;
    return find_u32(first, length, NHA_ID, &message->identifier);
}

bool cnl_decode_netconf(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int length;
    if (!cnl_attributes(header, sizeof(struct netconfmsg), &first, &length)) { return false; }
    message->family = ((const struct netconfmsg *)NLMSG_DATA(header))->ncm_family;
    message->kind = CNL_NETCONF;
    return find_u32(first, length, NETCONFA_IFINDEX, &message->identifier);
}
