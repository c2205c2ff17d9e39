// RTM_NEWLINK and RTM_DELLINK.
#include "internal.h"

#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>

#include <netlink/route/link.h>

_Static_assert(CNL_NAME_SIZE == IFNAMSIZ, "an interface name fits, with its NUL");
_Static_assert(sizeof(struct ifinfomsg) == 16, "rtnetlink(7)");
_Static_assert(CNL_LINK_UP == IFF_UP && CNL_LINK_LOWER_UP == IFF_LOWER_UP, "the reader of cnl_link.flags relies on these");
_Static_assert(IF_OPER_UNKNOWN == 0 && IF_OPER_DORMANT == 5 && IF_OPER_UP == 6, "RFC 2863 as numbered by linux/if.h");
_Static_assert(CNL_HARDWARE_ETHERNET == ARPHRD_ETHER && CNL_HARDWARE_LOOPBACK == ARPHRD_LOOPBACK
    && CNL_HARDWARE_PPP == ARPHRD_PPP && CNL_HARDWARE_RAWIP == ARPHRD_RAWIP && CNL_HARDWARE_NONE == ARPHRD_NONE,
    "the reader of cnl_link.hardware_type relies on these");

/// What is worth giving to libnl.
struct excerpt {
    const struct nlattr *name;
    const struct nlattr *master;
    const struct nlattr *carrier_changes;
    const struct nlattr *operational_state;
    const struct nlattr *kind;
    bool has_wireless;
};

static bool find_kind(const struct nlattr *information, struct excerpt *excerpt) {
    const struct nlattr *attribute;
    int left;
    nla_for_each_nested(attribute, information, left) {
        if (nla_type(attribute) == IFLA_INFO_KIND) { excerpt->kind = attribute; }
    }
    return left <= 0;
}

static bool find(struct nlattr *first, int length, struct excerpt *excerpt) {
    struct nlattr *attribute;
    int left;
    bool is_sound = true;
    nla_for_each_attr(attribute, first, length, left) {
        switch (nla_type(attribute)) {
        case IFLA_IFNAME: excerpt->name = attribute; break;
        case IFLA_MASTER: excerpt->master = attribute; is_sound &= nla_len(attribute) == 4; break;
        case IFLA_CARRIER_CHANGES: excerpt->carrier_changes = attribute; is_sound &= nla_len(attribute) == 4; break;
        case IFLA_OPERSTATE: excerpt->operational_state = attribute; is_sound &= nla_len(attribute) == 1; break;
        case IFLA_LINKINFO: is_sound &= find_kind(attribute, excerpt); break;
        case IFLA_WIRELESS: excerpt->has_wireless = true; break;
        }
    }
    return is_sound && left <= 0;
}

static bool put(struct nl_msg *message, int type, const struct nlattr *attribute) {
    return attribute == NULL || nla_put(message, type, nla_len(attribute), nla_data(attribute)) >= 0;
}

// No IFLA_LINKINFO: for the kind alone libnl would allocate what belongs to it, for "veth" a second link.
static bool fill(struct nl_msg *message, const struct excerpt *excerpt) {
    return put(message, IFLA_IFNAME, excerpt->name)
        && put(message, IFLA_MASTER, excerpt->master)
        && put(message, IFLA_CARRIER_CHANGES, excerpt->carrier_changes)
        && put(message, IFLA_OPERSTATE, excerpt->operational_state);
}

static void copy_text(char *destination, size_t size, const char *source, size_t length) {
    const size_t kept = strnlen(source, length < size ? length : size - 1);
    memcpy(destination, source, kept);
}

static void read_link(struct nl_object *object, void *context) {
    struct rtnl_link *from = (struct rtnl_link *)object;
    cnl_link *to = context;
    to->index = (uint32_t)rtnl_link_get_ifindex(from);
    to->flags = rtnl_link_get_flags(from);
    to->master = (uint32_t)rtnl_link_get_master(from);
    to->hardware_type = (uint16_t)rtnl_link_get_arptype(from);
    to->operational_state = rtnl_link_get_operstate(from);
    uint32_t changes = 0;
    // Fails where the kernel sent none; 0 is right then, too.
    if (rtnl_link_get_carrier_changes(from, &changes) >= 0) { to->carrier_changes = changes; }
    const char *name = rtnl_link_get_name(from);
    if (name != NULL) { copy_text(to->name, sizeof to->name, name, CNL_NAME_SIZE - 1); }
}

bool cnl_decode_link(const struct nlmsghdr *header, cnl_message *message) {
    struct nlattr *first;
    int length;
    if (!cnl_attributes(header, sizeof(struct ifinfomsg), &first, &length)) { return false; }
    const struct ifinfomsg *fixed = NLMSG_DATA(header);
    message->family = fixed->ifi_family;
    // A port that leaves its bridge is announced as RTM_DELLINK of family AF_BRIDGE; the interface itself lives on.
    if (fixed->ifi_family != AF_UNSPEC) { return true; }
    struct excerpt excerpt = { 0 };
    if (!find(first, length, &excerpt)) { return false; }
    // Wireless extensions send their own events as RTM_NEWLINK without a name (net/wireless/wext-core.c): no change of the link.
    if (excerpt.has_wireless && fixed->ifi_change == 0 && excerpt.name == NULL) { return true; }
    if (fixed->ifi_index <= 0) { return false; }
    struct nl_msg *copy = cnl_excerpt(header, sizeof *fixed);
    if (copy == NULL) { return false; }
    const bool is_understood = fill(copy, &excerpt) && cnl_parse(copy, read_link, &message->link);
    nlmsg_free(copy);
    if (!is_understood) { return false; }
    if (excerpt.kind != NULL) {
        copy_text(message->link.kind, sizeof message->link.kind, nla_data(excerpt.kind), (size_t)nla_len(excerpt.kind));
    }
    message->kind = header->nlmsg_type == RTM_NEWLINK ? CNL_LINK : CNL_LINK_GONE;
    return true;
}
