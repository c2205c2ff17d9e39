// The driver of the latency benchmark.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

/// xorshift64*, Marsaglia and Vigna.
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static void drain(int output) {
    char buffer[65536];
    while (read(output, buffer, sizeof buffer) > 0) {}
}

/// Sleeps until a time. Returns when the output first became readable, or 0.
static int64_t rest(int output, int64_t end) {
    int64_t heard = 0;
    for (;;) {
        const int64_t left = end - bench_now();
        if (left <= 0) { return heard; }
        const struct timespec time = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
        struct pollfd request = { .fd = output, .events = POLLIN };
        if (ppoll(&request, output < 0 ? 0 : 1, &time, NULL) <= 0 || (request.revents & POLLIN) == 0) { continue; }
        // Once it was read: that is when a program could act on the line.
        char buffer[65536];
        const ssize_t length = read(output, buffer, sizeof buffer);
        if (length > 0 && heard == 0) { heard = bench_now(); }
    }
}

int32_t bench_toggle(int32_t descriptor, const bench_toggling *toggling, int64_t *latencies) {
    const int output = toggling->output;
    uint64_t random = toggling->seed | 1;
    if (output >= 0) { fcntl(output, F_SETFL, O_NONBLOCK); }
    for (uint32_t index = 0; index < toggling->count * 2; index++) {
        const bool adds = index % 2 == 0;
        const uint64_t position = toggling->stamps == NULL ? 0 : bench_stamps_count(toggling->stamps);
        int64_t sent = 0;
        // A late message belongs to no toggle.
        if (output >= 0) { drain(output); }
        const int32_t error = bench_change_route(descriptor, adds, &toggling->route, &sent);
        if (error != 0) { return error; }
        const int64_t distance = 1500000 + (int64_t)(next_random(&random) % 1500000);
        int64_t heard = rest(output, sent + distance);
        if (toggling->stamps != NULL) { heard = bench_stamps_first(toggling->stamps, position, sent); }
        if (adds) { latencies[index / 2] = heard == 0 ? 0 : heard - sent; }
    }
    return 0;
}
