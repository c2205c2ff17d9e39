// The socket: opening, taking over, closing, multicast groups, options, and the filter.
#define _GNU_SOURCE
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/sock_diag.h>

_Static_assert(SK_MEMINFO_RMEM_ALLOC == 0 && SK_MEMINFO_DROPS == 8, "the indices of SO_MEMINFO are kernel ABI");
_Static_assert(sizeof(cnl_instruction) == sizeof(struct sock_filter)
    && offsetof(cnl_instruction, code) == offsetof(struct sock_filter, code)
    && offsetof(cnl_instruction, if_true) == offsetof(struct sock_filter, jt)
    && offsetof(cnl_instruction, if_false) == offsetof(struct sock_filter, jf)
    && offsetof(cnl_instruction, operand) == offsetof(struct sock_filter, k),
    "the kernel reads cnl_instruction as struct sock_filter");

/// Allocates a handle without a descriptor.
static int32_t allocate(cnl_socket **result, const char **operation) {
    cnl_socket *socket = calloc(1, sizeof *socket);
    if (socket != NULL) { socket->handle = nl_socket_alloc(); }
    if (socket == NULL || socket->handle == NULL) {
        free(socket);
        *operation = "nl_socket_alloc";
        return -ENOMEM;
    }
    // An acknowledgement after every reply would be one more message to match and skip.
    nl_socket_disable_auto_ack(socket->handle);
    *result = socket;
    return 0;
}

/// Fills in the rest of a handle whose libnl socket has a descriptor; or frees it after a failure.
static int32_t finish(cnl_socket *socket, int failure, const char *name, cnl_socket **result, const char **operation) {
    if (failure < 0) {
        const int32_t error = cnl_last_error();
        nl_socket_free(socket->handle);
        free(socket);
        *operation = name;
        return error;
    }
    socket->descriptor = nl_socket_get_fd(socket->handle);
    socket->port = nl_socket_get_local_port(socket->handle);
    *result = socket;
    return 0;
}

static int32_t open_here(cnl_socket **result, int protocol, const char **operation) {
    cnl_socket *socket = NULL;
    const int32_t error = allocate(&socket, operation);
    if (error != 0) { return error; }
    errno = 0;
    return finish(socket, nl_connect(socket->handle, protocol), "nl_connect", result, operation);
}

static int32_t open_socket(void *result, const char **operation) { return open_here(result, NETLINK_ROUTE, operation); }

static int32_t open_for_policies(void *result, const char **operation) { return open_here(result, NETLINK_XFRM, operation); }

int32_t cnl_open(cnl_socket **socket, const char *namespace_path, const char **operation) {
    *socket = NULL;
    return cnl_in_namespace(namespace_path, open_socket, socket, operation);
}

int32_t cnl_open_policies(cnl_socket **socket, const char *namespace_path, const char **operation) {
    *socket = NULL;
    return cnl_in_namespace(namespace_path, open_for_policies, socket, operation);
}

/// Returns -EXDEV if a socket belongs to another network namespace than the calling thread. Kernels before 5.14 do not tell.
static int32_t check_namespace(int32_t descriptor) {
#ifdef SO_NETNS_COOKIE
    const int own = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (own < 0) { return -errno; }
    uint64_t cookies[2] = { 0 };
    socklen_t sizes[2] = { sizeof cookies[0], sizeof cookies[1] };
    const bool are_known = getsockopt(own, SOL_SOCKET, SO_NETNS_COOKIE, &cookies[0], &sizes[0]) == 0
        && getsockopt(descriptor, SOL_SOCKET, SO_NETNS_COOKIE, &cookies[1], &sizes[1]) == 0;
    close(own);
    if (are_known && cookies[0] != cookies[1]) { return -EXDEV; }
#else
    (void)descriptor;
#endif
    return 0;
}

static int32_t check_here(void *argument, const char **operation) {
    const int32_t descriptor = *(const int32_t *)argument;
    struct sockaddr_nl name = { 0 };
    socklen_t name_size = sizeof name;
    int type = 0, protocol = 0;
    socklen_t type_size = sizeof type, protocol_size = sizeof protocol;
    *operation = "getsockname";
    if (getsockname(descriptor, (struct sockaddr *)&name, &name_size) < 0) { return -errno; }
    *operation = "getsockopt";
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) < 0
        || getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_size) < 0) {
        return -errno;
    }
    *operation = "the check of the socket";
    if (name.nl_family != AF_NETLINK || protocol != NETLINK_ROUTE || type != SOCK_RAW) { return -EPROTOTYPE; }
    // The kernel sends nothing to a socket without a port.
    if (name.nl_pid == 0) { return -EADDRNOTAVAIL; }
    return check_namespace(descriptor);
}

