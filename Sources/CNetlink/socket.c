// The handle's life, and the socket options that need no request.
#define _GNU_SOURCE
#include "internal.h"

#include <stdlib.h>
#include <sys/time.h>

#include <linux/sock_diag.h>

_Static_assert(SK_MEMINFO_RMEM_ALLOC == 0 && SK_MEMINFO_DROPS == 8, "the places of SO_MEMINFO are kernel ABI");

static int32_t open_here(cnl_socket **result, const char **operation) {
    cnl_socket *socket = calloc(1, sizeof *socket);
    if (socket == NULL) {
        *operation = "nl_socket_alloc";
        return -ENOMEM;
    }
    socket->handle = nl_socket_alloc();
    if (socket->handle == NULL) {
        free(socket);
        *operation = "nl_socket_alloc";
        return -ENOMEM;
    }
    // An acknowledgement behind every reply would be a message more to match and to skip.
    nl_socket_disable_auto_ack(socket->handle);
    errno = 0;
    if (nl_connect(socket->handle, NETLINK_ROUTE) < 0) {
        int32_t error = cnl_last_error();
        nl_socket_free(socket->handle);
        free(socket);
        *operation = "nl_connect";
        return error;
    }
    socket->descriptor = nl_socket_get_fd(socket->handle);
    socket->port = nl_socket_get_local_port(socket->handle);
    *result = socket;
    return 0;
}

static int32_t open_socket(void *result, const char **operation) { return open_here(result, operation); }

int32_t cnl_open(cnl_socket **socket, const char *namespace_path, const char **operation) {
    *socket = NULL;
    return cnl_in_namespace(namespace_path, open_socket, socket, operation);
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

int32_t cnl_set_receive_buffer(cnl_socket *socket, uint32_t bytes, uint32_t *granted) {
    *granted = 0;
    const int wanted = bytes > INT32_MAX ? INT32_MAX : (int)bytes;
    int32_t error = set_option(socket, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted);
    // SO_RCVBUFFORCE asks for CAP_NET_ADMIN in the initial user namespace (socket(7)); SO_RCVBUF is clamped instead.
    if (error == -EPERM) { error = set_option(socket, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted); }
    if (error != 0) { return error; }
    int actual = 0;
    socklen_t size = sizeof actual;
    if (getsockopt(socket->descriptor, SOL_SOCKET, SO_RCVBUF, &actual, &size) < 0) { return -errno; }
    *granted = (uint32_t)actual;
    return 0;
}

int32_t cnl_read_queue(const cnl_socket *socket, cnl_queue *queue) {
    *queue = (cnl_queue){ 0 };
    uint32_t memory[SK_MEMINFO_VARS] = { 0 };
    socklen_t size = sizeof memory;
    if (getsockopt(socket->descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size) < 0) { return -errno; }
    // The array has grown before; a kernel that fills less of it has not said 0.
    if (size < (SK_MEMINFO_DROPS + 1) * sizeof memory[0]) { return -ENOPROTOOPT; }
    queue->bytes = memory[SK_MEMINFO_RMEM_ALLOC];
    queue->drops = memory[SK_MEMINFO_DROPS];
    return 0;
}
