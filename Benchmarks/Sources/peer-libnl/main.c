// libnl's cache manager: it mirrors the tables of routes, links and addresses from their notifications. The network is there if
// a default route is in the mirror.
#define _GNU_SOURCE
#include "cbench.h"

#include <stdio.h>

#include <linux/rtnetlink.h>

#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/route.h>

static bench_stamps *stamps;

static void look(struct nl_object *object, void *found) {
    struct rtnl_route *route = (struct rtnl_route *)object;
    struct nl_addr *destination = rtnl_route_get_dst(route);
    if (destination != NULL && nl_addr_get_prefixlen(destination) == 0 && rtnl_route_get_type(route) == RTN_UNICAST
        && rtnl_route_get_table(route) == RT_TABLE_MAIN) {
        *(bool *)found = true;
    }
}

static void note(struct nl_cache *cache, struct nl_object *object, int action, void *context) {
    (void)object, (void)action, (void)context;
    bool found = false;
    nl_cache_foreach(cache, look, &found);
    bench_set_view(stamps, found ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE);
    bench_stamp(stamps);
}

static void ignore(struct nl_cache *cache, struct nl_object *object, int action, void *context) {
    (void)cache, (void)object, (void)action, (void)context;
}

int main(void) {
    stamps = bench_stamps_inherited();
    struct nl_cache_mngr *manager;
    struct nl_cache *routes, *others;
    int error = nl_cache_mngr_alloc(NULL, NETLINK_ROUTE, NL_AUTO_PROVIDE, &manager);
    if (error == 0) { error = nl_cache_mngr_add(manager, "route/link", ignore, NULL, &others); }
    if (error == 0) { error = nl_cache_mngr_add(manager, "route/addr", ignore, NULL, &others); }
    if (error == 0) { error = nl_cache_mngr_add(manager, "route/route", note, NULL, &routes); }
    if (error != 0) {
        nl_perror(error, "peer-libnl");
        return 1;
    }
    note(routes, NULL, 0, NULL);
    // An error, such as one that follows on lost events, is nothing that the manager expects its users to act on.
    for (;;) { nl_cache_mngr_poll(manager, -1); }
}
