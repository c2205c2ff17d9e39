#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

_Static_assert(SK_MEMINFO_DROPS == 8, "the drop counter's place in SO_MEMINFO is kernel ABI");

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

static const uint32_t groups[] = {
    RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
    RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_NEXTHOP, RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF,
};

const uint32_t *cnl_groups(void) { return groups; }

size_t cnl_group_count(void) { return sizeof groups / sizeof groups[0]; }

/// What the opening thread is given and gives back.
struct opening {
    const char *namespace_path;
    struct nl_sock *socket;
    const char *operation;
    int error;
};

/// Connects a socket in the calling thread's namespace. Notes an errno: nl_connect's own code would fold several into one.
static void connect_socket(struct opening *opening)
{
    opening->operation = "nl_socket_alloc";
    opening->socket = nl_socket_alloc();
    if (!opening->socket) {
        opening->error = ENOMEM;
        return;
    }
    // Requests that are answered need no acknowledgement on top.
    nl_socket_disable_auto_ack(opening->socket);
    opening->operation = "socket(AF_NETLINK)";
    errno = 0;
    // nl_connect opens with SOCK_CLOEXEC (lib/nl.c).
    if (nl_connect(opening->socket, NETLINK_ROUTE) < 0) {
        opening->error = errno ? errno : EPROTO;
        nl_socket_free(opening->socket);
        opening->socket = NULL;
    }
}

static void *open_in_namespace(void *context)
{
    struct opening *opening = context;
    opening->operation = "setns";
    int result = cnl_enter_namespace(opening->namespace_path);
    if (result < 0)
        opening->error = -result;
    else
        connect_socket(opening);
    return NULL;
}

/// Opens from a thread that exists for this alone: a thread that has changed its namespace may not be able to change back.
static void open_from_thread(struct opening *opening)
{
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    opening->operation = "pthread_create";
    opening->error = pthread_create(&thread, NULL, open_in_namespace, opening);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (opening->error == 0)
        pthread_join(thread, NULL);
}

int32_t cnl_open(cnl_socket **socket, const char *namespace_path, const char **operation)
{
    struct opening opening = {.namespace_path = namespace_path};
    if (namespace_path)
        open_from_thread(&opening);
    else
        connect_socket(&opening);
    *operation = opening.operation;
    if (opening.error)
        return -opening.error;
    *socket = calloc(1, sizeof **socket);
    if (!*socket) {
        nl_socket_free(opening.socket);
        return -ENOMEM;
    }
    (*socket)->socket = opening.socket;
    return 0;
}

void cnl_close(cnl_socket *socket)
{
    if (!socket)
        return;
    nl_socket_free(socket->socket);
    free(socket);
}

int32_t cnl_descriptor(const cnl_socket *socket) { return nl_socket_get_fd(socket->socket); }

int32_t cnl_join(cnl_socket *socket, uint32_t group)
{
    int number = (int)group;
    errno = 0;
    int result = setsockopt(cnl_descriptor(socket), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &number, sizeof number);
    return result < 0 ? -errno : 0;
}

int32_t cnl_set_nonblocking(cnl_socket *socket)
{
    int descriptor = cnl_descriptor(socket);
    int flags = fcntl(descriptor, F_GETFL);
    return flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int32_t cnl_set_strict(cnl_socket *socket)
{
    int yes = 1, descriptor = cnl_descriptor(socket);
    if (setsockopt(descriptor, SOL_NETLINK, NETLINK_EXT_ACK, &yes, sizeof yes) < 0
        || setsockopt(descriptor, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &yes, sizeof yes) < 0)
        return -errno;
    return 0;
}

int32_t cnl_set_receive_timeout(cnl_socket *socket, uint32_t milliseconds)
{
    struct timeval time = {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    return setsockopt(cnl_descriptor(socket), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) < 0 ? -errno : 0;
}

int32_t cnl_set_receive_buffer(cnl_socket *socket, uint32_t bytes, uint32_t *granted)
{
    int descriptor = cnl_descriptor(socket);
    int size = bytes > INT32_MAX ? INT32_MAX : (int)bytes;
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0
        && setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) < 0)
        return -errno;
    socklen_t length = sizeof size;
    if (getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, &length) < 0)
        return -errno;
    *granted = (uint32_t)size;
    return 0;
}

int32_t cnl_drops(const cnl_socket *socket, uint32_t *drops)
{
    uint32_t information[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof information;
    if (getsockopt(cnl_descriptor(socket), SOL_SOCKET, SO_MEMINFO, information, &length) < 0)
        return -errno;
    *drops = information[SK_MEMINFO_DROPS];
    return 0;
}

int32_t cnl_enter_namespace(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    int error = setns(descriptor, CLONE_NEWNET) < 0 ? errno : 0;
    close(descriptor);
    return -error;
}
