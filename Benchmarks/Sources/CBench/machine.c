// Clocks, processors and namespaces.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

int64_t bench_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int32_t bench_processors(void) { return (int32_t)sysconf(_SC_NPROCESSORS_ONLN); }

int32_t bench_pin(int32_t processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

int32_t bench_take_precedence(void) {
    const struct sched_param least = { .sched_priority = 1 };
    return sched_setscheduler(0, SCHED_FIFO, &least) < 0 ? -errno : 0;
}

pid_t bench_spin(int32_t processor) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0) { return child < 0 ? -errno : child; }
    const struct sched_param none = { 0 };
    prctl(PR_SET_NAME, "bench-spinner");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent || bench_pin(processor) < 0
        || sched_setscheduler(0, SCHED_IDLE, &none) < 0) {
        _exit(1);
    }
    for (;;) { __asm__ volatile("" ::: "memory"); }
}

void bench_release_memory(void) { malloc_trim(0); }

int32_t bench_new_network(void) { return unshare(CLONE_NEWNET) < 0 ? -errno : 0; }
