internal import CNetlink

/// The descriptors that the reader sleeps on (epoll(7)), closed when it goes out of scope.
///
/// One thread at a time.
struct WaitSet: ~Copyable {
    private let descriptor: Int32

    init() throws(ReachabilityError) {
        descriptor = cnl_wait_set_open()
        try NetlinkSocket.check(min(descriptor, 0), "epoll_create1()")
    }

    deinit {
        if descriptor >= 0 { cnl_wait_set_close(descriptor) }
    }

    /// Adds a descriptor, reported by this bit; it leaves the set when it is closed.
    borrowing func add(_ other: Int32, at bit: Int32) throws(ReachabilityError) {
        try NetlinkSocket.check(cnl_wait_set_add(descriptor, other, UInt32(bit.trailingZeroBitCount)), "epoll_ctl()")
    }

    /// Waits until a descriptor is readable, at most so long; a negative number waits without end.
    ///
    /// Returns the bits of those that are; none when the time has passed, or a signal handler ended the sleep.
    // It lies between each event and its verdict, and on a page of its own it would cost more than what it does.
    @inline(__always)
    borrowing func wait(nanoseconds: Int64) throws(ReachabilityError) -> Int32 {
        let ready = cnl_wait_set(descriptor, nanoseconds)
        try NetlinkSocket.check(ready, "epoll_wait()")
        return ready
    }
}
