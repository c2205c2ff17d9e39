// The multicast groups to join.
#include "internal.h"

// Behind functions, because Swift imports no array of unknown length.
static const uint32_t groups[] = {
    RTNLGRP_LINK,
    RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,
    RTNLGRP_NEXTHOP,
    RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF,
};

const uint32_t *cnl_groups(void) { return groups; }

size_t cnl_group_count(void) { return sizeof groups / sizeof groups[0]; }
