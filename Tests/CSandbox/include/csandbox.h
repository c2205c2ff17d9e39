// Takes system calls away from a thread and the children that it starts, as sandboxes do (seccomp(2)).
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stdint.h>

#ifndef __clang__
#define _Nonnull
#endif

/// What is refused.
typedef enum {
    /// Joining multicast groups of netlink: EPERM.
    CSANDBOX_NO_MULTICAST,
    /// Netlink sockets: EAFNOSUPPORT, as by RestrictAddressFamilies= of systemd.exec(5).
    CSANDBOX_NO_NETLINK,
    /// All sockets: EPERM.
    CSANDBOX_NO_SOCKETS,
    /// epoll_pwait2(2): ENOSYS, as by kernels before 5.11.
    CSANDBOX_NO_PRECISE_WAIT
} csandbox_refusal;

/// Runs a body on a thread of its own, which is restricted, and waits for it. Returns 0 or a negative errno; then it did not run.
int32_t csandbox_run(csandbox_refusal refusal, void (*_Nonnull body)(void *_Nonnull), void *_Nonnull argument);

#endif
