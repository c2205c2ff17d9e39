// Code that driver and peers share: clocks and processors, stamps in shared memory, and raw rtnetlink without any library.
//
// Functions that can fail return a negative errno. One thread at a time uses a descriptor.
#ifndef CBENCH_H
#define CBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if !defined(__clang__)
#define _Nonnull
#define _Nullable
#endif

/// Nanoseconds of CLOCK_MONOTONIC: the same in all processes.
int64_t bench_now(void);

/// The number of processors.
int32_t bench_processors(void);

/// Keeps the calling thread, and what it starts, on one processor.
int32_t bench_pin(int32_t processor);

/// Gives the calling thread, and what it starts, precedence over all ordinary work (SCHED_FIFO, sched(7)).
int32_t bench_take_precedence(void);

/// Starts a process that keeps a processor awake and gives way to everything else (SCHED_IDLE, sched(7)).
pid_t bench_spin(int32_t processor);

/// Gives freed memory back to the system, so that what is resident tells what is used.
void bench_release_memory(void);

/// Moves the calling thread into a new network namespace (unshare(2)); it goes with its last process.
int32_t bench_new_network(void);

// Stamps: when a peer heard of something, in memory that it shares with the driver.

/// A peer's stamps.
typedef struct bench_stamps bench_stamps;

/// A peer's view of the network.
typedef enum { BENCH_VIEW_UNKNOWN = 0, BENCH_VIEW_NONE, BENCH_VIEW_REACHABLE } bench_view;

/// The environment variable with the descriptor of a peer's stamps.
#define BENCH_STAMPS_VARIABLE "BENCH_STAMPS"

/// Makes a descriptor of empty stamps.
int32_t bench_stamps_create(void);

/// Maps stamps; NULL if that fails.
bench_stamps *_Nullable bench_stamps_map(int32_t descriptor);

/// Unmaps stamps.
void bench_stamps_unmap(bench_stamps *_Nullable stamps);

/// The stamps that the driver handed to this process; ends the process if there are none.
bench_stamps *_Nonnull bench_stamps_inherited(void);

/// Notes that something was heard just now.
void bench_stamp(bench_stamps *_Nonnull stamps);

/// The number of stamps.
uint64_t bench_stamps_count(const bench_stamps *_Nonnull stamps);

/// The first stamp at or after a time, looked for from a position on; 0 if there is none.
int64_t bench_stamps_first(const bench_stamps *_Nonnull stamps, uint64_t position, int64_t time);

/// Notes how the peer sees the network now.
void bench_set_view(bench_stamps *_Nonnull stamps, bench_view view);

/// The peer's view of the network.
bench_view bench_get_view(const bench_stamps *_Nonnull stamps);

// Processes.

/// A process to start.
typedef struct {
    char *_Nullable *_Nonnull arguments; ///< The program, found on the PATH, and its arguments; ends with NULL.
    int32_t processor;                   ///< Where to keep it, or -1.
    int32_t stamps;                      ///< The descriptor of its stamps, or -1.
    bool has_output;                     ///< Whether its standard output is wanted; otherwise it goes nowhere.
    bool has_own_network;                ///< Whether it gets a network namespace of its own.
} bench_command;

/// Starts a process, which ends with the calling thread. Returns its id, and the reading end of its output.
pid_t bench_start(const bench_command *_Nonnull command, int32_t *_Nonnull output);

/// Waits for the end of a process. Returns its exit code, or 128 and the signal that ended it.
int32_t bench_wait(pid_t process);

/// Ends a process and waits for that.
void bench_stop(pid_t process);

/// Nanoseconds of processor time that a process has used.
int64_t bench_processor_time(pid_t process);

// Routes.

/// A socket for requests (rtnetlink(7)).
int32_t bench_route_open(void);

/// A member of groups (RTNLGRP_*), for events.
int32_t bench_events_open(const uint32_t *_Nonnull groups, size_t count);

/// Closes a descriptor.
void bench_close(int32_t descriptor);

/// An IPv4 route; addresses in network order.
typedef struct {
    uint32_t destination;
    uint8_t length;
    uint32_t gateway;
    uint32_t interface;
} bench_route;

/// The route to everything through a gateway, as text, and an interface by name.
bench_route bench_default_route(const char *_Nonnull gateway, const char *_Nonnull interface);

/// Adds or removes a route and waits for the acknowledgement. Returns 0 or a negative errno; in `time` the moment before send.
int32_t bench_change_route(int32_t descriptor, bool adds, const bench_route *_Nonnull route, int64_t *_Nullable time);

/// Adds or removes the host routes 10.0.0.0 and up, as many as told, without acknowledgements, and waits until all is done.
int32_t bench_flood(int32_t descriptor, bool adds, const bench_route *_Nonnull through, uint32_t first, uint32_t count);

// Many connections.

/// The number of messages in one batch.
#define BENCH_POLL_MOST 256

/// Opens something to wait for many connections with.
int32_t bench_poll_open(void);

/// Watches a connection by a number: `asks` a new one until it can be written to, afterwards until it can be read.
int32_t bench_poll_watch(int32_t poll, int32_t descriptor, uint64_t number, bool asks);

/// Waits for connections; writes the numbers of BENCH_POLL_MOST at most and returns how many, or a negative errno.
int32_t bench_poll_wait(int32_t poll, uint64_t *_Nonnull numbers, int32_t milliseconds);

// Look-ups: the same that the library makes.

/// The answer to a look-up.
typedef struct {
    int32_t error;     ///< 0, or what the kernel refuses with, as a positive errno.
    uint8_t type;      ///< RTN_*.
    uint32_t flags;    ///< RTNH_F_* and RTM_F_*.
    uint32_t interface;
    bool has_source;         ///< If true, `source` is set.
    unsigned char source[4]; ///< RTA_PREFSRC of an IPv4 route.
} bench_answer;

/// Asks how a packet would go (RTM_GETROUTE), or with `match` for the entry of the table (RTM_F_FIB_MATCH); for IPv4 from a
/// source (RTA_SRC) unless that is NULL.
int32_t bench_lookup(int32_t descriptor, const char *_Nonnull destination, const unsigned char *_Nullable source, bool match,
                     bench_answer *_Nonnull answer);

/// Returns true if the internet is reachable over AF_INET or AF_INET6, by the lookups that the library makes.
bool bench_family_is_reachable(int32_t descriptor, int family);

/// The same, and the next hops of the entries in the table are neither dead nor without carrier.
bool bench_truth(int32_t descriptor);

/// An address of IPv4 that stands for the internet.
#define BENCH_FIRST_REPRESENTATIVE "198.41.0.4"

// Toggling.

/// Adds and removes of a default route, and what was heard of them.
typedef struct {
    bench_route route;
    uint32_t count;               ///< How many times to add it.
    uint64_t seed;                ///< Of the random distances in time.
    int32_t output;               ///< The peer's lines, or -1.
    bench_stamps *_Nullable stamps;
} bench_toggling;

/// Adds and removes a route with 1.5 to 3 ms in between; writes for each addition the nanoseconds from before send until the peer
/// heard, or 0 for those it heard of too late or not at all. Ends with the route removed. Returns 0 or a negative errno.
int32_t bench_toggle(int32_t descriptor, const bench_toggling *_Nonnull toggling, int64_t *_Nonnull latencies);

#endif
