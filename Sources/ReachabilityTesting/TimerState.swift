/// A manual clock's time, and what waits for it.
struct TimerState {
    typealias Sleeper = CheckedContinuation<Void, any Error>
    typealias Waiter = CheckedContinuation<ManualClock.Instant, Never>

    enum Due {
        case sleeper(Sleeper)
        case timer(@Sendable () -> Void)

        func fire() {
            switch self {
            case .sleeper(let sleeper): sleeper.resume()
            case .timer(let action): action()
            }
        }
    }

    enum SleepOutcome {
        case sleeping(tell: Waiter?, ManualClock.Instant)
        case passed
        case cancelled

        func perform(_ sleeper: Sleeper) {
            switch self {
            case .sleeping(let waiter, let deadline): waiter?.resume(returning: deadline)
            case .passed: sleeper.resume()
            case .cancelled: sleeper.resume(throwing: CancellationError())
            }
        }
    }

    private(set) var now = ManualClock.Instant()
    private var nextID: UInt64 = 0
    private var pending: [UInt64: (deadline: ManualClock.Instant, due: Due)] = [:]
    /// Cancelled before they were registered, or waited for before they came.
    private var cancelled: Set<UInt64> = []
    private var unreported: [(id: UInt64, deadline: ManualClock.Instant)] = []
    private var waiters: [(id: UInt64, waiter: Waiter)] = []

    var sleepers: Int {
        pending.values.count { if case .sleeper = $0.due { true } else { false } }
    }

    mutating func makeID() -> UInt64 {
        nextID += 1
        return nextID
    }

    mutating func addSleeper(_ id: UInt64, _ deadline: ManualClock.Instant, _ sleeper: Sleeper) -> SleepOutcome {
        if cancelled.remove(id) != nil { return .cancelled }
        guard deadline > now else { return .passed }
        pending[id] = (deadline, .sleeper(sleeper))
        if waiters.isEmpty {
            unreported.append((id, deadline))
            return .sleeping(tell: nil, deadline)
        }
        return .sleeping(tell: waiters.removeFirst().waiter, deadline)
    }

    mutating func cancelSleeper(_ id: UInt64) -> Sleeper? {
        unreported.removeAll { $0.id == id }
        guard case .sleeper(let sleeper)? = pending.removeValue(forKey: id)?.due else {
            cancelled.insert(id)
            return nil
        }
        return sleeper
    }

    mutating func awaitSleep(_ id: UInt64, _ waiter: Waiter) -> ManualClock.Instant? {
        if cancelled.remove(id) != nil { return now }
        if !unreported.isEmpty { return unreported.removeFirst().deadline }
        waiters.append((id, waiter))
        return nil
    }

    mutating func cancelWaiter(_ id: UInt64) -> Waiter? {
        guard let position = waiters.firstIndex(where: { $0.id == id }) else {
            cancelled.insert(id)
            return nil
        }
        return waiters.remove(at: position).waiter
    }

    mutating func addTimer(_ instant: ManualClock.Instant, _ action: @escaping @Sendable () -> Void) -> UInt64 {
        let id = makeID()
        pending[id] = (instant, .timer(action))
        return id
    }

    mutating func removeTimer(_ id: UInt64) -> (@Sendable () -> Void)? {
        guard case .timer(let action)? = pending.removeValue(forKey: id)?.due else { return nil }
        return action
    }

    mutating func jump(by duration: Duration) { now = now.advanced(by: duration) }

    /// Takes what is due first, and shows its time; `nil` once nothing is due until the instant, which is shown then.
    mutating func takeDue(until instant: ManualClock.Instant) -> Due? {
        let first = pending.min { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
        guard let first, first.value.deadline <= instant else {
            now = max(now, instant)
            return nil
        }
        pending[first.key] = nil
        now = max(now, first.value.deadline)
        return first.value.due
    }
}
