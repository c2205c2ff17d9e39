internal import Reachability
internal import ReachableRetry
internal import Synchronization

/// A clock whose time passes only when a test advances it: minutes of waiting take microseconds.
///
/// ``advance(by:)`` runs everything that becomes due, in the order of the deadlines; equal deadlines run in the order of
/// registration. It also resumes sleeping tasks, which then run on their own executors: ``nextSleep()`` waits until they sleep
/// again.
///
/// Time is counted in whole nanoseconds. The clock rounds instants and durations to the nearest one, so that the error of
/// `Duration.seconds(1.1)`, 96 attoseconds, delays nothing: after `advance(by: .seconds(0.1))` and `advance(by: .seconds(0.2))`
/// a sleep of `.seconds(0.3)` has ended, and `now.offset` is `.milliseconds(300)`.
///
/// Safe to use from any thread. The clock calls no user code while it holds its lock.
public final class ManualClock: Clock, Sendable {
    /// A point in the clock's time.
    public struct Instant: InstantProtocol {
        /// The time since the clock's zero, in whole nanoseconds.
        public let offset: Duration

        /// Makes a point in time.
        ///
        /// - Parameter offset: The time since the clock's zero, rounded to the nearest nanosecond, halves up.
        public init(offset: Duration = .zero) { self.offset = offset.inWholeNanoseconds }

        /// Returns the instant that is later by `duration`, or the last one in the range.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset.saturatingAdd(duration)) }

        /// Returns the time from this instant to the other one; negative if the other one is earlier.
        public func duration(to other: Instant) -> Duration {
            other.offset.saturatingSubtract(offset).inWholeNanoseconds
        }

        /// Returns `true` if the left instant is before the right one.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let state: Mutex<State>

    /// Makes a clock that shows `now`.
    public init(now: Instant = Instant()) { state = Mutex(State(now: now)) }

    /// The time that the clock shows.
    public var now: Instant { state.withLock { $0.now } }

    /// One nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The next deadline of a timer or a sleeping task; `nil` if there is none.
    ///
    /// A deadline in the past is run by the next ``advance(by:)``.
    public var nextDeadline: Instant? { state.withLock { $0.nextDeadline } }

    // MARK: - Advancing

    /// Advances the clock and runs everything that becomes due.
    ///
    /// During each action the clock shows the action's deadline. Deadlines that an action adds within the span run too. Returns
    /// after all timers have run and all due sleeps have been resumed.
    ///
    /// - Parameter duration: The time that passes. Negative durations are treated as zero, which runs what is already due.
    public func advance(by duration: Duration) { advance(to: now.advanced(by: max(duration, .zero))) }

    /// Advances the clock to `target`, like ``advance(by:)``.
    ///
    /// - Parameter target: The new time; a time in the past is treated as the present.
    public func advance(to target: Instant) {
        while let (entry, waiters) = state.withLock({ state in state.popDue(by: target).map { ($0, state.takeCountWaiters()) } }) {
            entry.fire()
            for waiter in waiters { waiter.resume() }
        }
    }

    /// Advances the clock in one step, as during a suspension of the machine: overdue actions run late, at the new time.
    ///
    /// - Parameters:
    ///   - duration: The time that passes.
    ///   - first: Runs at the new time, before all overdue actions.
    public func jump(by duration: Duration, first: () -> Void = {}) {
        state.withLock { $0.now = $0.now.advanced(by: max(duration, .zero)) }
        first()
        advance(by: .zero)
    }

    // MARK: - Timers

    /// A scheduled action.
    public struct Timer: Hashable, Sendable {
        fileprivate let key: State.Key

        /// The time at which the action is due.
        public var deadline: Instant { key.deadline }
    }

