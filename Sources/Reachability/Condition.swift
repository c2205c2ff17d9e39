/// Something that work may have to wait for: the network, a login, a charger.
///
/// The read side.
///
/// A condition is a level with an epoch. Whoever waits remembers the epoch at which it last acted and compares both: a condition
/// that was lost and regained in between has another epoch even if its level looks the same. Safe to use from any thread.
public final class Condition: Sendable {
    /// A condition at one moment.
    public struct State: Hashable, Sendable {
        /// The level: whether work may go on.
        public var isSatisfied: Bool
        /// How often the level became satisfied, or things changed so much that waiting makes no sense.
        public var epoch: UInt64
        /// Whether this is how it stays.
        public var isFinished: Bool

        /// Makes a state, by default that of a condition which was never satisfied.
        public init(isSatisfied: Bool = false, epoch: UInt64 = 0, isFinished: Bool = false) {
            self.isSatisfied = isSatisfied
            self.epoch = epoch
            self.isFinished = isFinished
        }
    }

    /// What the condition is called in logs.
    public let name: String
    package let storage: ConditionStorage
    /// Kept alive with the condition: its release tells the owner that nobody reads any more.
    private let lifetime: (any AnyObject & Sendable)?

    package init(_ name: String, _ storage: ConditionStorage, lifetime: (any AnyObject & Sendable)? = nil) {
        self.name = name
        self.storage = storage
        self.lifetime = lifetime
    }

    /// Makes a condition that follows a sequence of levels.
    ///
    /// It is unsatisfied until the first element, and grows its epoch whenever it becomes satisfied. When the sequence ends the
    /// condition is finished. The sequence is iterated in a task of its own, which is cancelled when the condition is released.
    public convenience init(_ name: String, _ levels: some AsyncSequence<Bool, Never> & Sendable) {
        let storage = ConditionStorage(State())
        let follower = Task {
            for await level in levels { storage.set(level) }
            storage.finish()
        }
        self.init(name, storage, lifetime: CancellingTask(follower))
    }

    /// The condition now.
    public var state: State { storage.state }

    /// The condition now and after each change.
    ///
    /// A listener that is slow sees the latest state and misses those in between; its epoch tells how many there were. The stream
    /// ends after a finished state. Every access makes a new stream.
    public var updates: AsyncStream<State> {
        let (stream, continuation) = AsyncStream.makeStream(of: State.self, bufferingPolicy: .bufferingNewest(1))
        // The condition is kept as long as its stream: the scope is watched while the stream is read.
        storage.subscribe(continuation, keeping: self)
        return stream
    }
}

/// The write side of a condition: only its owner can say so.
public final class ConditionSource: Sendable {
    /// The read side, to hand to those who wait.
    public let condition: Condition

    /// Makes a condition.
    ///
    /// Satisfied from the start, its epoch is 1, otherwise 0.
    public init(_ name: String, isSatisfied: Bool) {
        condition = Condition(name, ConditionStorage(Condition.State(isSatisfied: isSatisfied, epoch: isSatisfied ? 1 : 0)))
    }

    /// Sets the level; becoming satisfied grows the epoch, a repetition changes nothing.
    ///
    /// Ignored once finished.
    public func set(_ isSatisfied: Bool) { condition.storage.set(isSatisfied) }

    /// Grows the epoch without a change of the level: what was decided before no longer holds.
    ///
    /// Ignored once finished.
    public func advanceEpoch() { condition.storage.advanceEpoch() }

    /// Ends the condition as it is.
    ///
    /// Further calls do nothing.
    public func finish() { condition.storage.finish() }
}

/// Cancels a task when it is released.
private final class CancellingTask: Sendable {
    private let task: Task<Void, Never>

    init(_ task: Task<Void, Never>) { self.task = task }

    deinit { task.cancel() }
}