int32_t cnl_check_socket(int32_t descriptor, const char *namespace_path, const char **operation) {
    return cnl_in_namespace(namespace_path, check_here, &descriptor, operation);
}

int32_t cnl_take_over(cnl_socket **result, int32_t descriptor, const char **operation) {
    *result = NULL;
    cnl_socket *socket = NULL;
    const int32_t error = allocate(&socket, operation);
    if (error != 0) { return error; }
    errno = 0;
    int failure = fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    // Last: from then on libnl closes the descriptor together with its socket.
    if (failure == 0) { failure = nl_socket_set_fd(socket->handle, NETLINK_ROUTE, descriptor); }
    return finish(socket, failure, "nl_socket_set_fd", result, operation);
}

void cnl_close(cnl_socket *socket) {
    if (socket == NULL) { return; }
    nl_socket_free(socket->handle);
    free(socket->places);
    free(socket);
}

int32_t cnl_descriptor(const cnl_socket *socket) {
    return socket->descriptor;
}

// Behind functions: Swift does not import arrays of unknown length.
static const uint32_t groups[] = {
    RTNLGRP_LINK,
    RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
    RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE,
    RTNLGRP_NEXTHOP, RTNLGRP_NEIGH,
    RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF,
};

const uint32_t *cnl_groups(void) { return groups; }

size_t cnl_group_count(void) { return sizeof groups / sizeof groups[0]; }

int32_t cnl_join(cnl_socket *socket, uint32_t group) {
    // Group 0 would end libnl's list of groups, and it takes them as int.
    if (group == 0 || group > INT32_MAX) { return -EINVAL; }
    errno = 0;
    return nl_socket_add_memberships(socket->handle, (int)group, 0) < 0 ? cnl_last_error() : 0;
}

int32_t cnl_set_nonblocking(cnl_socket *socket) {
    errno = 0;
    return nl_socket_set_nonblocking(socket->handle) < 0 ? cnl_last_error() : 0;
}

static int32_t set_option(const cnl_socket *socket, int level, int name, const void *value, socklen_t size) {
    return setsockopt(socket->descriptor, level, name, value, size) < 0 ? -errno : 0;
}

int32_t cnl_set_strict(cnl_socket *socket) {
    const int on = 1;
    int32_t error = set_option(socket, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof on);
    return error != 0 ? error : set_option(socket, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
}

int32_t cnl_set_receive_timeout(cnl_socket *socket, uint32_t milliseconds) {
    const struct timeval timeout = { .tv_sec = milliseconds / 1000, .tv_usec = (milliseconds % 1000) * 1000 };
    return set_option(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

int32_t cnl_read_receive_buffer(const cnl_socket *socket, uint32_t *size) {
    *size = 0;
    int actual = 0;
    socklen_t length = sizeof actual;
    if (getsockopt(socket->descriptor, SOL_SOCKET, SO_RCVBUF, &actual, &length) < 0) { return -errno; }
    *size = (uint32_t)actual;
    return 0;
}

int32_t cnl_set_receive_buffer(cnl_socket *socket, uint32_t bytes, uint32_t *granted) {
    *granted = 0;
    const int wanted = bytes > INT32_MAX ? INT32_MAX : (int)bytes;
    int32_t error = set_option(socket, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted);
    // SO_RCVBUFFORCE needs CAP_NET_ADMIN in the initial user namespace (socket(7)); SO_RCVBUF is clamped instead.
    if (error == -EPERM) { error = set_option(socket, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted); }
    return error != 0 ? error : cnl_read_receive_buffer(socket, granted);
}

int32_t cnl_read_queue(const cnl_socket *socket, cnl_queue *queue) {
    *queue = (cnl_queue){ 0 };
    uint32_t memory[SK_MEMINFO_VARS] = { 0 };
    socklen_t size = sizeof memory;
    if (getsockopt(socket->descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size) < 0) { return -errno; }
    // Older kernels fill a shorter array; a missing element is unknown, not 0.
    if (size < (SK_MEMINFO_DROPS + 1) * sizeof memory[0]) { return -ENOPROTOOPT; }
    queue->bytes = memory[SK_MEMINFO_RMEM_ALLOC];
    queue->drops = memory[SK_MEMINFO_DROPS];
    return 0;
}

int32_t cnl_set_filter(int32_t descriptor, const cnl_instruction *instructions, size_t count) {
    if (count == 0) {
        const int ignored = 0;
        // ENOENT: no filter was attached.
        return setsockopt(descriptor, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored) < 0 && errno != ENOENT
            ? -errno : 0;
    }
    if (count > BPF_MAXINSNS) { return -EINVAL; }
    // The kernel copies the instructions; its struct declares them as not const.
    const struct sock_fprog program = { .len = (unsigned short)count, .filter = (struct sock_filter *)instructions };
    return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ? -errno : 0;
}
