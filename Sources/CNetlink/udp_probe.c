// Routes, links and addresses without netlink, for sandboxes that forbid it (systemd's RestrictAddressFamilies=, seccomp):
// connecting a UDP socket sends nothing and selects the source address.
#define _GNU_SOURCE
#include "internal.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>

#define ROOM_AT_FIRST 16

struct probe {
    const cnl_route_query *query;
    cnl_address *source;
    int32_t *refusal;
};

static socklen_t socket_address(const cnl_address *address, uint16_t port, struct sockaddr_storage *storage) {
    memset(storage, 0, sizeof *storage);
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)storage;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, address->bytes, sizeof in->sin_addr);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, address->bytes, sizeof in6->sin6_addr);
    return sizeof *in6;
}

static int32_t apply_options(int descriptor, const cnl_route_query *query, struct sockaddr_storage *destination) {
    if (query->has_mark && setsockopt(descriptor, SOL_SOCKET, SO_MARK, &query->mark, sizeof query->mark) < 0) { return -errno; }
    if (query->interface == 0) { return 0; }
    struct ifreq request = { .ifr_ifindex = (int)query->interface };
    if (ioctl(descriptor, SIOCGIFNAME, &request) < 0) { return -errno; }
    if (setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, request.ifr_name, IFNAMSIZ) < 0) { return -errno; }
    if (query->destination.family == AF_INET6) { ((struct sockaddr_in6 *)destination)->sin6_scope_id = query->interface; }
    return 0;
}

static int32_t read_source(int descriptor, const struct probe *probe) {
    struct sockaddr_storage local = { 0 };
    socklen_t size = sizeof local;
    if (getsockname(descriptor, (struct sockaddr *)&local, &size) < 0) { return -errno; }
    const void *bytes = local.ss_family == AF_INET ? (const void *)&((struct sockaddr_in *)&local)->sin_addr
                                                   : (const void *)&((struct sockaddr_in6 *)&local)->sin6_addr;
    const uint8_t family = (uint8_t)local.ss_family;
    return cnl_make_address(family, bytes, cnl_address_length(family), probe->source) ? 0 : -EAFNOSUPPORT;
}

static bool is_link_local(const cnl_address *address) {
    return address->family == AF_INET6 && address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;
}

