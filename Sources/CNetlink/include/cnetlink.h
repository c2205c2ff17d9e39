// rtnetlink through libnl-3 and libnl-route-3, reduced to plain structs and one opaque handle.
//
// Every function that can fail returns a negative errno, never one of libnl's NLE_ codes: libnl folds ENOBUFS into
// "out of memory" and ENETUNREACH and EHOSTUNREACH into "failure" (netlink/errno.h), and callers need the difference.
// No function keeps a pointer that it receives. A socket may be used by one thread at a time.
#ifndef CNETLINK_H
#define CNETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __linux__
#error "CNetlink needs Linux: it speaks rtnetlink(7)"
#endif

// GCC knows no nullability; only clang, and Swift through it, reads the annotations.
#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

/// An rtnetlink socket, from `cnl_open` to `cnl_close`.
typedef struct cnl_socket cnl_socket;

/// The size of an interface name with its final NUL (IFNAMSIZ, net/if.h).
#define CNL_NAME_SIZE 16
/// The size of a link kind such as "veth" or "wireguard", with its final NUL.
#define CNL_KIND_SIZE 32
/// The size of a buffer that holds any datagram: the kernel builds dump datagrams of at most 32 KiB
/// (net/netlink/af_netlink.c, netlink_dump) and events of one message.
#define CNL_BUFFER_SIZE 65536

/// The size of an alternative name with its final NUL (ALTIFNAMSIZ, linux/if.h).
#define CNL_LONG_NAME_SIZE 128

/// The size of the longest hardware address (MAX_ADDR_LEN, linux/netdevice.h).
#define CNL_HARDWARE_ADDRESS_SIZE 32

/// An IP address in network byte order. `family` is AF_INET, AF_INET6 or 0 for "none"; IPv4 uses the first four bytes.
typedef struct {
    uint8_t family;
    uint8_t bytes[16];
} cnl_address;

/// The outer packets of a tunnel, if the kernel has one remote for all of them, and sends them from the same namespace.
typedef struct {
    cnl_address remote;        ///< Family 0 for none.
    cnl_address local;         ///< Family 0 for none: the kernel selects the source.
    uint32_t interface;        ///< The index of the interface that they leave through, or 0.
    uint32_t mark;             ///< The firewall mark, or 0.
    uint8_t type_of_service;   ///< 0 also if they inherit it.
    uint8_t protocol;          ///< IPPROTO_*.
} cnl_tunnel;

/// A link: RTM_NEWLINK and RTM_DELLINK of family AF_UNSPEC.
typedef struct {
    uint32_t index;
    uint32_t flags;            ///< IFF_* of netdevice(7), among them IFF_LOWER_UP (carrier).
    uint32_t carrier_changes;  ///< IFLA_CARRIER_CHANGES: the number of times that the carrier came or went.
    uint32_t master;           ///< The index of its bridge, bond or VRF, or 0.
    uint32_t lower;            ///< IFLA_LINK: the index of the device below it, or of a veth's peer, in the same namespace; or 0.
    uint16_t hardware_type;    ///< ARPHRD_* of linux/if_arp.h.
    uint8_t operational_state; ///< IF_OPER_* of linux/if.h (RFC 2863).
    uint8_t link_mode;         ///< IF_LINK_MODE_*: dormant, if a program says when the link may pass packets.
    uint8_t hardware_address_length; ///< 0 if there is none, or it is unknown.
    uint8_t hardware_address[CNL_HARDWARE_ADDRESS_SIZE]; ///< IFLA_ADDRESS.
    char name[CNL_NAME_SIZE];  ///< Bytes, not text: the kernel forbids only '/', ':' and white space.
    char kind[CNL_KIND_SIZE];  ///< IFLA_INFO_KIND; empty for hardware.
    cnl_tunnel tunnel;         ///< The outer packets of a tunnel.
    bool is_unmonitored;       ///< A bond that watches neither the carrier nor ARP targets of its ports.
    uint32_t names_offset;     ///< IFLA_PROP_LIST in the datagram, for `cnl_next_name`.
    uint32_t names_length;     ///< Its length, or 0.
} cnl_link;

