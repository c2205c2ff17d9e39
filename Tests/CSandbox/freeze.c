// Stops one thread of another process (ptrace(2)): SIGSTOP stops all of them.
#define _GNU_SOURCE
#include "include/csandbox.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int32_t csandbox_freeze(int32_t thread) {
    if (ptrace(PTRACE_SEIZE, thread, 0, 0) < 0) { return -errno; }
    int status;
    if (ptrace(PTRACE_INTERRUPT, thread, 0, 0) < 0 || waitpid(thread, &status, __WALL) < 0) {
        const int32_t error = -errno;
        ptrace(PTRACE_DETACH, thread, 0, 0);
        return error;
    }
    return 0;
}

int32_t csandbox_thaw(int32_t thread) { return ptrace(PTRACE_DETACH, thread, 0, 0) < 0 ? -errno : 0; }
