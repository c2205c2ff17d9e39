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

/// The policy of an attribute that holds `size` bytes, no more and no less.
#define CNL_EXACTLY(size) { .type = NLA_UNSPEC, .minlen = (size), .maxlen = (size) }

/// Sorts the attributes behind a header of `size` bytes into `table`, by type up to `last`, and checks them against `policy`
/// (nla_parse). False if the message is too short for that header, an attribute breaks the policy, or they do not add up.
/// Unknown attributes are allowed; of several with the same type the last counts.
bool cnl_parse_message(const struct nlmsghdr *_Nonnull header, int size, struct nlattr *_Nullable *_Nonnull table, int last,
                       const struct nla_policy *_Nonnull policy);

/// The same for attributes inside an attribute.
bool cnl_parse(const void *_Nonnull first, int length, struct nlattr *_Nullable *_Nonnull table, int last,
               const struct nla_policy *_Nonnull policy);

// Not libnl's nla_data and nla_get_u32: a call into another library for each would lie between an event and its verdict.

static inline const void *_Nonnull cnl_payload(const struct nlattr *_Nonnull attribute) {
    return (const char *)attribute + NLA_HDRLEN;
}

/// The payload of an attribute whose policy is CNL_EXACTLY(4); `otherwise` if there is none.
static inline uint32_t cnl_u32(const struct nlattr *_Nullable attribute, uint32_t otherwise) {
    if (attribute != NULL) { memcpy(&otherwise, cnl_payload(attribute), sizeof otherwise); }
    return otherwise;
}

/// The length of an address of `family`, or 0 if that is neither AF_INET nor AF_INET6.
size_t cnl_address_length(uint8_t family);

/// Fills in an address. False unless `length` is what an address of `family` takes.
bool cnl_make_address(uint8_t family, const void *_Nonnull bytes, size_t length, cnl_address *_Nonnull address);

/// Fills in an address from an attribute whose policy is CNL_EXACTLY the length of `family`; without one it stays as it is.
void cnl_read_address(const struct nlattr *_Nullable attribute, uint8_t family, cnl_address *_Nonnull address);

// One decoder for each family of types. The header is aligned and wholly readable; `message` is zeroed but for what the
// header says. False means malformed.
bool cnl_decode_link(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_address(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_route(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_rule(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_nexthop(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_netconf(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);

#endif
