#define _GNU_SOURCE
#include "cnetlink.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int32_t cnl_event_open(void)
{
    int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return descriptor < 0 ? -errno : descriptor;
}

void cnl_event_close(int32_t descriptor) { close(descriptor); }

void cnl_event_signal(int32_t descriptor)
{
    uint64_t one = 1;
    // It fails only when the counter is full, and then the descriptor is readable already.
    ssize_t written = write(descriptor, &one, sizeof one);
    (void)written;
}

void cnl_event_clear(int32_t descriptor)
{
    uint64_t count;
    ssize_t length = read(descriptor, &count, sizeof count);
    (void)length;
}

int32_t cnl_wait(int32_t first, int32_t second, int64_t nanoseconds)
{
    struct pollfd descriptors[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    struct timespec time = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
    int ready = ppoll(descriptors, 2, nanoseconds < 0 ? NULL : &time, NULL);
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    return (descriptors[0].revents ? CNL_READY_FIRST : 0) | (descriptors[1].revents ? CNL_READY_SECOND : 0);
}
