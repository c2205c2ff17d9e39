// Sockets and tunnels in other network namespaces: connect(2) gives the first half of an independent verdict, and a service manager
// hands a netlink socket over.
#define _GNU_SOURCE
#include "include/csandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/if_tun.h>
#include <linux/netlink.h>

struct task {
    const char *namespace_path;
    int32_t processor;
    csandbox_probe *probes;
    size_t count;
    int32_t result;
};

static int32_t prepare(int descriptor, const csandbox_probe *probe) {
    if (probe->has_mark && setsockopt(descriptor, SOL_SOCKET, SO_MARK, &probe->mark, sizeof probe->mark) < 0) { return -errno; }
    if (probe->interface[0] != 0
        && setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, probe->interface, IFNAMSIZ) < 0) { return -errno; }
    // A socket in repair mode looks up its route and takes its source like any other, but connects without a packet
    // (tcp_v4_connect and tcp_connect, net/ipv4).
    const int on = 1;
    if (!probe->is_datagram && setsockopt(descriptor, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) < 0) { return -errno; }
    return 0;
}

static socklen_t socket_address(const csandbox_probe *probe, struct sockaddr_storage *storage) {
    memset(storage, 0, sizeof *storage);
    // Port 0 cannot be connected to.
    const uint16_t port = htons(probe->port != 0 ? probe->port : 9);
    if (probe->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)storage;
        in->sin_family = AF_INET;
        in->sin_port = port;
        memcpy(&in->sin_addr, probe->destination, sizeof in->sin_addr);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = port;
    in6->sin6_scope_id = probe->interface[0] != 0 ? if_nametoindex(probe->interface) : 0;
    memcpy(&in6->sin6_addr, probe->destination, sizeof in6->sin6_addr);
    return sizeof *in6;
}

/// Fills in the result of connect(2). Returns 0, or a negative errno if the socket cannot be created.
static int32_t connect_once(csandbox_probe *probe) {
    probe->refusal = 0;
    memset(probe->source, 0, sizeof probe->source);
    const int type = (probe->is_datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int descriptor = socket(probe->family, type, 0);
    if (descriptor < 0) { return -errno; }
    struct sockaddr_storage address;
    int32_t error = prepare(descriptor, probe);
    if (error == 0) {
        const socklen_t size = socket_address(probe, &address);
        if (connect(descriptor, (struct sockaddr *)&address, size) < 0 && errno != EINPROGRESS) {
            probe->refusal = errno;
        } else {
            struct sockaddr_storage local = { 0 };
            socklen_t room = sizeof local;
            if (getsockname(descriptor, (struct sockaddr *)&local, &room) < 0) { error = -errno; }
            if (local.ss_family == AF_INET) {
                memcpy(probe->source, &((struct sockaddr_in *)&local)->sin_addr, 4);
            } else {
                memcpy(probe->source, &((struct sockaddr_in6 *)&local)->sin6_addr, 16);
            }
        }
    }
    close(descriptor);
    return error;
}

/// Becomes the owner of sockets made from now on: policy rules look at the file system user of who made the socket (sock_alloc,
/// net/socket.c), which the raw call changes for this thread alone.
static int32_t become(uint32_t uid) {
    syscall(SYS_setfsuid, uid);
    return (uint32_t)syscall(SYS_setfsuid, -1) == uid ? 0 : -EPERM;
}

static int32_t enter(const char *namespace_path) {
    const int descriptor = open(namespace_path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) { return -errno; }
    const int32_t result = setns(descriptor, CLONE_NEWNET) < 0 ? -errno : 0;
    close(descriptor);
    return result;
}

static int32_t run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0) { return -error; }
    pthread_join(thread, NULL);
    return 0;
}

static void *connect_all(void *argument) {
    struct task *task = argument;
    task->result = enter(task->namespace_path);
    if (task->result == 0 && task->processor >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)task->processor, &set);
        if (sched_setaffinity(0, sizeof set, &set) < 0) { task->result = -errno; }
    }
    const uint32_t own = (uint32_t)syscall(SYS_setfsuid, -1);
    for (size_t index = 0; task->result == 0 && index < task->count; index++) {
        csandbox_probe *probe = &task->probes[index];
        task->result = become(probe->has_uid ? probe->uid : own);
        if (task->result == 0) { probe->failure = connect_once(probe); }
    }
    return NULL;
}

int32_t csandbox_connect(const char *namespace_path, int32_t processor, csandbox_probe *probes, size_t count) {
    struct task task = { .namespace_path = namespace_path, .processor = processor, .probes = probes, .count = count };
    const int32_t error = run(connect_all, &task);
    return error != 0 ? error : task.result;
}

struct tunnel {
    const char *namespace_path;
    const char *name;
    int32_t result;
};

static void *open_tunnel(void *argument) {
    struct tunnel *tunnel = argument;
    tunnel->result = enter(tunnel->namespace_path);
    if (tunnel->result != 0) { return NULL; }
    const int descriptor = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) {
        tunnel->result = -errno;
        return NULL;
    }
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    strncpy(request.ifr_name, tunnel->name, IFNAMSIZ - 1);
    tunnel->result = ioctl(descriptor, TUNSETIFF, &request) < 0 ? -errno : descriptor;
    if (tunnel->result < 0) { close(descriptor); }
    return NULL;
}

int32_t csandbox_open_tunnel(const char *namespace_path, const char *name) {
    struct tunnel tunnel = { .namespace_path = namespace_path, .name = name };
    const int32_t error = run(open_tunnel, &tunnel);
    return error != 0 ? error : tunnel.result;
}

struct listener {
    const char *namespace_path;
    uint32_t groups;
    int receive_buffer;
    int32_t result;
};

static void *open_listener(void *argument) {
    struct listener *listener = argument;
    listener->result = enter(listener->namespace_path);
    if (listener->result != 0) { return NULL; }
    const int descriptor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    const struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = listener->groups };
    const int size = listener->receive_buffer;
    listener->result = descriptor;
    // As root of a user namespace the size has the limit of every user.
    if (descriptor < 0 || bind(descriptor, (const struct sockaddr *)&address, sizeof address) < 0
        || (setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0
            && setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) < 0)) {
        listener->result = -errno;
        if (descriptor >= 0) { close(descriptor); }
    }
    return NULL;
}

int32_t csandbox_listen_netlink(const char *namespace_path, uint32_t groups, uint32_t receive_buffer) {
    struct listener listener = { .namespace_path = namespace_path, .groups = groups, .receive_buffer = (int)receive_buffer };
    const int32_t error = run(open_listener, &listener);
    return error != 0 ? error : listener.result;
}
