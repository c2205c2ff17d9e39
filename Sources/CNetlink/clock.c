// The kernel's clocks, and the news that one of them was set.
#define _GNU_SOURCE
#include "cnetlink.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int64_t nanoseconds(clockid_t clock) {
    struct timespec time = { 0 };
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t cnl_boot_time(void) { return nanoseconds(CLOCK_BOOTTIME); }

int64_t cnl_monotonic_time(void) { return nanoseconds(CLOCK_MONOTONIC); }

int64_t cnl_wall_time(void) { return nanoseconds(CLOCK_REALTIME); }

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

void cnl_clock_change_timer_clear(int32_t descriptor) {
    uint64_t count;
    // Fails with ECANCELED when the clock was set; the timer stays armed for the next time (fs/timerfd.c, timerfd_canceled).
    while (read(descriptor, &count, sizeof count) < 0 && errno == EINTR) {}
}

void cnl_clock_change_timer_close(int32_t descriptor) { close(descriptor); }
