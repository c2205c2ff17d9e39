// Network namespaces: moving a thread into one.
#define _GNU_SOURCE
#include "internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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

struct journey {
    const char *path;
    int32_t (*work)(void *, const char **);
    void *argument;
    const char *operation;
    int32_t error;
};

static void *travel(void *argument) {
    struct journey *journey = argument;
    journey->error = cnl_switch_namespace(journey->path, &journey->operation);
    if (journey->error == 0) { journey->error = journey->work(journey->argument, &journey->operation); }
    return NULL;
}

int32_t cnl_in_namespace(const char *path, int32_t (*work)(void *, const char **), void *argument, const char **operation) {
    if (path == NULL) { return work(argument, operation); }
    struct journey journey = { .path = path, .work = work, .argument = argument };
    // The thread that travels inherits a full signal mask: a handler must not run in another namespace.
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error != 0) {
        *operation = "pthread_sigmask";
        return -error;
    }
    pthread_t thread;
    error = pthread_create(&thread, NULL, travel, &journey);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        *operation = "pthread_create";
        return -error;
    }
    pthread_join(thread, NULL);
    *operation = journey.operation;
    return journey.error;
}

int32_t cnl_enter_namespace(const char *path) {
    const char *operation;
    return cnl_switch_namespace(path, &operation);
}
