// Starting and ending peers.
#define _GNU_SOURCE
#include "cbench.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void become(const bench_command *command, pid_t parent, int output, const char *stamps) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) { return; }
    if (command->has_own_network && unshare(CLONE_NEWNET) < 0) { return; }
    if (command->processor >= 0 && bench_pin(command->processor) < 0) { return; }
    if (output < 0) { output = open("/dev/null", O_WRONLY | O_CLOEXEC); }
    if (dup2(output, STDOUT_FILENO) < 0) { return; }
    if (command->stamps >= 0 && setenv(BENCH_STAMPS_VARIABLE, stamps, 1) < 0) { return; }
    execvp(command->arguments[0], command->arguments);
}

pid_t bench_start(const bench_command *command, int32_t *output) {
    int ends[2] = { -1, -1 };
    *output = -1;
    if (command->has_output && pipe2(ends, O_CLOEXEC) < 0) { return -errno; }
    char stamps[16];
    snprintf(stamps, sizeof stamps, "%d", command->stamps);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        become(command, parent, ends[1], stamps);
        _exit(127);
    }
    const int error = errno;
    if (ends[1] >= 0) { close(ends[1]); }
    if (child < 0) {
        if (ends[0] >= 0) { close(ends[0]); }
        return -error;
    }
    *output = ends[0];
    return child;
}

int32_t bench_wait(pid_t process) {
    int status;
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) { return -errno; }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void bench_stop(pid_t process) {
    kill(process, SIGKILL);
    bench_wait(process);
}

int64_t bench_processor_time(pid_t process) {
    clockid_t clock;
    struct timespec time;
    const int error = clock_getcpuclockid(process, &clock);
    if (error != 0) { return -error; }
    if (clock_gettime(clock, &time) < 0) { return -errno; }
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}
