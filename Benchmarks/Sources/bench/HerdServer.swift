import Synchronization

/// A server in virtual time: one request after the other, first come, first served, each at the same cost.
///
/// A client that no longer waits does not spare it the work.
final class HerdServer: Sendable {
    enum Answer: Sendable {
        case answered(at: Duration)
        case refused
    }

    /// The duration of a request.
    private let cost: Duration
    /// The number of requests that it accepts, the running one included.
    private let room: Int
    private let freeAt = Mutex(Duration.zero)

    init(rate: Int, room: Int) {
        cost = .seconds(1) / rate
        self.room = room
    }

    /// A request arrives.
    func arrive(at now: Duration) -> Answer {
        freeAt.withLock { freeAt in
            let start = max(now, freeAt)
            guard (start - now) / cost < Double(room) else { return .refused }
            freeAt = start + cost
            return .answered(at: freeAt)
        }
    }
}
