// The kernel's clocks.
#define _GNU_SOURCE
#include "cnetlink.h"

#include <time.h>

static int64_t nanoseconds(clockid_t clock) {
    struct timespec time = { 0 };
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t cnl_boot_time(void) { return nanoseconds(CLOCK_BOOTTIME); }

int64_t cnl_monotonic_time(void) { return nanoseconds(CLOCK_MONOTONIC); }

int64_t cnl_wall_time(void) { return nanoseconds(CLOCK_REALTIME); }
