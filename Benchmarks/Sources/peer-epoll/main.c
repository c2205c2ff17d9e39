// The bare kernel: epoll and recv, as little as a program can do.
//
//   peer-epoll events    notes each event
//   peer-epoll verdict   reads all events, makes the look-ups that the library makes before it tells conditions, and notes each
//                        change of the answer: of a route message those of its family, of anything else those of both
//   peer-epoll details   the same with the entry of the table, which the library reads before it tells streams
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

static _Alignas(struct nlmsghdr) char buffer[65536];

static void note_event(int events, bench_stamps *stamps) {
    if (recv(events, buffer, sizeof buffer, 0) >= 0) { bench_stamp(stamps); }
}

enum { IPV4 = 1, IPV6 = 2, BOTH = 3 };

/// The families that the first message of a datagram may concern.
static int families_of(ssize_t length) {
    const struct nlmsghdr *header = (const struct nlmsghdr *)buffer;
    if (length < (ssize_t)NLMSG_LENGTH(sizeof(struct rtmsg))) { return BOTH; }
    if (header->nlmsg_type != RTM_NEWROUTE && header->nlmsg_type != RTM_DELROUTE) { return BOTH; }
    return ((const struct rtmsg *)NLMSG_DATA(header))->rtm_family == AF_INET ? IPV4 : IPV6;
}

static int drain(int events) {
    int families = 0;
    for (;;) {
        const ssize_t length = recv(events, buffer, sizeof buffer, 0);
        if (length >= 0) { families |= families_of(length); }
        if (length < 0 && errno == ENOBUFS) { families = BOTH; }
        if (length < 0 && errno != ENOBUFS && errno != EINTR) { return families; }
    }
}

static void note_verdict(int families, int lookups, bool wants_details, bench_stamps *stamps) {
    static bool ipv4, ipv6;
    if (families & IPV4) { ipv4 = bench_family_is_reachable(lookups, AF_INET); }
    if (families & IPV6) { ipv6 = bench_family_is_reachable(lookups, AF_INET6); }
    const bench_view view = ipv4 || ipv6 ? BENCH_VIEW_REACHABLE : BENCH_VIEW_NONE;
    if (view == bench_get_view(stamps)) { return; }
    // The entry of the table, once for each change to a way that works.
    bench_answer entry;
    if (wants_details && view == BENCH_VIEW_REACHABLE) { bench_lookup(lookups, BENCH_FIRST_REPRESENTATIVE, NULL, true, &entry); }
    bench_set_view(stamps, view);
    bench_stamp(stamps);
}

int main(int count, char **arguments) {
    const bool wants_details = count == 2 && strcmp(arguments[1], "details") == 0;
    const bool makes_verdicts = wants_details || (count == 2 && strcmp(arguments[1], "verdict") == 0);
    bench_stamps *stamps = bench_stamps_inherited();
    const int events = bench_events_open(groups, sizeof groups / sizeof groups[0]);
    const int lookups = bench_route_open();
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = { .events = EPOLLIN };
    if (events < 0 || lookups < 0 || poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, events, &wanted) < 0) {
        perror("peer-epoll");
        return 1;
    }
    if (makes_verdicts) { note_verdict(BOTH, lookups, wants_details, stamps); }
    for (;;) {
        struct epoll_event event;
        if (epoll_wait(poll, &event, 1, -1) < 1) { continue; }
        if (makes_verdicts) {
            note_verdict(drain(events), lookups, wants_details, stamps);
        } else {
            note_event(events, stamps);
        }
    }
}
