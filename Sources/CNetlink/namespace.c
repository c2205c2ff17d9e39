// Network namespaces: moving a thread into one.
#define _GNU_SOURCE
#include "internal.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

int32_t cnl_switch_namespace(const char *path, const char **operation) {
    int descriptor;
    do {
        // O_NONBLOCK: the path is a user's, and opening a FIFO nobody writes to would wait for ever.
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        *operation = "open";
        return -errno;
    }
    // The kernel decides whether this is a network namespace: EINVAL if it is any other file (setns(2)).
    int32_t error = setns(descriptor, CLONE_NEWNET) < 0 ? -errno : 0;
    if (error != 0) { *operation = "setns"; }
    close(descriptor);
    return error;
}

int32_t cnl_enter_namespace(const char *path) {
    const char *operation;
    return cnl_switch_namespace(path, &operation);
}
