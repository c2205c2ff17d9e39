#define _GNU_SOURCE
#include "internal.h"

#include <linux/fib_rules.h>
#include <linux/netconf.h>
#include <linux/nexthop.h>
#include <string.h>

/// Nexthop objects came to linux/rtnetlink.h with Linux 5.3; older headers build all the same.
_Static_assert(RTM_NEWNEXTHOP == 104 && RTM_DELNEXTHOP == 105 && RTM_NEWNETCONF == 80, "message numbers are kernel ABI");

cnl_address cnl_address_from(uint8_t family, const struct nlattr *attribute)
{
    cnl_address address = {0};
    int size = family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
    if (!attribute || size == 0 || nla_len(attribute) < size)
        return address;
    address.family = family;
    memcpy(address.bytes, nla_data(attribute), (size_t)size);
    return address;
}

/// The error that NLMSG_ERROR and NLMSG_DONE begin with, as a positive errno. NLMSG_DONE of some dumps has none.
static int32_t error_of(const struct nlmsghdr *header)
{
    int32_t error = 0;
    if (nlmsg_datalen(header) >= (int)sizeof error)
        memcpy(&error, nlmsg_data(header), sizeof error);
    return error < 0 ? -error : 0;
}

static bool decode_rule(struct nlmsghdr *header, cnl_message *message)
{
    if (!nlmsg_valid_hdr(header, sizeof(struct fib_rule_hdr)))
        return false;
    message->family = ((const struct fib_rule_hdr *)nlmsg_data(header))->family;
    return true;
}

static bool decode_nexthop(struct nlmsghdr *header, cnl_message *message)
{
    if (!nlmsg_valid_hdr(header, sizeof(struct nhmsg)))
        return false;
    struct nlattr *id = nlmsg_find_attr(header, sizeof(struct nhmsg), NHA_ID);
    message->family = ((const struct nhmsg *)nlmsg_data(header))->nh_family;
    message->identifier = id && nla_len(id) >= 4 ? nla_get_u32(id) : 0;
    return true;
}

static bool decode_netconf(struct nlmsghdr *header, cnl_message *message)
{
    if (!nlmsg_valid_hdr(header, sizeof(struct netconfmsg)))
        return false;
    struct nlattr *index = nlmsg_find_attr(header, sizeof(struct netconfmsg), NETCONFA_IFINDEX);
    message->family = ((const struct netconfmsg *)nlmsg_data(header))->ncm_family;
    message->identifier = index && nla_len(index) >= 4 ? nla_get_u32(index) : (uint32_t)NETCONFA_IFINDEX_ALL;
    return true;
}

/// Decodes the payload by the message's type. Returns false if it is malformed.
static bool decode_payload(struct nlmsghdr *header, cnl_message *message)
{
    switch (header->nlmsg_type) {
    case NLMSG_ERROR:
        message->kind = CNL_ERROR;
        message->error = error_of(header);
        return nlmsg_datalen(header) >= (int)sizeof(int32_t);
    case NLMSG_DONE:
        message->kind = CNL_DONE;
        message->error = error_of(header);
        return true;
    case NLMSG_OVERRUN:
        message->kind = CNL_OVERRUN;
        return true;
    case RTM_NEWLINK:
    case RTM_DELLINK:
        message->kind = header->nlmsg_type == RTM_NEWLINK ? CNL_LINK : CNL_LINK_GONE;
        return cnl_decode_link(header, message);
    case RTM_NEWADDR:
    case RTM_DELADDR:
        message->kind = header->nlmsg_type == RTM_NEWADDR ? CNL_ADDRESS : CNL_ADDRESS_GONE;
        return cnl_decode_address(header, message);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
        message->kind = header->nlmsg_type == RTM_NEWROUTE ? CNL_ROUTE : CNL_ROUTE_GONE;
        return cnl_decode_route(header, message);
    case RTM_NEWRULE:
    case RTM_DELRULE:
        message->kind = header->nlmsg_type == RTM_NEWRULE ? CNL_RULE : CNL_RULE_GONE;
        return decode_rule(header, message);
    case RTM_NEWNEXTHOP:
    case RTM_DELNEXTHOP:
        message->kind = header->nlmsg_type == RTM_NEWNEXTHOP ? CNL_NEXTHOP : CNL_NEXTHOP_GONE;
        return decode_nexthop(header, message);
    case RTM_NEWNETCONF:
    case RTM_DELNETCONF:
        message->kind = CNL_NETCONF;
        return decode_netconf(header, message);
    default:
        return true;
    }
}

bool cnl_decode(const void *bytes, size_t length, size_t *offset, cnl_message *message)
{
    if (*offset >= length)
        return false;
    memset(message, 0, sizeof *message);
    struct nlmsghdr *header = (struct nlmsghdr *)((const char *)bytes + *offset);
    size_t rest = length - *offset;
    if (rest < NLMSG_HDRLEN || header->nlmsg_len < NLMSG_HDRLEN || header->nlmsg_len > rest) {
        message->kind = CNL_MALFORMED;
        *offset = length;
        return true;
    }
    // Messages are padded to four bytes, but for the last one of a datagram.
    size_t step = NLMSG_ALIGN(header->nlmsg_len);
    *offset += step < rest ? step : rest;
    message->sequence = header->nlmsg_seq;
    message->is_interrupted = (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    message->is_replacement = header->nlmsg_type == RTM_NEWROUTE && (header->nlmsg_flags & NLM_F_REPLACE) != 0;
    if (!decode_payload(header, message)) {
        uint32_t sequence = message->sequence;
        memset(message, 0, sizeof *message);
        message->sequence = sequence;
        message->kind = CNL_MALFORMED;
    }
    return true;
}