/// An address of an interface: RTM_NEWADDR and RTM_DELADDR.
typedef struct {
    uint32_t interface;
    uint32_t flags;            ///< IFA_F_* from the 32-bit IFA_FLAGS attribute, not from the 8-bit header field.
    uint8_t prefix_length;
    uint8_t scope;             ///< RT_SCOPE_*.
    cnl_address local;         ///< IFA_LOCAL, or IFA_ADDRESS without it (IPv6).
} cnl_interface_address;

/// A route: an event, or the answer to a lookup.
typedef struct {
    uint8_t family;
    uint8_t destination_length; ///< Prefix length; 0 for a default route.
    uint8_t type;               ///< RTN_*.
    uint8_t protocol;           ///< RTPROT_*.
    uint8_t scope;              ///< RT_SCOPE_*.
    uint32_t table;             ///< RTA_TABLE, or the 8-bit header field.
    uint32_t flags;             ///< RTM_F_* and RTNH_F_*.
    uint32_t metric;            ///< RTA_PRIORITY, or 0.
    uint32_t interface;         ///< RTA_OIF, or that of a multipath route's first next hop, or 0.
    uint32_t nexthop;           ///< RTA_NH_ID, or 0.
    cnl_address destination;    ///< RTA_DST; family 0 for a default route.
    cnl_address gateway;        ///< RTA_GATEWAY, or RTA_VIA (an IPv6 gateway of an IPv4 route), or the first next hop's.
    cnl_address source;         ///< RTA_PREFSRC.
    uint32_t expires;           ///< rta_expires of RTA_CACHEINFO: hundredths of a second, or 0 without an end.
    uint32_t hops_offset;       ///< RTA_MULTIPATH in the datagram, for `cnl_next_hop`.
    uint32_t hops_length;       ///< Its length, or 0.
} cnl_route;

/// A next hop of a multipath route.
typedef struct {
    uint32_t interface;
    uint32_t flags;             ///< RTNH_F_*.
    cnl_address gateway;        ///< RTA_GATEWAY or RTA_VIA; family 0 on the link.
} cnl_hop;

/// An entry of the neighbour table (RTM_NEWNEIGH), or of a bridge's forwarding database (AF_BRIDGE).
typedef struct {
    uint32_t interface;         ///< Of a forwarding database the port, or the bridge itself.
    uint16_t state;             ///< NUD_* of linux/neighbour.h.
    uint8_t hardware_address_length; ///< 0 if it is unknown.
    uint8_t hardware_address[CNL_HARDWARE_ADDRESS_SIZE]; ///< NDA_LLADDR.
    cnl_address address;        ///< NDA_DST; family 0 in a forwarding database.
} cnl_neighbour;

/// An IPsec policy: XFRM_MSG_NEWPOLICY of linux/xfrm.h.
typedef struct {
    cnl_address source, destination;
    uint8_t source_length, destination_length; ///< Prefix lengths.
    uint8_t direction;          ///< XFRM_POLICY_IN, _OUT or _FWD.
    uint8_t action;             ///< XFRM_POLICY_ALLOW or _BLOCK.
    uint8_t protocol;           ///< IPPROTO_*, or 0 for any.
    uint16_t port, port_mask;   ///< Of the destination, in host byte order.
    bool has_source_port;       ///< It selects by the source port.
    bool has_templates;         ///< Packets need security associations.
    uint32_t priority;          ///< The lowest counts.
    uint32_t interface;         ///< The index of the outgoing interface, or 0 for any.
    uint32_t interface_id;      ///< XFRMA_IF_ID: only for packets of an xfrm interface; or 0.
    uint32_t mark, mark_mask;   ///< XFRMA_MARK.
} cnl_policy;