    /// Schedules an action; the thread that advances the clock calls it.
    ///
    /// An action that is already due runs with the next ``advance(by:)``, even one by zero.
    public func schedule(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> Timer {
        Timer(key: state.withLock { $0.schedule(deadline, action) })
    }

    /// Cancels a scheduled action.
    ///
    /// - Returns: `true` if the action will not run; `false` if it has run, runs on another thread, or was cancelled before.
    @discardableResult
    public func cancel(_ timer: Timer) -> Bool {
        state.withLock { $0.remove(timer.key) } != nil
    }

    // MARK: - Sleeping

    /// The number of sleeping tasks.
    public var sleepers: Int { state.withLock { $0.sleepers } }

    /// Suspends the task until the clock shows `deadline`; returns at once if it already does.
    ///
    /// The clock is exact and ignores the tolerance.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled; the sleep is then removed from the clock.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try Task.checkCancellation()
        let key = state.withLock { $0.makeKey(deadline) }
        try await withCancellableContinuation { continuation in
            guard let (waiters, observer) = state.withLock({ $0.addSleep(key, continuation) }) else {
                return continuation.resume()
            }
            for waiter in waiters { waiter.resume() }
            observer?.resume(returning: deadline)
        } onCancel: {
            let (sleep, waiters) = state.withLock { ($0.removeSleep(key), $0.takeCountWaiters()) }
            sleep?.resume(throwing: CancellationError())
            for waiter in waiters { waiter.resume() }
        }
    }

    /// Suspends until exactly `count` tasks sleep; returns at once if they do.
    ///
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func untilSleepers(_ count: Int) async throws {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeID() }
        try await withCancellableContinuation { continuation in
            let isReached = state.withLock { $0.waitForCount(id, count, continuation) }
            if isReached { continuation.resume() }
        } onCancel: {
            state.withLock { $0.countWaiters.removeValue(forKey: id) }?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Suspends until a task sleeps whose sleep no earlier call has returned.
    ///
    /// After it returns, the code under test sleeps and an ``advance(by:)`` wakes it. Each sleep is returned once, in the order
    /// in which the sleeps began; a sleep that ends first is skipped.
    ///
    /// - Returns: The deadline of the sleep.
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func nextSleep() async throws -> Instant {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeID() }
        return try await withCancellableContinuation { continuation in
            if let deadline = state.withLock({ $0.observeSleep(id, continuation) }) { continuation.resume(returning: deadline) }
        } onCancel: {
            state.withLock { $0.sleepObservers.removeValue(forKey: id) }?.resume(throwing: CancellationError())
        }
    }
}

extension ManualClock: SchedulingClock {
    /// The clock itself.
    package var identity: ObjectIdentifier { ObjectIdentifier(self) }

