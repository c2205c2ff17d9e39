// Kernel features for tests that Swift cannot use on a thread of its choice: sandboxes (seccomp(2)), sockets in other network
// namespaces, and threads that stand still.
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __clang__
#define _Nonnull
#endif

/// The system call that is refused.
typedef enum {
    /// Joining multicast groups of netlink: EPERM.
    CSANDBOX_NO_MULTICAST,
    /// Netlink sockets: EAFNOSUPPORT, as by RestrictAddressFamilies= of systemd.exec(5).
    CSANDBOX_NO_NETLINK,
    /// All sockets: EPERM.
    CSANDBOX_NO_SOCKETS,
    /// Netlink sockets: ENOBUFS, as by a machine that is short of memory.
    CSANDBOX_SCARCE_NETLINK,
    /// All sockets: EMFILE, as by a process that is short of descriptors.
    CSANDBOX_SCARCE_SOCKETS,
    /// epoll_pwait2(2): ENOSYS, as by kernels before 5.11.
    CSANDBOX_NO_PRECISE_WAIT
} csandbox_refusal;

/// Runs a body on a new, restricted thread and waits for it. Returns 0, or a negative errno if the body did not run.
int32_t csandbox_run(csandbox_refusal refusal, void (*_Nonnull body)(void *_Nonnull), void *_Nonnull argument);

/// Runs a body on a new thread, whose children report when they join multicast groups of netlink, and waits for it.
///
/// Returns a descriptor for csandbox_next_join, which the caller closes, or a negative errno if the body did not run.
int32_t csandbox_run_reporting_joins(void (*_Nonnull body)(void *_Nonnull), void *_Nonnull argument);

/// Waits until a process is about to join a group, and lets it continue (seccomp_unotify(2)).
///
/// Returns 1, 0 if no such process is left, or a negative errno.
int32_t csandbox_next_join(int32_t listener);

/// A socket to connect, and the result.
typedef struct {
    /// AF_INET or AF_INET6.
    uint8_t family;
    bool is_datagram;
    bool has_mark;
    bool has_uid;
    uint32_t mark;
    /// The owner of the socket.
    uint32_t uid;
    /// In host order; 0 for any.
    uint16_t port;
    uint8_t destination[16];
    /// The name of the interface to bind to, or nothing.
    char interface[16];
    /// A negative errno if there is no such socket.
    int32_t failure;
    /// The errno of connect(2), or 0.
    int32_t refusal;
    /// The address that the socket sends from.
    uint8_t source[16];
} csandbox_probe;

/// Connects non-blocking sockets in a network namespace, on a new thread, one after the other; sends no packet.
///
/// The thread runs on one processor, unless that is negative. Returns 0 or a negative errno.
int32_t csandbox_connect(const char *_Nonnull namespace_path, int32_t processor, csandbox_probe *_Nonnull probes, size_t count);

/// Makes a tun device in a network namespace. Returns its descriptor, or a negative errno.
///
/// The device has carrier while the descriptor is open, and goes with it.
int32_t csandbox_open_tunnel(const char *_Nonnull namespace_path, const char *_Nonnull name);

/// Makes a netlink socket in a network namespace as systemd does for ListenNetlink=route GROUPS and ReceiveBuffer=
/// (systemd.socket(5)). Returns its descriptor, or a negative errno.
int32_t csandbox_listen_netlink(const char *_Nonnull namespace_path, uint32_t groups, uint32_t receive_buffer);

/// Stops a thread of another process until csandbox_thaw, which the same thread calls, or until this process ends.
/// Returns 0 or a negative errno.
int32_t csandbox_freeze(int32_t thread);

/// Lets a frozen thread continue. Returns 0 or a negative errno.
int32_t csandbox_thaw(int32_t thread);

#endif