/// The kind of a message.
typedef enum {
    CNL_OTHER = 0,      ///< Well-formed and irrelevant: an unknown type, or a bridge's view of a port (AF_BRIDGE).
    CNL_LINK,
    CNL_LINK_GONE,
    CNL_ADDRESS,
    CNL_ADDRESS_GONE,
    CNL_ROUTE,
    CNL_ROUTE_GONE,
    CNL_RULE,           ///< Only `family` is filled in.
    CNL_RULE_GONE,
    CNL_NEXTHOP,        ///< Only `identifier` is filled in.
    CNL_NEXTHOP_GONE,
    CNL_NEIGHBOUR,
    CNL_NEIGHBOUR_GONE,
    CNL_NETCONF,        ///< `family`, and `identifier`: the interface index, or NETCONFA_IFINDEX_ALL (-1) or _DEFAULT (-2).
    CNL_DONE,           ///< The end of a dump. `error` is the errno in NLMSG_DONE: a rejected request is not an empty dump.
    CNL_ERROR,          ///< NLMSG_ERROR; `error` 0 is an acknowledgement.
    CNL_OVERRUN,        ///< NLMSG_OVERRUN.
    CNL_MALFORMED       ///< Undecodable; counted and skipped.
} cnl_kind;

/// One message. `kind` selects which of the last members are valid.
typedef struct {
    cnl_kind kind;
    uint32_t sequence;    ///< nlmsg_seq.
    bool is_interrupted;  ///< NLM_F_DUMP_INTR: the dump is inconsistent; repeat it.
    bool is_replacement;  ///< NLM_F_REPLACE: the kernel announces no removal of the old route.
    int32_t error;        ///< A positive errno, or 0.
    uint8_t family;
    uint32_t identifier;
    cnl_link link;
    cnl_interface_address address;
    cnl_route route;
    cnl_neighbour neighbour;
} cnl_message;

/// The sender, size and place of a received datagram.
typedef struct {
    uint32_t port;        ///< The sender's port (nl_pid); 0 is the kernel, any other port is spoofed.
    bool is_truncated;    ///< MSG_TRUNC: the datagram did not fit.
    uint32_t offset;      ///< Its offset in the buffer.
    uint32_t length;      ///< Its length, truncated to its slot.
} cnl_datagram;

/// A route lookup (RTM_GETROUTE).
typedef struct {
    cnl_address destination;
    uint32_t interface;   ///< RTA_OIF, or 0.
    uint32_t mark;        ///< RTA_MARK if `has_mark`.
    uint32_t uid;         ///< RTA_UID if `has_uid`; otherwise the caller's.
    cnl_address source;   ///< RTA_SRC, or family 0: the kernel then selects one after the lookup.
    uint16_t port;        ///< RTA_DPORT in host byte order, or 0.
    uint8_t transport;    ///< RTA_IP_PROTO, or 0.
    uint8_t type_of_service; ///< rtm_tos.
    bool has_mark;
    bool has_uid;
    bool fib_match;       ///< RTM_F_FIB_MATCH: the answer is the route in the table, not the resolved one.
} cnl_route_query;

