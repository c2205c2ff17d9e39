#define _GNU_SOURCE
#include "internal.h"

#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <string.h>

_Static_assert(IFNAMSIZ == CNL_NAME_SIZE, "names fit");
_Static_assert(CNL_LINK_UP == IFF_UP && CNL_LINK_LOWER_UP == IFF_LOWER_UP, "flags are kernel ABI");
_Static_assert(CNL_HARDWARE_ETHERNET == ARPHRD_ETHER && CNL_HARDWARE_PPP == ARPHRD_PPP && CNL_HARDWARE_NONE == ARPHRD_NONE
                   && CNL_HARDWARE_LOOPBACK == ARPHRD_LOOPBACK && CNL_HARDWARE_RAWIP == ARPHRD_RAWIP,
               "hardware types are kernel ABI");
_Static_assert(CNL_ADDRESS_OPTIMISTIC == IFA_F_OPTIMISTIC && CNL_ADDRESS_DADFAILED == IFA_F_DADFAILED
                   && CNL_ADDRESS_TENTATIVE == IFA_F_TENTATIVE,
               "address flags are kernel ABI");

/// What a parser's callback is given.
struct receiver {
    void (*body)(struct nl_object *object, void *context);
    void *context;
};

static void receive_object(struct nl_object *object, void *context)
{
    struct receiver *receiver = context;
    receiver->body(object, receiver->context);
}

bool cnl_parse(struct nlmsghdr *header, void (*body)(struct nl_object *object, void *context), void *context)
{
    struct receiver receiver = {.body = body, .context = context};
    // nlmsg_convert copies, so that libnl may align and keep what it likes.
    struct nl_msg *message = nlmsg_convert(header);
    if (!message)
        return false;
    nlmsg_set_proto(message, NETLINK_ROUTE);
    int result = nl_msg_parse(message, receive_object, &receiver);
    nlmsg_free(message);
    return result >= 0;
}

static void copy_text(char *target, size_t size, const char *text)
{
    if (text)
        strncpy(target, text, size - 1);
}

static void take_link(struct nl_object *object, void *context)
{
    cnl_link *result = context;
    struct rtnl_link *link = (struct rtnl_link *)object;
    result->index = (uint32_t)rtnl_link_get_ifindex(link);
    result->flags = rtnl_link_get_flags(link);
    result->master = (uint32_t)rtnl_link_get_master(link);
    result->hardware_type = (uint16_t)rtnl_link_get_arptype(link);
    uint8_t state = rtnl_link_get_operstate(link);
    result->operational_state = state;
    if (rtnl_link_get_carrier_changes(link, &result->carrier_changes) < 0)
        result->carrier_changes = 0;
    copy_text(result->name, sizeof result->name, rtnl_link_get_name(link));
    copy_text(result->kind, sizeof result->kind, rtnl_link_get_type(link));
}

bool cnl_decode_link(struct nlmsghdr *header, cnl_message *message)
{
    if (!nlmsg_valid_hdr(header, sizeof(struct ifinfomsg)))
        return false;
    const struct ifinfomsg *information = nlmsg_data(header);
    // A port that leaves a bridge is announced as RTM_DELLINK of family AF_BRIDGE although the link lives on
    // (br_ifinfo_notify, net/bridge/br_netlink.c). Wireless events come as RTM_NEWLINK without a name (wireless_nlevent_flush).
    bool is_wireless_event = header->nlmsg_type == RTM_NEWLINK && information->ifi_change == 0
        && nlmsg_find_attr(header, sizeof *information, IFLA_WIRELESS) != NULL
        && nlmsg_find_attr(header, sizeof *information, IFLA_IFNAME) == NULL;
    if (information->ifi_family != AF_UNSPEC || is_wireless_event) {
        message->kind = CNL_OTHER;
        return true;
    }
    if (information->ifi_index <= 0)
        return false;
    if (header->nlmsg_type == RTM_DELLINK) {
        message->link.index = (uint32_t)information->ifi_index;
        return true;
    }
    return cnl_parse(header, take_link, &message->link) && message->link.index != 0;
}

/// What an address message is decoded into.
struct held {
    cnl_interface_address *address;
    bool is_valid;
};

static void take_address(struct nl_object *object, void *context)
{
    struct held *held = context;
    struct rtnl_addr *address = (struct rtnl_addr *)object;
    struct nl_addr *local = rtnl_addr_get_local(address);
    int family = rtnl_addr_get_family(address);
    size_t size = family == AF_INET ? 4 : 16;
    if (!local || (family != AF_INET && family != AF_INET6) || nl_addr_get_len(local) != size)
        return;
    held->address->local.family = (uint8_t)family;
    memcpy(held->address->local.bytes, nl_addr_get_binary_addr(local), size);
    held->address->interface = (uint32_t)rtnl_addr_get_ifindex(address);
    held->address->flags = rtnl_addr_get_flags(address);
    held->address->prefix_length = (uint8_t)rtnl_addr_get_prefixlen(address);
    held->address->scope = (uint8_t)rtnl_addr_get_scope(address);
    held->is_valid = true;
}

bool cnl_decode_address(struct nlmsghdr *header, cnl_message *message)
{
    if (!nlmsg_valid_hdr(header, sizeof(struct ifaddrmsg)))
        return false;
    uint8_t family = ((const struct ifaddrmsg *)nlmsg_data(header))->ifa_family;
    if (family != AF_INET && family != AF_INET6) {
        message->kind = CNL_OTHER;
        return true;
    }
    struct held held = {.address = &message->address};
    return cnl_parse(header, take_address, &held) && held.is_valid;
}
