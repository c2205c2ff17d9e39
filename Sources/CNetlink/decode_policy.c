// IPsec policies: XFRM_MSG_NEWPOLICY of NETLINK_XFRM, whose numbers are those of other messages in rtnetlink.
#include "internal.h"

#include <arpa/inet.h>

#include <linux/xfrm.h>

_Static_assert(sizeof(struct xfrm_userpolicy_info) == 168 && sizeof(struct xfrm_selector) == 56, "linux/xfrm.h is kernel ABI");
_Static_assert(XFRM_MSG_NEWPOLICY == 0x13 && XFRM_MSG_GETPOLICY == 0x15, "the kernel's numbers are ABI");
_Static_assert(CNL_POLICY_OUT == XFRM_POLICY_OUT && CNL_POLICY_BLOCK == XFRM_POLICY_BLOCK,
               "the reader of cnl_policy relies on these");

/// Reads attributes one by one: the datagram may be misaligned.
static void read_attributes(const char *bytes, size_t length, cnl_policy *policy) {
    struct nlattr attribute;
    for (size_t offset = 0; length - offset >= sizeof attribute;) {
        memcpy(&attribute, bytes + offset, sizeof attribute);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > length - offset) { return; }
        const char *payload = bytes + offset + NLA_HDRLEN;
        const size_t size = attribute.nla_len - (size_t)NLA_HDRLEN;
        struct xfrm_mark mark;
        switch (attribute.nla_type & NLA_TYPE_MASK) {
        case XFRMA_TMPL: policy->has_templates = size >= sizeof(struct xfrm_user_tmpl); break;
        case XFRMA_IF_ID:
            if (size == sizeof policy->interface_id) { memcpy(&policy->interface_id, payload, size); }
            break;
        case XFRMA_MARK:
            if (size != sizeof mark) { break; }
            memcpy(&mark, payload, size);
            policy->mark = mark.v;
            policy->mark_mask = mark.m;
            break;
        default: break;
        }
        const size_t step = (size_t)NLA_ALIGN(attribute.nla_len);
        if (step > length - offset) { return; }
        offset += step;
    }
}

/// Reads a message of `length` bytes. Returns false if it is malformed.
static bool read_policy(const char *message, size_t length, cnl_policy *policy) {
    struct xfrm_userpolicy_info fixed;
    if (length < NLMSG_HDRLEN + sizeof fixed) { return false; }
    memcpy(&fixed, message + NLMSG_HDRLEN, sizeof fixed);
    const struct xfrm_selector *selector = &fixed.sel;
    const uint8_t family = (uint8_t)selector->family;
    const size_t size = cnl_address_length(family);
    if (selector->family != family || selector->prefixlen_s > size * 8 || selector->prefixlen_d > size * 8) { return false; }
    memset(policy, 0, sizeof *policy);
    if (!cnl_make_address(family, &selector->saddr, size, &policy->source)) { return false; }
    cnl_make_address(family, &selector->daddr, size, &policy->destination);
    policy->source_length = selector->prefixlen_s;
    policy->destination_length = selector->prefixlen_d;
    policy->direction = fixed.dir;
    policy->action = fixed.action;
    policy->protocol = selector->proto;
    policy->port = ntohs(selector->dport);
    policy->port_mask = ntohs(selector->dport_mask);
    policy->has_source_port = selector->sport_mask != 0;
    policy->priority = fixed.priority;
    policy->interface = (uint32_t)selector->ifindex;
    read_attributes(message + NLMSG_HDRLEN + sizeof fixed, length - NLMSG_HDRLEN - sizeof fixed, policy);
    return true;
}

bool cnl_next_policy(const void *bytes, size_t length, size_t *offset, cnl_policy *policy) {
    struct nlmsghdr header;
    while (*offset <= length && length - *offset >= sizeof header) {
        const char *message = (const char *)bytes + *offset;
        const size_t rest = length - *offset;
        memcpy(&header, message, sizeof header);
        if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest) { return false; }
        const size_t step = NLMSG_ALIGN((size_t)header.nlmsg_len);
        *offset += step < rest ? step : rest;
        if (header.nlmsg_type == XFRM_MSG_NEWPOLICY && read_policy(message, header.nlmsg_len, policy)) { return true; }
    }
    return false;
}