// The kernel's numbers for callers, who need no kernel header; static assertions compare them with the kernel's.
#define CNL_LINK_UP 0x1u             ///< IFF_UP
#define CNL_LINK_POINT_TO_POINT 0x10u ///< IFF_POINTOPOINT
#define CNL_LINK_LOWER_UP 0x10000u   ///< IFF_LOWER_UP
#define CNL_LINK_DORMANT 0x20000u    ///< IFF_DORMANT
#define CNL_LINK_MODE_DEFAULT 0u     ///< IF_LINK_MODE_DEFAULT
#define CNL_STATE_UNKNOWN 0u         ///< IF_OPER_UNKNOWN
#define CNL_STATE_DOWN 2u            ///< IF_OPER_DOWN
#define CNL_HARDWARE_ETHERNET 1u     ///< ARPHRD_ETHER
#define CNL_HARDWARE_PPP 512u        ///< ARPHRD_PPP
#define CNL_HARDWARE_LOOPBACK 772u   ///< ARPHRD_LOOPBACK
#define CNL_HARDWARE_RAWIP 519u      ///< ARPHRD_RAWIP
#define CNL_HARDWARE_NONE 0xfffeu    ///< ARPHRD_NONE
#define CNL_ADDRESS_OPTIMISTIC 0x04u ///< IFA_F_OPTIMISTIC
#define CNL_ADDRESS_DADFAILED 0x08u  ///< IFA_F_DADFAILED
#define CNL_ADDRESS_TENTATIVE 0x40u  ///< IFA_F_TENTATIVE
#define CNL_NEIGHBOUR_INCOMPLETE 0x01u ///< NUD_INCOMPLETE
#define CNL_NEIGHBOUR_REACHABLE 0x02u ///< NUD_REACHABLE
#define CNL_NEIGHBOUR_FAILED 0x20u   ///< NUD_FAILED
#define CNL_NEXT_HOP_DEAD 1u         ///< RTNH_F_DEAD
#define CNL_POLICY_OUT 1u            ///< XFRM_POLICY_OUT
#define CNL_POLICY_BLOCK 1u          ///< XFRM_POLICY_BLOCK
#define CNL_ROUTE_UNICAST 1u         ///< RTN_UNICAST
#define CNL_ROUTE_LOCAL 2u           ///< RTN_LOCAL
#define CNL_ROUTE_BROADCAST 3u       ///< RTN_BROADCAST
#define CNL_ROUTE_ANYCAST 4u         ///< RTN_ANYCAST
#define CNL_ROUTE_MULTICAST 5u       ///< RTN_MULTICAST
#define CNL_ROUTE_BLACKHOLE 6u       ///< RTN_BLACKHOLE
#define CNL_ROUTE_UNREACHABLE 7u     ///< RTN_UNREACHABLE
#define CNL_ROUTE_PROHIBIT 8u        ///< RTN_PROHIBIT
#define CNL_ROUTE_THROW 9u           ///< RTN_THROW

#define CNL_GROUP_LINK 1u            ///< RTNLGRP_LINK

/// Returns the multicast groups (RTNLGRP_* of linux/rtnetlink.h) that announce changes of reachability.
const uint32_t *_Nonnull cnl_groups(void);

/// Returns the number of `cnl_groups`.
size_t cnl_group_count(void);

/// Opens and connects a close-on-exec rtnetlink socket.
///
/// With a `namespace_path` (such as /run/netns/NAME) the socket belongs to that network namespace; the calling thread
/// stays in its own. Returns 0, or a negative errno and in `operation` the name of the call that failed (static storage).
int32_t cnl_open(cnl_socket *_Nullable *_Nonnull socket, const char *_Nullable namespace_path,
                 const char *_Nullable *_Nonnull operation);

/// Opens and connects a socket for IPsec policies (NETLINK_XFRM), as `cnl_open` does.
int32_t cnl_open_policies(cnl_socket *_Nullable *_Nonnull socket, const char *_Nullable namespace_path,
                          const char *_Nullable *_Nonnull operation);

/// Checks that a descriptor is an rtnetlink socket with a port, in the network namespace at `namespace_path` (NULL: the calling
/// thread's; Linux 5.14 and later tell). Returns 0, or a negative errno and in `operation` the name of the call that failed:
/// -EPROTOTYPE for another socket, -EADDRNOTAVAIL for one without a port, -EXDEV for another namespace.
int32_t cnl_check_socket(int32_t descriptor, const char *_Nullable namespace_path, const char *_Nullable *_Nonnull operation);

