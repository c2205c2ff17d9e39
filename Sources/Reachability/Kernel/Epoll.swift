internal import CNetlink

/// The descriptors that the reader sleeps on (epoll(7)), closed when it goes out of scope.
///
/// One thread at a time.
struct Epoll: ~Copyable {
    /// The set's own descriptor.
    let descriptor: Int32

    init() throws(ReachabilityError) {
        descriptor = cnl_epoll_open()
        try NetlinkSocket.check(min(descriptor, 0), "epoll_create1()")
    }

    deinit {
        if descriptor >= 0 { cnl_epoll_close(descriptor) }
    }

    /// Adds a descriptor, reported by this bit.
    ///
    /// Its owner removes it before closing it, unless the set is closed first: closing alone leaves the entry in place while
    /// another process or thread holds a copy.
    borrowing func add(_ other: Int32, at bit: Int32) throws(ReachabilityError) {
        try NetlinkSocket.check(cnl_epoll_add(descriptor, other, UInt32(bit.trailingZeroBitCount)), "epoll_ctl()")
    }

    /// Waits until a descriptor is readable, at most for this time; a negative number waits without a limit.
    ///
    /// Returns the bits of the readable ones; none when the time has passed, or a signal handler ended the sleep.
    // It lies between each event and its verdict, and on a page of its own it would cost more than what it does.
    @inline(__always)
    borrowing func wait(nanoseconds: Int64) throws(ReachabilityError) -> Int32 {
        let ready = cnl_epoll_wait(descriptor, nanoseconds)
        try NetlinkSocket.check(ready, "epoll_wait()")
        return ready
    }
}
