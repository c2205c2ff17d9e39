// Waiting for many connections (epoll(7)), which Swift's Glibc does not show.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>

#include <sys/epoll.h>

int32_t bench_poll_open(void) {
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    return poll < 0 ? -errno : poll;
}

int32_t bench_poll_watch(int32_t poll, int32_t descriptor, uint64_t number, bool asks) {
    struct epoll_event event = { .events = asks ? EPOLLOUT : EPOLLIN, .data.u64 = number };
    return epoll_ctl(poll, asks ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) < 0 ? -errno : 0;
}

int32_t bench_poll_wait(int32_t poll, uint64_t *numbers, int32_t milliseconds) {
    struct epoll_event events[BENCH_POLL_MOST];
    const int count = epoll_wait(poll, events, BENCH_POLL_MOST, milliseconds);
    for (int index = 0; index < count; index++) { numbers[index] = events[index].data.u64; }
    return count < 0 ? -errno : count;
}