/// Takes over a socket that passed the check, with its queue, groups and options; makes it close-on-exec. The handle owns the
/// descriptor from then on. Returns 0, or a negative errno and in `operation` the name of the call that failed; the descriptor is
/// then still the caller's.
int32_t cnl_take_over(cnl_socket *_Nullable *_Nonnull socket, int32_t descriptor, const char *_Nullable *_Nonnull operation);

/// Closes the socket and frees the handle. NULL is allowed.
void cnl_close(cnl_socket *_Nullable socket);

/// Returns the socket's file descriptor, for poll(2). The handle keeps owning it.
int32_t cnl_descriptor(const cnl_socket *_Nonnull socket);

/// Joins a multicast group (NETLINK_ADD_MEMBERSHIP, netlink(7)). Returns 0 or a negative errno.
int32_t cnl_join(cnl_socket *_Nonnull socket, uint32_t group);

/// Makes reads fail with -EAGAIN instead of blocking. Returns 0 or a negative errno.
int32_t cnl_set_nonblocking(cnl_socket *_Nonnull socket);

/// Enables strict checking of requests and dump headers, and extended errors
/// (NETLINK_GET_STRICT_CHK, NETLINK_EXT_ACK; netlink(7)). Returns 0 or a negative errno.
int32_t cnl_set_strict(cnl_socket *_Nonnull socket);

/// Limits blocking reads (SO_RCVTIMEO, socket(7)). Returns 0 or a negative errno.
int32_t cnl_set_receive_timeout(cnl_socket *_Nonnull socket, uint32_t milliseconds);

/// Reads the size of the receive buffer in bytes, as the kernel granted it. Returns 0 or a negative errno.
int32_t cnl_read_receive_buffer(const cnl_socket *_Nonnull socket, uint32_t *_Nonnull size);

/// Sets the receive buffer, beyond net.core.rmem_max where privilege allows (SO_RCVBUFFORCE, else SO_RCVBUF), and reads
/// back what the kernel granted. Call it after `cnl_open`: libnl's nl_connect shrinks the buffer to 32 KiB.
/// Returns 0 or a negative errno.
int32_t cnl_set_receive_buffer(cnl_socket *_Nonnull socket, uint32_t bytes, uint32_t *_Nonnull granted);

/// One instruction of a socket filter: struct sock_filter of linux/filter.h.
typedef struct {
    uint16_t code;
    uint8_t if_true;
    uint8_t if_false;
    uint32_t operand;
} cnl_instruction;

/// Attaches a classic BPF program (SO_ATTACH_FILTER, socket(7)). Datagrams that it drops cause no wake-up and count as no
/// loss. It replaces an earlier program atomically; a count of 0 removes the program.
/// Returns 0, or a negative errno, which keeps the earlier program.
int32_t cnl_set_filter(int32_t descriptor, const cnl_instruction *_Nullable instructions, size_t count);

/// The receive queue of a socket.
typedef struct {
    uint32_t bytes; ///< Its share of the receive buffer (SK_MEMINFO_RMEM_ALLOC): 0 when the queue is empty.
    uint32_t drops; ///< The number of datagrams that the kernel dropped (SK_MEMINFO_DROPS); it wraps around.
} cnl_queue;

/// Reads the state of the receive queue (SO_MEMINFO, socket(7)). Returns 0 or a negative errno.
int32_t cnl_read_queue(const cnl_socket *_Nonnull socket, cnl_queue *_Nonnull queue);

/// Reads one datagram. Returns its length, or a negative errno: -EAGAIN when there is none, -ENOBUFS when the kernel
/// dropped some ("the kernel ran out of memory or the socket buffer was too small", netlink(7)). Retries after EINTR.
int64_t cnl_receive(cnl_socket *_Nonnull socket, void *_Nonnull buffer, size_t capacity, cnl_datagram *_Nonnull datagram);

