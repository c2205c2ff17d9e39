#define _GNU_SOURCE
#include "include/cprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// The failure of a child, which writes it to the memory of its suspended parent (vfork(2)).
struct failure {
    int error;
    int32_t file;
};

/// Resets the signals before unblocking them: a handler would run in the parent's memory.
static void reset_signals(void) {
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        // Fails for the signals that the C library reserves (nptl(7)).
        if (sigaction(number, NULL, &action) < 0 || action.sa_handler == SIG_DFL) { continue; }
        const bool is_ours = number == SIGCHLD || number == SIGPIPE || number == SIGXFSZ;
        if (action.sa_handler != SIG_IGN || is_ours) { signal(number, SIG_DFL); }
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/// Gives the child the descriptors under their new numbers. Returns 0 or an errno.
static int take_descriptors(const int32_t *descriptors, int32_t count) {
    // First out of the way: a new number may be the old one of a later descriptor.
    int32_t copies[CPROCESS_MAX_DESCRIPTORS];
    for (int32_t index = 0; index < count; index++) {
        copies[index] = fcntl(descriptors[index], F_DUPFD, CPROCESS_MAX_DESCRIPTORS);
        if (copies[index] < 0) { return errno; }
    }
    for (int32_t index = 0; index < count; index++) {
        if (dup2(copies[index], index) < 0) { return errno; }
    }
    return 0;
}

static void close_files_from(unsigned first) {
    if (syscall(SYS_close_range, first, ~0U, 0U) == 0) { return; }
    // Before Linux 5.9: this program's files are close-on-exec, and inherited descriptors have low numbers.
    for (int descriptor = (int)first; descriptor < 1024; descriptor++) { close(descriptor); }
}

static void limit_files(rlim_t soft) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) { return; }
    limit.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/// Executes the first executable file by the rules of execvp(3). Returns only on failure.
static void execute(const cprocess_start *start, volatile struct failure *failure) {
    extern char **environ;
    char *const *environment = start->environment != NULL ? start->environment : environ;
    for (int32_t index = 0; start->files[index] != NULL; index++) {
        execve(start->files[index], start->arguments, environment);
        switch (errno) {
        case EACCES:
            // Reported unless a later file can be executed.
            failure->error = EACCES;
            failure->file = index;
            continue;
        case ENOENT: case ENOTDIR: case ESTALE: case ENODEV: case ETIMEDOUT:
            if (failure->error == 0) { failure->file = index; }
            continue;
        default:
            failure->error = errno;
            failure->file = index;
            return;
        }
    }
    if (failure->error == 0) { failure->error = ENOENT; }
}

int32_t cprocess_spawn(const cprocess_start *start, int32_t *failed) {
    *failed = -1;
    if (start->descriptors != NULL && start->descriptor_count > CPROCESS_MAX_DESCRIPTORS) { return -EINVAL; }
    volatile struct failure failure = { .error = 0, .file = -1 };
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const pid_t child = vfork();
    if (child == 0) {
        if (start->has_own_group) { setpgid(0, 0); }
        const int32_t count = start->descriptors != NULL ? start->descriptor_count : 3;
        if (start->descriptors != NULL) {
            failure.error = take_descriptors(start->descriptors, count);
            if (failure.error != 0) { _exit(127); }
        }
        close_files_from((unsigned)count);
        limit_files(start->open_files);
        // vfork(2) copies the mask.
        if (start->file_mode_mask >= 0) { umask((mode_t)start->file_mode_mask); }
        reset_signals();
        execute(start, &failure);
        _exit(127);
    }
    const int error = child < 0 ? errno : failure.error;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child > 0 && error != 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) { }
    }
    *failed = failure.file;
    return error != 0 ? -error : child;
}

int32_t cprocess_become_subreaper(void) {
    return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) < 0 ? -errno : 0;
}
