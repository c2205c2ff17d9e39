// Waiting for descriptors, and the eventfd and timer that end a wait; the clocks.
#define _GNU_SOURCE
#include "internal.h"

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int32_t cnl_eventfd_open(void) {
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

void cnl_eventfd_signal(int32_t descriptor) {
    const uint64_t one = 1;
    // EAGAIN: the counter is full, so the descriptor is readable anyway (eventfd(2)).
    while (write(descriptor, &one, sizeof one) < 0 && errno == EINTR) {}
}

void cnl_clear(int32_t descriptor) {
    uint64_t count;
    // EAGAIN: the counter was 0 already (eventfd(2)). ECANCELED: the clock was set; the timer stays armed (fs/timerfd.c,
    // timerfd_canceled).
    while (read(descriptor, &count, sizeof count) < 0 && errno == EINTR) {}
}

void cnl_close_descriptor(int32_t descriptor) { close(descriptor); }

static struct timespec interval(int64_t nanoseconds) {
    return (struct timespec){ .tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000 };
}

int32_t cnl_wait(const int32_t *descriptors, size_t count, int64_t nanoseconds) {
    if (count > CNL_WAIT_LIMIT) { return -EINVAL; }
    struct pollfd requests[CNL_WAIT_LIMIT];
    for (size_t index = 0; index < count; index++) {
        requests[index] = (struct pollfd){ .fd = descriptors[index], .events = POLLIN };
    }
    const struct timespec limit = interval(nanoseconds);
    if (ppoll(requests, count, nanoseconds < 0 ? NULL : &limit, NULL) < 0) { return errno == EINTR ? 0 : -errno; }
    int32_t ready = 0;
    for (size_t index = 0; index < count; index++) {
        if (requests[index].revents & POLLNVAL) { return -EBADF; }
        // POLLERR counts as readable: it marks a pending ENOBUFS, which only a read clears.
        if (requests[index].revents != 0) { ready |= 1 << index; }
    }
    return ready;
}

int32_t cnl_epoll_open(void) {
    const int descriptor = epoll_create1(EPOLL_CLOEXEC);
    return descriptor < 0 ? -errno : descriptor;
}

int32_t cnl_epoll_add(int32_t epoll, int32_t descriptor, uint32_t place) {
    if (place >= CNL_WAIT_LIMIT) { return -EINVAL; }
    // EPOLLERR is always reported (epoll_ctl(2)).
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = place };
    return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0 ? -errno : 0;
}

int32_t cnl_epoll_remove(int32_t epoll, int32_t descriptor) {
    return epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, NULL) < 0 ? -errno : 0;
}

/// Calls epoll_pwait2(2) where the kernel has it, by number: glibc wraps it since 2.35.
static int wait_precisely(int32_t epoll, struct epoll_event *events, int64_t nanoseconds) {
#ifdef SYS_epoll_pwait2
    if (nanoseconds > 0) {
        const struct timespec limit = interval(nanoseconds);
        const long ready = syscall(SYS_epoll_pwait2, epoll, events, CNL_WAIT_LIMIT, &limit, NULL, 0);
        // Some sandboxes reject unknown calls with EPERM.
        if (ready >= 0 || (errno != ENOSYS && errno != EPERM)) { return (int)ready; }
    }
#endif
    const int64_t milliseconds = nanoseconds / 1000000 + (nanoseconds % 1000000 > 0);
    const int limit = nanoseconds < 0 ? -1 : milliseconds > INT_MAX ? INT_MAX : (int)milliseconds;
    return epoll_wait(epoll, events, CNL_WAIT_LIMIT, limit);
}

int32_t cnl_epoll_wait(int32_t epoll, int64_t nanoseconds) {
    struct epoll_event events[CNL_WAIT_LIMIT];
    const int count = wait_precisely(epoll, events, nanoseconds);
    if (count < 0) { return errno == EINTR ? 0 : -errno; }
    int32_t ready = 0;
    for (int index = 0; index < count; index++) { ready |= 1 << events[index].data.u32; }
    return ready;
}

static int64_t read_clock(clockid_t clock) {
    struct timespec time = { 0 };
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t cnl_boot_time(void) { return read_clock(CLOCK_BOOTTIME); }

int64_t cnl_monotonic_time(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t cnl_wall_time(void) { return read_clock(CLOCK_REALTIME); }

int32_t cnl_clock_change_timer_open(void) {
    const int descriptor = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (descriptor < 0) { return -errno; }
    // The year 2255; the kernel's time ends in 2262 (KTIME_SEC_MAX).
    const struct itimerspec never = { .it_value = { .tv_sec = 9000000000 } };
    if (timerfd_settime(descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0) {
        const int32_t error = -errno;
        close(descriptor);
        return error;
    }
    return descriptor;
}