static int32_t connect_probe(void *argument, const char **operation) {
    const struct probe *probe = argument;
    *operation = "socket(SOCK_DGRAM)";
    // A new socket each time: a connected one keeps its first source address (ip4_datagram_connect, net/ipv4/datagram.c).
    const int descriptor = socket(probe->query->destination.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    // A kernel without IPv6 has no route to an IPv6 address.
    if (descriptor < 0 && errno == EAFNOSUPPORT && probe->query->destination.family == AF_INET6) {
        *probe->refusal = ENETUNREACH;
        return 0;
    }
    if (descriptor < 0) { return -errno; }
    // Without an interface connect(2) fails with EINVAL, which would look like a blackhole (__ip6_datagram_connect).
    if (is_link_local(&probe->query->destination) && probe->query->interface == 0) {
        close(descriptor);
        *probe->refusal = ENETUNREACH;
        return 0;
    }
    struct sockaddr_storage destination;
    // Port 9 is discard (RFC 863); connect(2) rejects port 0.
    const uint16_t port = probe->query->port != 0 ? probe->query->port : 9;
    const socklen_t size = socket_address(&probe->query->destination, port, &destination);
    *operation = "setsockopt()";
    int32_t error = apply_options(descriptor, probe->query, &destination);
    // The interface went away after the query was made: a lookup would fail with ENODEV, too.
    if (error == -ENODEV) {
        *probe->refusal = ENODEV;
        error = 0;
    }
    if (error == 0 && *probe->refusal == 0 && probe->query->source.family == probe->query->destination.family) {
        struct sockaddr_storage source;
        *operation = "bind(SOCK_DGRAM)";
        if (bind(descriptor, (struct sockaddr *)&source, socket_address(&probe->query->source, 0, &source)) < 0) {
            if (errno == EADDRNOTAVAIL) { *probe->refusal = EINVAL; } else { error = -errno; }
        }
    }
    if (error == 0 && *probe->refusal == 0) {
        *operation = "connect(SOCK_DGRAM)";
        if (connect(descriptor, (struct sockaddr *)&destination, size) == 0) {
            *operation = "getsockname()";
            error = read_source(descriptor, probe);
        } else {
            switch (errno) {
            case ENETUNREACH: case EHOSTUNREACH: case EACCES: case EINVAL: case EADDRNOTAVAIL: case ENODEV: case ENETDOWN:
                *probe->refusal = errno;
                break;
            default:
                error = -errno;
            }
        }
    }
    close(descriptor);
    return error;
}

int32_t cnl_probe_route(const char *namespace_path, const cnl_route_query *query, cnl_address *source,
                            int32_t *refusal, const char **operation) {
    struct probe probe = { .query = query, .source = source, .refusal = refusal };
    memset(source, 0, sizeof *source);
    *refusal = 0;
    *operation = "setuid()";
    // Policy rules match the user who created the socket.
    if (query->has_uid && query->uid != geteuid()) { return -EPERM; }
    return cnl_in_namespace(namespace_path, connect_probe, &probe, operation);
}

static void *grown(void *array, size_t count, size_t size) {
    // Doubles at powers of two: appending stays O(1) on average.
    if (count != 0 && (count < ROOM_AT_FIRST || (count & (count - 1)) != 0)) { return array; }
    const size_t room = count < ROOM_AT_FIRST ? ROOM_AT_FIRST : 2 * count;
    return realloc(array, room * size);
}

static bool has_carrier(int descriptor, struct ifreq request, bool otherwise) {
    struct ethtool_value answer = { .cmd = ETHTOOL_GLINK };
    request.ifr_data = (void *)&answer;
    return ioctl(descriptor, SIOCETHTOOL, &request) == 0 ? answer.data != 0 : otherwise;
}

static int32_t add_link(cnl_interfaces *list, int descriptor, const char *name) {
    struct ifreq request = { 0 };
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    // Skip a link that has just been removed.
    if (ioctl(descriptor, SIOCGIFINDEX, &request) < 0) { return 0; }
    const uint32_t index = (uint32_t)request.ifr_ifindex;
    for (size_t known = 0; known < list->link_count; known++) {
        if (list->links[known].index == index) { return 0; }
    }
    cnl_link link = { .index = index };
    memcpy(link.name, request.ifr_name, CNL_NAME_SIZE);
    if (ioctl(descriptor, SIOCGIFFLAGS, &request) < 0) { return 0; }
    const uint16_t flags = (uint16_t)request.ifr_flags;
    link.flags = flags & (uint32_t)(IFF_UP | IFF_POINTOPOINT);
    // These 16 bits end below IFF_LOWER_UP. IFF_RUNNING marks an operational link (netdevice(7)), and may lag behind the carrier by
    // 1 s (net/core/link_watch.c).
    if (has_carrier(descriptor, request, flags & IFF_RUNNING)) { link.flags |= CNL_LINK_LOWER_UP; }
    link.operational_state = flags & IFF_RUNNING ? CNL_STATE_UNKNOWN : CNL_STATE_DOWN;
    if (ioctl(descriptor, SIOCGIFHWADDR, &request) == 0) { link.hardware_type = request.ifr_hwaddr.sa_family; }
    cnl_link *links = grown(list->links, list->link_count, sizeof link);
    if (links == NULL) { return -ENOMEM; }
    list->links = links;
    list->links[list->link_count++] = link;
    return 0;
}

static int32_t add_address(cnl_interfaces *list, cnl_interface_address address) {
    cnl_interface_address *addresses = grown(list->addresses, list->address_count, sizeof address);
    if (addresses == NULL) { return -ENOMEM; }
    list->addresses = addresses;
    list->addresses[list->address_count++] = address;
    return 0;
}

/// Opens a file below the calling thread's /proc/net; NULL without /proc.
static FILE *open_table(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/thread-self/net/%s", name);
    return fopen(path, "re");
}

static int32_t add_names(cnl_interfaces *list, int descriptor) {
    FILE *file = open_table("dev");
    if (file == NULL) { return 0; }
    int32_t error = 0;
    char *line = NULL;
    size_t room = 0;
    while (error == 0 && getline(&line, &room, file) >= 0) {
        // The two header lines have no colon, and neither has a name (dev_valid_name, net/core/dev.c).
        char *end = strchr(line, ':');
        if (end == NULL) { continue; }
        *end = 0;
        error = add_link(list, descriptor, line + strspn(line, " "));
    }
    free(line);
    fclose(file);
    return error;
}

static uint8_t prefix_length(uint32_t mask) {
    uint8_t length = 0;
    for (uint32_t bits = ntohl(mask); bits & 0x80000000u; bits <<= 1) { length++; }
    return length;
}

static int32_t add_ipv4(cnl_interfaces *list, int descriptor, const struct ifreq *held) {
    char name[IFNAMSIZ + 1] = { 0 };
    memcpy(name, held->ifr_name, IFNAMSIZ);
    struct ifreq mask = *held;
    cnl_interface_address address = { .prefix_length = 32 };
    // The kernel compares the address too, which selects one of several with the same name (devinet_ioctl).
    if (ioctl(descriptor, SIOCGIFNETMASK, &mask) == 0) {
        address.prefix_length = prefix_length(((struct sockaddr_in *)&mask.ifr_netmask)->sin_addr.s_addr);
    }
    // An alias is listed by its label, such as eth0:1.
    char *colon = strchr(name, ':');
    if (colon != NULL) { *colon = 0; }
    int32_t error = add_link(list, descriptor, name);
    if (error != 0) { return error; }
    struct ifreq request = { 0 };
    memcpy(request.ifr_name, name, IFNAMSIZ);
    if (ioctl(descriptor, SIOCGIFINDEX, &request) < 0) { return 0; }
    address.interface = (uint32_t)request.ifr_ifindex;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&held->ifr_addr;
    cnl_make_address(AF_INET, &in->sin_addr, sizeof in->sin_addr, &address.local);
    return add_address(list, address);
}

static int32_t add_all_ipv4(cnl_interfaces *list, int descriptor) {
    // The kernel truncates silently; unused room proves that the list is whole.
    for (size_t room = 64; room <= 1 << 20; room *= 4) {
        struct ifreq *held = calloc(room, sizeof *held);
        if (held == NULL) { return -ENOMEM; }
        struct ifconf request = { .ifc_len = (int)(room * sizeof *held), .ifc_req = held };
        int32_t error = ioctl(descriptor, SIOCGIFCONF, &request) < 0 ? -errno : 0;
        const size_t count = error == 0 ? (size_t)request.ifc_len / sizeof *held : 0;
        const bool is_whole = count < room;
        for (size_t index = 0; error == 0 && is_whole && index < count; index++) {
            error = add_ipv4(list, descriptor, &held[index]);
        }
        free(held);
        if (error != 0 || is_whole) { return error; }
    }
    return -E2BIG;
}

static int32_t add_all_ipv6(cnl_interfaces *list, int descriptor) {
    FILE *file = open_table("if_inet6");
    if (file == NULL) { return 0; }
    int32_t error = 0;
    unsigned bytes[16], index, length, scope, flags;
    char name[IFNAMSIZ + 1];
    while (error == 0 && fscanf(file, "%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x%2x %x %x %x %x %16s",
            &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5], &bytes[6], &bytes[7],
            &bytes[8], &bytes[9], &bytes[10], &bytes[11], &bytes[12], &bytes[13], &bytes[14], &bytes[15],
            &index, &length, &scope, &flags, name) == 21) {
        cnl_interface_address address = { .interface = index, .prefix_length = (uint8_t)length, .flags = flags };
        address.local.family = AF_INET6;
        for (size_t place = 0; place < 16; place++) { address.local.bytes[place] = (uint8_t)bytes[place]; }
        error = add_link(list, descriptor, name);
        if (error == 0) { error = add_address(list, address); }
    }
    fclose(file);
    return error;
}

static int32_t list_all(void *argument, const char **operation) {
    cnl_interfaces *list = argument;
    *operation = "socket(SOCK_DGRAM)";
    int descriptor = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 && errno == EAFNOSUPPORT) { descriptor = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0); }
    if (descriptor < 0) { return -errno; }
    *operation = "ioctl(SIOCGIFCONF)";
    int32_t error = add_names(list, descriptor);
    if (error == 0) { error = add_all_ipv4(list, descriptor); }
    if (error == 0) { error = add_all_ipv6(list, descriptor); }
    close(descriptor);
    return error;
}

int32_t cnl_probe_interfaces(const char *namespace_path, cnl_interfaces *list, const char **operation) {
    *list = (cnl_interfaces){ 0 };
    const int32_t error = cnl_in_namespace(namespace_path, list_all, list, operation);
    if (error != 0) { cnl_free_interfaces(list); }
    return error;
}

void cnl_free_interfaces(cnl_interfaces *list) {
    free(list->links);
    free(list->addresses);
    *list = (cnl_interfaces){ 0 };
}
