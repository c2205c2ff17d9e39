// Shared by the files of this target. The only header here that includes libnl.
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
    /// The socket's netlink address (nl_pid).
    uint32_t port;
    /// The sequence number of the last request.
    uint32_t sequence;
    /// The arguments of recvmmsg(2), allocated by the first `cnl_receive_many`.
    struct cnl_places *_Nullable places;
};

/// Returns the negative errno of a libnl call that has just failed. libnl returns a coarser NLE_ code but does not change errno.
/// Callers clear errno first: 0 then means that libnl failed without a system call.
static inline int32_t cnl_last_error(void) {
    return errno > 0 ? -errno : -EPROTO;
}

/// Returns the kernel's negative errno as a positive one; other values are success, 0.
static inline int32_t cnl_positive_errno(int32_t error) {
    if (error >= 0) { return 0; }
    return error == INT32_MIN ? INT32_MAX : -error;
}

/// Opens the network namespace at `path` and moves the calling thread there. Returns 0 or a negative errno.
int32_t cnl_switch_namespace(const char *_Nonnull path, const char *_Nonnull *_Nonnull operation);

/// Runs `work` in the network namespace at `path`; NULL is the calling thread's own. A socket stays in the namespace of the
/// thread that created it, so a short-lived thread enters the namespace.
/// Returns the result of `work`, or a negative errno.
int32_t cnl_in_namespace(const char *_Nullable path,
                         int32_t (*_Nonnull work)(void *_Nullable argument, const char *_Nullable *_Nonnull operation),
                         void *_Nullable argument, const char *_Nullable *_Nonnull operation);

/// The policy of an attribute of exactly `size` bytes.
#define CNL_EXACTLY(size) { .type = NLA_UNSPEC, .minlen = (size), .maxlen = (size) }

/// Puts the attributes after a header of `size` bytes into `table`, by type up to `last`, and checks them against `policy`
/// (nla_parse). Returns false if the message is too short, an attribute breaks the policy, or lengths do not add up.
/// Accepts unknown attributes; the last one of a type counts.
bool cnl_parse_message(const struct nlmsghdr *_Nonnull header, int size, struct nlattr *_Nullable *_Nonnull table, int last,
                       const struct nla_policy *_Nonnull policy);

/// Parses the attributes inside an attribute, as `cnl_parse_message` does.
bool cnl_parse(const void *_Nonnull first, int length, struct nlattr *_Nullable *_Nonnull table, int last,
               const struct nla_policy *_Nonnull policy);

// Inline instead of libnl's nla_data and nla_get_u32: calls into another library would lie between an event and its verdict.

static inline const void *_Nonnull cnl_payload(const struct nlattr *_Nonnull attribute) {
    return (const char *)attribute + NLA_HDRLEN;
}

/// Returns the payload of an attribute whose policy is CNL_EXACTLY(4); `otherwise` without one.
static inline uint32_t cnl_u32(const struct nlattr *_Nullable attribute, uint32_t otherwise) {
    if (attribute != NULL) { memcpy(&otherwise, cnl_payload(attribute), sizeof otherwise); }
    return otherwise;
}

/// Returns the length of an address of `family`, or 0 unless that is AF_INET or AF_INET6.
size_t cnl_address_length(uint8_t family);

/// Fills in an address. Returns false unless `length` is the length of an address of `family`.
bool cnl_make_address(uint8_t family, const void *_Nonnull bytes, size_t length, cnl_address *_Nonnull address);

/// Fills in an address from an attribute whose policy is CNL_EXACTLY the length of `family`; without one it is unchanged.
void cnl_read_address(const struct nlattr *_Nullable attribute, uint8_t family, cnl_address *_Nonnull address);

// One decoder for each group of types. The header is aligned and the message readable; `message` is zero except for the header's
// fields. They return false for a malformed message.
bool cnl_decode_link(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_address(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_route(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_rule(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_nexthop(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_neighbour(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);
bool cnl_decode_netconf(const struct nlmsghdr *_Nonnull header, cnl_message *_Nonnull message);

#endif
