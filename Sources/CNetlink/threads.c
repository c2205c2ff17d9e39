// Threads: their names, and the network namespaces that they work in.
#define _GNU_SOURCE
#include "internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

int32_t cnl_switch_namespace(const char *path, const char **operation) {
    int descriptor;
    do {
        // O_NONBLOCK: the path comes from the user, and opening a FIFO without a writer would block.
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) {
        *operation = "open";
        return -errno;
    }
    // setns(2) rejects any other file with EINVAL.
    int32_t error = setns(descriptor, CLONE_NEWNET) < 0 ? -errno : 0;
    if (error != 0) { *operation = "setns"; }
    close(descriptor);
    return error;
}

struct visit {
    const char *path;
    int32_t (*work)(void *, const char **);
    void *argument;
    const char *operation;
    int32_t error;
};

static void *run_visit(void *argument) {
    struct visit *visit = argument;
    visit->error = cnl_switch_namespace(visit->path, &visit->operation);
    if (visit->error == 0) { visit->error = visit->work(visit->argument, &visit->operation); }
    return NULL;
}

int32_t cnl_in_namespace(const char *path, int32_t (*work)(void *, const char **), void *argument, const char **operation) {
    if (path == NULL) { return work(argument, operation); }
    struct visit visit = { .path = path, .work = work, .argument = argument };
    // The thread inherits a full signal mask: no signal handler runs in the other namespace.
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error != 0) {
        *operation = "pthread_sigmask";
        return -error;
    }
    pthread_t thread;
    error = pthread_create(&thread, NULL, run_visit, &visit);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        *operation = "pthread_create";
        return -error;
    }
    pthread_join(thread, NULL);
    *operation = visit.operation;
    return visit.error;
}

static int32_t read_setting(void *argument, const char **operation) {
    int value = 0;
    int descriptor;
    *operation = "open";
    do { descriptor = open(argument, O_RDONLY | O_CLOEXEC); } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) { return -errno; }
    char text[16] = "";
    ssize_t length = read(descriptor, text, sizeof text - 1);
    for (ssize_t place = 0; place < length && text[place] >= '0' && text[place] <= '9' && value < 100000; place++) {
        value = 10 * value + text[place] - '0';
    }
    close(descriptor);
    return value;
}

int32_t cnl_setting(const char *namespace_path, const char *path) {
    const char *operation;
    // sysctls of the network are those of the thread's namespace (net_ctl_header_lookup, net/sysctl_net.c).
    return cnl_in_namespace(namespace_path, read_setting, (void *)path, &operation);
}

int32_t cnl_enter_namespace(const char *path) {
    const char *operation;
    return cnl_switch_namespace(path, &operation);
}

void cnl_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
