#if PostgreSQL
internal import CLibPQ
internal import Glibc

/// Ends the wait of a connection's thread (eventfd(2)).
///
/// Safe to use from any thread.
final class PostgreSQLWakeUp: Sendable {
    /// The descriptor, or a negative errno.
    let descriptor: Int32

    init() {
        let opened = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        descriptor = opened < 0 ? -errno : opened
    }

    deinit { if descriptor >= 0 { Glibc.close(descriptor) } }

    func signal() { if descriptor >= 0 { eventfd_write(descriptor, 1) } }

    func clear() {
        var count: eventfd_t = 0
        if descriptor >= 0 { eventfd_read(descriptor, &count) }
    }

    /// Waits for a signal and for events of another descriptor; returns the events of both.
    ///
    /// - Parameter deadline: The end of the wait on ``now``'s clock, or `nil` for none.
    func wait(for socket: Int32, _ events: Int32, until deadline: Duration?) throws(PostgreSQLFailure) -> (
        isSignaled: Bool, events: Int32
    ) {
        var descriptors = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0), pollfd(fd: socket, events: Int16(events), revents: 0),
        ]
        var milliseconds: Int32 = -1
        if let deadline {
            let (seconds, attoseconds) = max(.zero, deadline - Self.now).components
            // Rounded up: a wait that ends too early would be repeated.
            milliseconds = Int32(clamping: min(seconds, 1_000_000) * 1_000 + attoseconds / 1_000_000_000_000_000 + 1)
        }
        if poll(&descriptors, 2, milliseconds) < 0 {
            // ENOMEM is temporary, but nothing can be done without a wait.
            guard errno == EINTR else { throw PostgreSQLFailure(errno: errno, operation: "poll()") }
            return (false, 0)
        }
        return (descriptors[0].revents != 0, Int32(descriptors[1].revents))
    }

    /// The time of CLOCK_MONOTONIC, which steps of the system's time do not change.
    static var now: Duration {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
#endif
