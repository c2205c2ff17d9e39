// The server of the herd benchmark: one request at a time, each at the same cost, whether its client still waits or not.
//
// herd-server PORT REQUESTS-A-SECOND BACKLOG
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

/// The delay of a request that costs the server no capacity: its own wake-ups take time.
#define TOLERANCE 5000000

static int listening(uint16_t port, int backlog) {
    const int one = 1;
    const struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0
        || bind(descriptor, (const struct sockaddr *)&any, sizeof any) < 0 || listen(descriptor, backlog) < 0) {
        return -1;
    }
    return descriptor;
}

static void sleep_until(int64_t time) {
    const struct timespec until = { .tv_sec = time / 1000000000, .tv_nsec = time % 1000000000 };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

static void answer(int connection) {
    char line[64];
    struct pollfd request = { .fd = connection, .events = POLLIN };
    // Its line came with the connection, or right after it.
    if (poll(&request, 1, 20) == 1 && recv(connection, line, sizeof line, 0) > 0) { send(connection, "ok\n", 3, MSG_NOSIGNAL); }
    close(connection);
}

int main(int count, char **arguments) {
    if (count != 4) {
        fputs("a part of the herd benchmark; it is started by `bench`\n", stderr);
        return 64;
    }
    const int64_t cost = 1000000000 / atoi(arguments[2]);
    const int descriptor = listening((uint16_t)atoi(arguments[1]), atoi(arguments[3]));
    if (descriptor < 0) {
        perror("herd-server");
        return 1;
    }
    for (int64_t free_at = 0;;) {
        const int connection = accept4(descriptor, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) { continue; }
        const int64_t now = bench_now();
        free_at = (now - free_at < TOLERANCE ? free_at : now) + cost;
        sleep_until(free_at);
        answer(connection);
    }
}
