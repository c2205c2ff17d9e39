// Handing messages to libnl-route.
//
// libnl gets a copy with only the attributes that this library reads, for two reasons. libnl 3.7 parses everything it
// knows, IFLA_INFO_DATA and IFLA_AF_SPEC included, and refuses the whole message when a newer kernel sends one of those
// in a shape it does not expect: a live interface would be missing. And it reads some attributes, IFA_FLAGS among
// them, without looking at their length (lib/route/addr.c); the copy holds checked ones only.
#include "internal.h"

#include <netlink/cache.h>

struct nl_msg *cnl_excerpt(const struct nlmsghdr *original, int fixed_size) {
    struct nl_msg *message = nlmsg_alloc();
    if (message == NULL) { return NULL; }
    nlmsg_set_proto(message, NETLINK_ROUTE);
    struct nlmsghdr *header = nlmsg_put(
        message, original->nlmsg_pid, original->nlmsg_seq, original->nlmsg_type, fixed_size, original->nlmsg_flags);
    if (header == NULL) {
        nlmsg_free(message);
        return NULL;
    }
    memcpy(nlmsg_data(header), nlmsg_data(original), (size_t)fixed_size);
    return message;
}

struct reading {
    void (*read)(struct nl_object *, void *);
    void *context;
    bool has_object;
};

static void take(struct nl_object *object, void *argument) {
    struct reading *reading = argument;
    reading->has_object = true;
    reading->read(object, reading->context);
}

bool cnl_parse(struct nl_msg *message, void (*read)(struct nl_object *, void *), void *context) {
    struct reading reading = { .read = read, .context = context };
    return nl_msg_parse(message, take, &reading) >= 0 && reading.has_object;
}
