#include "include/csandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/netlink.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the sandbox of the tests knows x86-64 and AArch64"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (field))
#define NUMBER offsetof(struct seccomp_data, nr)
// The low half of an argument: both machines are little-endian.
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + 8 * (index))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int32_t install(struct sock_filter *instructions, size_t count) {
    const struct sock_fprog program = { .len = (unsigned short)count, .filter = instructions };
    // Without privilege a filter takes the right to gain any (seccomp(2)).
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) { return -errno; }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

/// Restricts the calling thread for the rest of its life. Returns 0 or a negative errno.
static int32_t restrict_thread(csandbox_refusal refusal) {
    struct sock_filter no_multicast[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 7),
        LOAD(NUMBER), UNLESS(SYS_setsockopt, 5),
        LOAD(ARGUMENT(1)), UNLESS(SOL_NETLINK, 3),
        LOAD(ARGUMENT(2)), UNLESS(NETLINK_ADD_MEMBERSHIP, 1),
        REFUSE(EPERM), ALLOW,
    };
    struct sock_filter no_netlink[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 5),
        LOAD(NUMBER), UNLESS(SYS_socket, 3),
        LOAD(ARGUMENT(0)), UNLESS(AF_NETLINK, 1),
        REFUSE(EAFNOSUPPORT), ALLOW,
    };
    struct sock_filter no_sockets[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 3),
        LOAD(NUMBER), UNLESS(SYS_socket, 1),
        REFUSE(EPERM), ALLOW,
    };
    struct sock_filter scarce_netlink[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 5),
        LOAD(NUMBER), UNLESS(SYS_socket, 3),
        LOAD(ARGUMENT(0)), UNLESS(AF_NETLINK, 1),
        REFUSE(ENOBUFS), ALLOW,
    };
    struct sock_filter scarce_sockets[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 3),
        LOAD(NUMBER), UNLESS(SYS_socket, 1),
        REFUSE(EMFILE), ALLOW,
    };
    struct sock_filter no_precise_wait[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 3),
        LOAD(NUMBER), UNLESS(SYS_epoll_pwait2, 1),
        REFUSE(ENOSYS), ALLOW,
    };
    switch (refusal) {
    case CSANDBOX_NO_MULTICAST: return install(no_multicast, sizeof no_multicast / sizeof no_multicast[0]);
    case CSANDBOX_NO_NETLINK: return install(no_netlink, sizeof no_netlink / sizeof no_netlink[0]);
    case CSANDBOX_NO_SOCKETS: return install(no_sockets, sizeof no_sockets / sizeof no_sockets[0]);
    case CSANDBOX_SCARCE_NETLINK: return install(scarce_netlink, sizeof scarce_netlink / sizeof scarce_netlink[0]);
    case CSANDBOX_SCARCE_SOCKETS: return install(scarce_sockets, sizeof scarce_sockets / sizeof scarce_sockets[0]);
    case CSANDBOX_NO_PRECISE_WAIT: return install(no_precise_wait, sizeof no_precise_wait / sizeof no_precise_wait[0]);
    }
    return -EINVAL;
}

/// Makes the calling thread and its children report joins for the rest of their lives. Returns a descriptor or a negative errno.
static int32_t report_joins(void) {
    struct sock_filter joins[] = {
        LOAD(offsetof(struct seccomp_data, arch)), UNLESS(ARCHITECTURE, 7),
        LOAD(NUMBER), UNLESS(SYS_setsockopt, 5),
        LOAD(ARGUMENT(1)), UNLESS(SOL_NETLINK, 3),
        LOAD(ARGUMENT(2)), UNLESS(NETLINK_ADD_MEMBERSHIP, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF), ALLOW,
    };
    const struct sock_fprog program = { .len = sizeof joins / sizeof joins[0], .filter = joins };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) { return -errno; }
    const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    return listener < 0 ? -errno : (int32_t)listener;
}

struct run {
    bool reports_joins;
    csandbox_refusal refusal;
    void (*body)(void *);
    void *argument;
    int32_t result;
};

static void *work(void *argument) {
    struct run *run = argument;
    run->result = run->reports_joins ? report_joins() : restrict_thread(run->refusal);
    if (run->result >= 0) { run->body(run->argument); }
    return NULL;
}

static int32_t start(struct run *run) {
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, work, run);
    if (error != 0) { return -error; }
    pthread_join(thread, NULL);
    return run->result;
}

int32_t csandbox_run(csandbox_refusal refusal, void (*body)(void *), void *argument) {
    struct run run = { .refusal = refusal, .body = body, .argument = argument };
    return start(&run);
}

int32_t csandbox_run_reporting_joins(void (*body)(void *), void *argument) {
    struct run run = { .reports_joins = true, .body = body, .argument = argument };
    return start(&run);
}

int32_t csandbox_next_join(int32_t listener) {
    struct pollfd request = { .fd = listener, .events = POLLIN };
    while (poll(&request, 1, -1) < 0) {
        if (errno != EINTR) { return -errno; }
    }
    if (!(request.revents & POLLIN)) { return 0; }
    struct seccomp_notif call;
    memset(&call, 0, sizeof call);
    // ENOENT: the process was killed meanwhile.
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return errno == ENOENT || errno == EINTR ? csandbox_next_join(listener) : -errno;
    }
    struct seccomp_notif_resp response = { .id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT) { return -errno; }
    return 1;
}
