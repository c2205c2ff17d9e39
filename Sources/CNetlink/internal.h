// What the files of this target share. The only header here that sees libnl.
#ifndef CNETLINK_INTERNAL_H
#define CNETLINK_INTERNAL_H

#include "cnetlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/object.h>
#include <netlink/socket.h>

struct cnl_socket {
    struct nl_sock *_Nonnull handle;
    int32_t descriptor;
    /// The socket's address, as answers and requests name it.
    uint32_t port;
    /// The sequence number of the last request.
    uint32_t sequence;
    /// What `cnl_receive_many` hands to the kernel; allocated by the first call.
    struct cnl_places *_Nullable places;
};

/// What a libnl call that has just failed is reported as. libnl translates errno to a coarser NLE_ code but leaves errno
/// itself alone; callers clear errno first, so that 0 means that libnl refused without asking the kernel.
static inline int32_t cnl_last_error(void) {
    return errno > 0 ? -errno : -EPROTO;
}

/// A kernel's "negative errno" as a positive one; anything else is success.
static inline int32_t cnl_positive_errno(int32_t error) {
    if (error >= 0) { return 0; }
    return error == INT32_MIN ? INT32_MAX : -error;
}

/// Opens the network namespace at `path` and moves the calling thread there. Returns 0 or a negative errno.
int32_t cnl_switch_namespace(const char *_Nonnull path, const char *_Nonnull *_Nonnull operation);

/// Does some work in the network namespace at `path`; NULL is the calling thread's own. A socket belongs for ever to the
/// namespace of the thread that made it, so a thread that lives no longer than this call does the travelling.
/// Returns what the work returns, or a negative errno.
int32_t cnl_in_namespace(const char *_Nullable path,
                         int32_t (*_Nonnull work)(void *_Nullable argument, const char *_Nullable *_Nonnull operation),
                         void *_Nullable argument, const char *_Nullable *_Nonnull operation);

// What libnl's nla_type, nla_len, nla_data, nla_ok and nla_next do, without a call into another library for each: an answer to a
// look-up has a dozen attributes, and several answers lie between an event and its verdict. The first call of another library
// after a rest costs more than many that follow: its pages have to be found again. Hence NLMSG_DATA, too, and not nlmsg_data.

static inline int cnl_attribute_type(const struct nlattr *_Nonnull attribute) { return attribute->nla_type & NLA_TYPE_MASK; }

static inline int cnl_attribute_length(const struct nlattr *_Nonnull attribute) { return attribute->nla_len - NLA_HDRLEN; }

static inline const void *_Nonnull cnl_attribute_data(const struct nlattr *_Nonnull attribute) {
    return (const char *)attribute + NLA_HDRLEN;
}

/// Whether a whole attribute is left.
static inline bool cnl_attribute_fits(const struct nlattr *_Nonnull attribute, int left) {
    return left >= NLA_HDRLEN && attribute->nla_len >= NLA_HDRLEN && attribute->nla_len <= left;
}

/// The place behind an attribute and its padding; `left` turns negative if the padding of the last one is missing.
static inline const struct nlattr *_Nonnull cnl_attribute_after(const struct nlattr *_Nonnull attribute, int *_Nonnull left) {
    const int size = NLA_ALIGN(attribute->nla_len);
    *left -= size;
    return (const struct nlattr *)(const void *)((const char *)attribute + size);
}

/// The attributes behind a header of `size` bytes. False if the message is too short for that header.
bool cnl_attributes(const struct nlmsghdr *_Nonnull header, int size, struct nlattr *_Nonnull *_Nonnull first,
                    int *_Nonnull length);

/// The 32-bit payload of an attribute. False unless that is exactly what it holds.
bool cnl_read_u32(const struct nlattr *_Nonnull attribute, uint32_t *_Nonnull value);

/// The length of an address of `family`, or 0 if that is neither AF_INET nor AF_INET6.
size_t cnl_address_length(uint8_t family);

/// Fills in an address. False unless `length` is what an address of `family` takes.
bool cnl_make_address(uint8_t family, const void *_Nonnull bytes, size_t length, cnl_address *_Nonnull address);

/// An empty copy of `original`'s header and fixed part, for libnl's parsers. NULL if there is no memory.
struct nl_msg *_Nullable cnl_excerpt(const struct nlmsghdr *_Nonnull original, int fixed_size);

/// Has libnl parse `message` and hands the object to `read`. False if libnl refuses the message.
bool cnl_parse(struct nl_msg *_Nonnull message, void (*_Nonnull read)(struct nl_object *_Nonnull, void *_Nullable),
               void *_Nonnull context);

// One decoder for each family of types. The header is aligned and wholly readable; `message` is zeroed but for what the
// header says. False means malformed.
bool cnl_decode_link(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_address(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_route(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_rule(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_nexthop(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_netconf(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);

#endif