/// The maximum number of datagrams of `cnl_receive_many`.
#define CNL_DATAGRAM_LIMIT 16
/// The slot size of every datagram but the first, which has CNL_BUFFER_SIZE: only a route with hundreds of next hops needs more.
#define CNL_DATAGRAM_SIZE 16384
/// The size of the buffer for `cnl_receive_many`.
#define CNL_MANY_BUFFER_SIZE 311296

/// Reads up to `count` datagrams in one system call (recvmmsg(2)) from a non-blocking socket.
/// Returns their number, or a negative errno as `cnl_receive` does. Fewer than `count` means that the queue was empty, or that
/// the next call returns an error. `buffer` has CNL_MANY_BUFFER_SIZE bytes.
int32_t cnl_receive_many(cnl_socket *_Nonnull socket, void *_Nonnull buffer, cnl_datagram *_Nonnull datagrams, size_t count);

/// Decodes the message at `*offset` of a datagram and moves `*offset` past it. Returns false at the end.
/// Bytes that are no message yield one `CNL_MALFORMED` and end the datagram. Never reads beyond `length`.
bool cnl_decode(const void *_Nonnull bytes, size_t length, size_t *_Nonnull offset, cnl_message *_Nonnull message);

/// Copies the alternative name (IFLA_ALT_IFNAME) at `*position` of a link's list, which starts at 0, and moves `*position` past it.
/// `bytes` is the datagram, and `name` has CNL_LONG_NAME_SIZE bytes. Returns false at the end.
bool cnl_next_name(const void *_Nonnull bytes, const cnl_link *_Nonnull link, uint32_t *_Nonnull position, char *_Nonnull name);

/// Reads the next hop at `*position` of a multipath route, which starts at 0, and moves `*position` past it. `bytes` is the
/// datagram. Returns false at the end, and for a malformed one.
bool cnl_next_hop(const void *_Nonnull bytes, const cnl_route *_Nonnull route, uint32_t *_Nonnull position, cnl_hop *_Nonnull hop);

/// Requests a dump of all links (RTM_GETLINK, RTEXT_FILTER_SKIP_STATS). Returns 0 or a negative errno.
int32_t cnl_request_links(cnl_socket *_Nonnull socket, uint32_t *_Nonnull sequence);

/// Requests one link (RTM_GETLINK), without statistics. Returns 0 or a negative errno.
int32_t cnl_request_link(cnl_socket *_Nonnull socket, uint32_t index, uint32_t *_Nonnull sequence);

/// Requests a dump of the routes of a family out of an interface (RTM_GETROUTE, RTA_OIF on a strict socket). Returns 0 or a
/// negative errno.
int32_t cnl_request_routes(cnl_socket *_Nonnull socket, uint8_t family, uint32_t interface, uint32_t *_Nonnull sequence);

/// Requests the neighbour entry of an address (RTM_GETNEIGH, since Linux 5.0). Returns 0 or a negative errno.
int32_t cnl_request_neighbour(cnl_socket *_Nonnull socket, uint32_t interface, const cnl_address *_Nonnull address,
                              uint32_t *_Nonnull sequence);

/// Requests the entry of a hardware address without VLAN in a bridge's forwarding database (RTM_GETNEIGH of AF_BRIDGE, since Linux
/// 5.0). Returns 0 or a negative errno.
int32_t cnl_request_port(cnl_socket *_Nonnull socket, uint32_t bridge, const uint8_t *_Nonnull hardware_address, size_t length,
                         uint32_t *_Nonnull sequence);

/// Requests a dump of a bridge's forwarding database (RTM_GETNEIGH of AF_BRIDGE, NDA_MASTER). Returns 0 or a negative errno.
int32_t cnl_request_ports(cnl_socket *_Nonnull socket, uint32_t bridge, uint32_t *_Nonnull sequence);

/// Requests a dump of all addresses of both families (RTM_GETADDR). Returns 0 or a negative errno.
int32_t cnl_request_addresses(cnl_socket *_Nonnull socket, uint32_t *_Nonnull sequence);

