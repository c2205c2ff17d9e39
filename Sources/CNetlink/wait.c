// Waiting for descriptors, and waking a waiter.
#define _GNU_SOURCE
#include "internal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int32_t cnl_event_open(void) {
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

void cnl_event_close(int32_t descriptor) { close(descriptor); }

void cnl_event_signal(int32_t descriptor) {
    const uint64_t one = 1;
    // Fails with EAGAIN only when the counter is full, and then the descriptor is readable anyway (eventfd(2)).
    while (write(descriptor, &one, sizeof one) < 0 && errno == EINTR) {}
}

void cnl_event_clear(int32_t descriptor) {
    uint64_t count;
    // Fails with EAGAIN when there was nothing to clear (eventfd(2)).
    while (read(descriptor, &count, sizeof count) < 0 && errno == EINTR) {}
}

int32_t cnl_wait(const int32_t *descriptors, size_t count, int64_t nanoseconds) {
    if (count > CNL_WAIT_LIMIT) { return -EINVAL; }
    struct pollfd requests[CNL_WAIT_LIMIT];
    for (size_t index = 0; index < count; index++) {
        requests[index] = (struct pollfd){ .fd = descriptors[index], .events = POLLIN };
    }
    const struct timespec limit = { .tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000 };
    if (ppoll(requests, count, nanoseconds < 0 ? NULL : &limit, NULL) < 0) { return errno == EINTR ? 0 : -errno; }
    int32_t ready = 0;
    for (size_t index = 0; index < count; index++) {
        if (requests[index].revents & POLLNVAL) { return -EBADF; }
        // POLLERR counts: that is how a socket with a pending ENOBUFS looks, and only a read takes the error away.
        if (requests[index].revents != 0) { ready |= 1 << index; }
    }
    return ready;
}