    /// Schedules an action and returns a closure that cancels it.
    package func callBack(at deadline: Instant, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        let timer = schedule(at: deadline, action)
        return { self.cancel(timer) }
    }
}

extension ManualClock {
    /// The time, the deadlines and the waiting tasks.
    fileprivate struct State: Sendable {
        typealias Waiter = CheckedContinuation<Void, any Error>
        typealias SleepObserver = CheckedContinuation<Instant, any Error>

        /// A deadline with its place among equal ones.
        struct Key: Hashable, Comparable, Sendable {
            let deadline: Instant
            let order: UInt64

            static func < (left: Key, right: Key) -> Bool {
                left.deadline == right.deadline ? left.order < right.order : left.deadline < right.deadline
            }
        }

        struct Entry: Sendable {
            enum Effect: Sendable {
                case wake(Waiter)
                case run(@Sendable () -> Void)
            }

            let key: Key
            let effect: Effect
            /// True once ``ManualClock/nextSleep()`` has returned this sleep.
            var isObserved = false

            var isSleep: Bool {
                if case .wake = effect { true } else { false }
            }

            func fire() {
                switch effect {
                case .wake(let continuation): continuation.resume()
                case .run(let action): action()
                }
            }
        }

        var now: Instant
        var sleepObservers: [UInt64: SleepObserver] = [:]
        /// The tasks that wait for a number of sleepers.
        var countWaiters: [UInt64: (count: Int, continuation: Waiter)] = [:]
        private(set) var sleepers = 0
        /// Latest first: the next one is removed from the end.
        private var entries: [Entry] = []
        private var nextOrder: UInt64 = 0

        init(now: Instant) { self.now = now }

        var nextDeadline: Instant? { entries.last?.key.deadline }

        mutating func makeID() -> UInt64 {
            defer { nextOrder += 1 }
            return nextOrder
        }

        mutating func makeKey(_ deadline: Instant) -> Key { Key(deadline: deadline, order: makeID()) }

        mutating func schedule(_ deadline: Instant, _ action: @escaping @Sendable () -> Void) -> Key {
            let key = makeKey(deadline)
            insert(Entry(key: key, effect: .run(action)))
            return key
        }

        /// Adds a sleep; returns the tasks to resume, or `nil` if the deadline has passed.
        mutating func addSleep(_ key: Key, _ continuation: Waiter) -> (waiters: [Waiter], observer: SleepObserver?)? {
            guard key.deadline > now else { return nil }
            let observer = sleepObservers.keys.min().flatMap { sleepObservers.removeValue(forKey: $0) }
            insert(Entry(key: key, effect: .wake(continuation), isObserved: observer != nil))
            sleepers += 1
            return (takeCountWaiters(), observer)
        }

        mutating func removeSleep(_ key: Key) -> Waiter? {
            guard case .wake(let continuation)? = remove(key)?.effect else { return nil }
            sleepers -= 1
            return continuation
        }

        /// Returns the deadline of the first unobserved sleep, or registers the observer.
        mutating func observeSleep(_ id: UInt64, _ observer: SleepObserver) -> Instant? {
            let unobserved = entries.indices.filter { entries[$0].isSleep && !entries[$0].isObserved }
            guard let first = unobserved.min(by: { entries[$0].key.order < entries[$1].key.order }) else {
                sleepObservers[id] = observer
                return nil
            }
            entries[first].isObserved = true
            return entries[first].key.deadline
        }

        /// Returns `true` if `count` tasks sleep, or registers the waiter.
        mutating func waitForCount(_ id: UInt64, _ count: Int, _ waiter: Waiter) -> Bool {
            guard sleepers != count else { return true }
            countWaiters[id] = (count, waiter)
            return false
        }

        /// Removes and returns the tasks that wait for the present number of sleepers.
        mutating func takeCountWaiters() -> [Waiter] {
            guard !countWaiters.isEmpty else { return [] }
            let taken = countWaiters.filter { $0.value.count == sleepers }
            for id in taken.keys { countWaiters[id] = nil }
            return taken.values.map(\.continuation)
        }

        /// Removes the next entry due by `target` and moves the time to its deadline, or to `target` if there is none.
        mutating func popDue(by target: Instant) -> Entry? {
            guard let next = entries.last, next.key.deadline <= max(target, now) else {
                now = max(now, target)
                return nil
            }
            now = max(now, next.key.deadline)
            entries.removeLast()
            if next.isSleep { sleepers -= 1 }
            return next
        }

        mutating func remove(_ key: Key) -> Entry? {
            let position = position(of: key)
            guard position < entries.count, entries[position].key == key else { return nil }
            return entries.remove(at: position)
        }

        private mutating func insert(_ entry: Entry) { entries.insert(entry, at: position(of: entry.key)) }

        /// Returns the index of the key, or the index at which to insert it.
        private func position(of key: Key) -> Int {
            var low = 0
            var high = entries.count
            while low < high {
                let middle = (low + high) / 2
                if entries[middle].key > key { low = middle + 1 } else { high = middle }
            }
            return low
        }
    }
}

extension Duration {
    /// The nearest whole number of nanoseconds, halves up; clamped to the range.
    fileprivate var inWholeNanoseconds: Duration {
        let nanosecond: Int128 = 1_000_000_000
        let (quotient, remainder) = attoseconds.quotientAndRemainder(dividingBy: nanosecond)
        // Floor division, so that halves go up on both sides of zero.
        let (floor, rest) = remainder < 0 ? (quotient - 1, remainder + nanosecond) : (quotient, remainder)
        let (rounded, overflow) = (rest * 2 >= nanosecond ? floor + 1 : floor).multipliedReportingOverflow(by: nanosecond)
        return Duration(attoseconds: overflow ? quotient * nanosecond : rounded)
    }
}