/// Requests a dump of the IPsec policies (XFRM_MSG_GETPOLICY, needs CAP_NET_ADMIN) on a socket of `cnl_open_policies`. Returns 0 or
/// a negative errno.
int32_t cnl_request_policies(cnl_socket *_Nonnull socket, uint32_t *_Nonnull sequence);

/// Reads the next IPsec policy at or behind `*offset` of a datagram and moves `*offset` past it. Returns false at the end, and at
/// bytes that are no message. Never reads beyond `length`.
bool cnl_next_policy(const void *_Nonnull bytes, size_t length, size_t *_Nonnull offset, cnl_policy *_Nonnull policy);

/// The maximum number of lookups of `cnl_lookup`.
#define CNL_LOOKUP_LIMIT 8

/// Looks up routes (RTM_GETROUTE) and waits for the answers, `CNL_ROUTE` or `CNL_ERROR`, in the order of the queries. A route
/// names the table that it comes from. `buffer` has CNL_BUFFER_SIZE bytes. Returns 0 or a negative errno: -EAFNOSUPPORT unless
/// every destination is of AF_INET or AF_INET6, -EINVAL for no query or too many, -ETIMEDOUT.
int32_t cnl_lookup(cnl_socket *_Nonnull socket, const cnl_route_query *_Nonnull queries, size_t count, void *_Nonnull buffer,
                   cnl_message *_Nonnull answers);

/// Creates a non-blocking close-on-exec eventfd(2). Returns the descriptor or a negative errno.
int32_t cnl_eventfd_open(void);

/// Makes the eventfd readable. Safe from any thread.
void cnl_eventfd_signal(int32_t descriptor);

/// Makes an eventfd or a clock change timer unreadable until the next signal or change.
void cnl_clear(int32_t descriptor);

/// Closes a descriptor of `cnl_eventfd_open`, `cnl_epoll_open` or `cnl_clock_change_timer_open`.
void cnl_close_descriptor(int32_t descriptor);

/// The maximum number of descriptors of `cnl_wait`.
#define CNL_WAIT_LIMIT 8

/// Waits until one of `count` descriptors is readable (ppoll(2)), at most `nanoseconds`; a negative number sets no limit.
/// Ignores negative descriptors. Returns a bit set, 1 << n for descriptor n; 0 at the limit or after EINTR; or a negative errno.
int32_t cnl_wait(const int32_t *_Nullable descriptors, size_t count, int64_t nanoseconds);

/// Creates a close-on-exec epoll(7) instance. Returns its descriptor or a negative errno.
int32_t cnl_epoll_open(void);

/// Adds a descriptor, which `cnl_epoll_wait` reports as bit 1 << `place` until it is removed. Closing it is not enough: epoll
/// watches the open file, which lives until its last descriptor is closed (epoll(7), questions and answers, 6).
/// Returns 0 or a negative errno: -EINVAL for a place that is not below CNL_WAIT_LIMIT.
int32_t cnl_epoll_add(int32_t epoll, int32_t descriptor, uint32_t place);

/// Removes a descriptor, before it is closed. Returns 0 or a negative errno: -ENOENT if it was not added.
int32_t cnl_epoll_remove(int32_t epoll, int32_t descriptor);

/// Waits until an added descriptor is readable, with the limit and the results of `cnl_wait`. Kernels before 5.11 lack
/// epoll_pwait2(2): there the limit is rounded up to 1 ms.
int32_t cnl_epoll_wait(int32_t epoll, int64_t nanoseconds);

/// Creates a non-blocking close-on-exec timer that never expires and becomes readable when the time of day is set: by a user,
/// or at the end of a suspension (TFD_TIMER_CANCEL_ON_SET, timerfd_create(2)). Returns the descriptor or a negative errno.
int32_t cnl_clock_change_timer_open(void);

/// Links and addresses, read without netlink.
typedef struct {
    cnl_link *_Nullable links;
    size_t link_count;
    cnl_interface_address *_Nullable addresses;
    size_t address_count;
} cnl_interfaces;

