// Raw rtnetlink sockets.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

static int open_bound(int flags) {
    const int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);
    if (descriptor < 0) { return -errno; }
    const struct sockaddr_nl address = { .nl_family = AF_NETLINK };
    if (bind(descriptor, (const struct sockaddr *)&address, sizeof address) == 0) { return descriptor; }
    const int error = errno;
    close(descriptor);
    return -error;
}

int32_t bench_route_open(void) { return open_bound(0); }

int32_t bench_events_open(const uint32_t *groups, size_t count) {
    const int descriptor = open_bound(SOCK_NONBLOCK);
    for (size_t index = 0; descriptor >= 0 && index < count; index++) {
        const int group = (int)groups[index];
        if (setsockopt(descriptor, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) < 0) {
            const int error = errno;
            close(descriptor);
            return -error;
        }
    }
    return descriptor;
}

void bench_close(int32_t descriptor) { close(descriptor); }
