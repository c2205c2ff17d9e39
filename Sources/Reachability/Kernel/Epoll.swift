internal import CNetlink
internal import Synchronization

/// The descriptors that the reader waits for (epoll(7)), closed when it goes out of scope.
///
/// Used by one thread at a time.
struct Epoll: ~Copyable {
    let descriptor: Int32

    init() throws(ReachabilityError) {
        descriptor = cnl_epoll_open()
        try ReachabilityError.check(min(descriptor, 0), "epoll_create1()")
    }

    deinit {
        if descriptor >= 0 { cnl_close_descriptor(descriptor) }
    }

    /// Adds a descriptor, which ``wait(nanoseconds:)`` reports by this bit.
    ///
    /// Its owner removes it before closing it, unless the epoll instance is closed first: the entry stays while any process holds a
    /// copy of the descriptor.
    borrowing func add(_ other: Int32, at bit: Int32) throws(ReachabilityError) {
        try ReachabilityError.check(cnl_epoll_add(descriptor, other, UInt32(bit.trailingZeroBitCount)), "epoll_ctl()")
    }

    /// Waits until a descriptor is readable, at most for this time; a negative number sets no limit.
    ///
    /// - Returns: the bits of the readable descriptors; none at the limit, or after a signal handler.
    // Inlined: it lies between each event and its verdict, and a call to another page would cost more than its body.
    @inline(__always)
    borrowing func wait(nanoseconds: Int64) throws(ReachabilityError) -> Int32 {
        let ready = cnl_epoll_wait(descriptor, nanoseconds)
        try ReachabilityError.check(ready, "epoll_wait()")
        return ready
    }
}

/// Ends a thread's wait (eventfd(2)): to stop it, to request an empty batch, or to run jobs.
///
/// Safe to use from any thread.
final class EventFD: Sendable {
    private let opened: Atomic<Int32>
    private let stopped = Atomic(false)
    private let batchIsRequested = Atomic(false)

    init() { opened = Atomic(cnl_eventfd_open()) }

    deinit {
        if descriptor >= 0 { cnl_close_descriptor(descriptor) }
    }

    /// The descriptor, or a negative errno while the process has none left.
    var descriptor: Int32 { opened.load(ordering: .acquiring) }

    /// Opens the descriptor if an earlier attempt failed.
    ///
    /// Only the reader's thread calls it.
    func reopen() {
        if descriptor < 0 { opened.store(cnl_eventfd_open(), ordering: .releasing) }
    }

    /// `true` from ``stop()`` to ``start()``.
    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Requests an empty batch.
    func signal() {
        batchIsRequested.store(true, ordering: .releasing)
        interrupt()
    }

    /// Ends the wait without a request.
    func interrupt() {
        if descriptor >= 0 { cnl_eventfd_signal(descriptor) }
    }

    /// Allows the next reader to run.
    func start() { stopped.store(false, ordering: .releasing) }

    /// Stops the reader.
    func stop() {
        stopped.store(true, ordering: .releasing)
        signal()
    }

    /// Makes the descriptor unreadable, and returns `true` if a batch was requested.
    ///
    /// In this order: a request in between is answered now and leaves the descriptor readable, which costs one empty round.
    @discardableResult
    func clear() -> Bool {
        cnl_clear(descriptor)
        return batchIsRequested.exchange(false, ordering: .acquiring)
    }
}