/// Looks up a route without netlink and without sending: connect(2) on a UDP socket selects the source, getsockname(2) returns
/// it. A query's source is bound first (bind(2)); one that no interface holds is refused with EINVAL, as by a lookup.
/// Returns 0 and the source; or 0 and in `refusal` the errno for a sender; or a negative errno if the probe failed, and in
/// `operation` the name of the failed call.
int32_t cnl_probe_route(const char *_Nullable namespace_path, const cnl_route_query *_Nonnull query,
                        cnl_address *_Nonnull source, int32_t *_Nonnull refusal,
                        const char *_Nullable *_Nonnull operation);

/// Lists links and addresses without netlink: ioctls of netdevice(7), and /proc/net/dev and /proc/net/if_inet6 where /proc is
/// mounted. Kinds and carrier counters are unknown. Returns 0 and a list that the caller frees; or a negative errno and no list.
int32_t cnl_probe_interfaces(const char *_Nullable namespace_path, cnl_interfaces *_Nonnull list,
                             const char *_Nullable *_Nonnull operation);

/// Frees the arrays of a list.
void cnl_free_interfaces(cnl_interfaces *_Nonnull list);

/// Returns the nanoseconds since boot, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
int64_t cnl_boot_time(void);

/// Returns the nanoseconds since boot without suspension (CLOCK_MONOTONIC).
int64_t cnl_monotonic_time(void);

/// Returns the nanoseconds since 1970-01-01T00:00:00Z (CLOCK_REALTIME).
int64_t cnl_wall_time(void);

/// The size of a name for a number, with its final NUL. Longer names in files are skipped.
#define CNL_ROUTE_NAME_SIZE 64

// These return false if a number has no name: `buffer`, of CNL_ROUTE_NAME_SIZE bytes, then holds the number. The files below
// /etc/iproute2, /usr/share/iproute2 and /usr/lib/iproute2 are read once, on first use; names are bytes, not text. Safe from any
// thread, unless another part of the process makes libnl read such files at the same time.

/// Writes the name of a routing table: "main", or a name from rt_tables or rt_tables.d/*.conf.
bool cnl_table_name(uint32_t table, char *_Nonnull buffer);

/// Writes the name of a routing protocol (RTPROT_*): "dhcp", or a name from rt_protos or rt_protos.d/*.conf.
bool cnl_protocol_name(uint8_t protocol, char *_Nonnull buffer);

/// Writes the name of a scope (RT_SCOPE_*): "global", "link".
bool cnl_scope_name(uint8_t scope, char *_Nonnull buffer);

/// Writes the name of an operational state (IF_OPER_*): "up", "lowerlayerdown".
bool cnl_state_name(uint8_t state, char *_Nonnull buffer);

/// Collects the names in FOLDER/`name`.d/*.conf and FOLDER/`name` of all folders, as lines "NUMBER NAME" with the number as a
/// signed one of 32 bits, in `bytes`. Skips files that are not regular, other lines, lines that do not fit, and everything after
/// the first 64 KiB of a file. Returns the length.
size_t cnl_collect_names(const char *_Nonnull const *_Nonnull folders, size_t count, const char *_Nonnull name,
                         char *_Nonnull bytes, size_t capacity);

/// Returns the number in a file below /proc/sys/net of the network namespace at `namespace_path`, 0 without one, or a negative
/// errno.
int32_t cnl_setting(const char *_Nullable namespace_path, const char *_Nonnull path);

/// Names the calling thread (PR_SET_NAME, prctl(2)), for top(1) and debuggers. Truncates to 15 bytes.
void cnl_name_thread(const char *_Nonnull name);

/// Moves the calling thread into the network namespace at `path` (setns(2)). New threads inherit it: call this
/// before starting any. Returns 0 or a negative errno.
int32_t cnl_enter_namespace(const char *_Nonnull path);

#endif
