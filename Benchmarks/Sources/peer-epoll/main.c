// The bare kernel: epoll and recv, as little as a program can do.
//
//   peer-epoll events    notes each event
//   peer-epoll verdict   reads all events, makes the look-ups that the library makes, and notes each change of the answer
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

static const uint32_t groups[] = {
    RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP, RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF,
};

static char buffer[65536];

static void note_event(int events, bench_stamps *stamps) {
    if (recv(events, buffer, sizeof buffer, 0) >= 0) { bench_stamp(stamps); }
}

static void note_verdict(int events, int lookups, bench_stamps *stamps) {
    ssize_t length;
    do { length = recv(events, buffer, sizeof buffer, 0); } while (length >= 0 || errno == ENOBUFS || errno == EINTR);
    const bench_view view = bench_is_reachable(lookups) ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE;
    if (view == bench_get_view(stamps)) { return; }
    // The entry of the table, once for each change to a way that works.
    bench_answer entry;
    if (view == BENCH_VIEW_REACHABLE) { bench_lookup(lookups, BENCH_FIRST_REPRESENTATIVE, true, &entry); }
    bench_set_view(stamps, view);
    bench_stamp(stamps);
}

int main(int count, char **arguments) {
    const bool makes_verdicts = count == 2 && strcmp(arguments[1], "verdict") == 0;
    bench_stamps *stamps = bench_stamps_inherited();
    const int events = bench_events_open(groups, sizeof groups / sizeof groups[0]);
    const int lookups = bench_route_open();
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = { .events = EPOLLIN };
    if (events < 0 || lookups < 0 || poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, events, &wanted) < 0) {
        perror("peer-epoll");
        return 1;
    }
    if (makes_verdicts) { note_verdict(events, lookups, stamps); }
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(poll, &event, 1, -1) < 1) { continue; }
        if (makes_verdicts) { note_verdict(events, lookups, stamps); } else { note_event(events, stamps); }
    }
}
