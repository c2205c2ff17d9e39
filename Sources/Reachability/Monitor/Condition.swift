internal import Synchronization

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

/// A condition's state, with those who want to know of its changes.
///
/// Whoever changes the state becomes the publisher unless there is one already; the publisher tells everybody, outside the lock,
/// until nothing is left to tell. So changes made by several threads at once are told in order, and a callback may change the
/// condition.
package final class ConditionStorage: Sendable {
    /// A subscription of ``observe(_:)``.
    package typealias ID = UInt64

    /// A condition at one moment, with what the retry bus asks beside its public state.
    package struct Reading: Hashable, Sendable {
        package var state: Condition.State
        /// If false, nothing was evaluated yet and the state is a guess.
        package var isKnown: Bool
        /// If true, the path changed so often that it is not relied on yet.
        ///
        /// Observers are called when it is steady again.
        package var isUnsteady: Bool
        /// Counts the evaluations that the monitor has told of: those that changed something, and those on request.
        package var evaluation: UInt64
    }

    /// Who waits for one moment; told by a continuation of its own, for a stream costs several times as much.
    private typealias Waiter = UnsafeContinuation<Condition.State?, Never>

    private struct Content {
        var state: Condition.State
        var waiters: [ID: Waiter] = [:]
        var observers: [ID: @Sendable () -> Void] = [:]
        var streams: [ID: AsyncStream<Condition.State>.Continuation] = [:]
        var newcomers: [ID: AsyncStream<Condition.State>.Continuation] = [:]
        /// What `observers` holds, as long as it is the same: it is fetched with each change, and seldom another one.
        var audience: [@Sendable () -> Void]?
        var nextID: ID = 0
        var isKnown: Bool
        var isUnsteady: Bool
        var evaluation: UInt64 = 0
        var isStale = false
        /// If true, observers are to be called, and streams only if `isStale`.
        var hasNewReading = false
        var isPublishing = false

        mutating func everybody() -> [@Sendable () -> Void] {
            let everybody = audience ?? Array(observers.values)
            audience = everybody
            return everybody
        }
    }

    private let content: Mutex<Content>

    /// Whether it is a monitor's, whose end says nothing about the network.
    package let isReachability: Bool

    package init(_ state: Condition.State, isReachability: Bool = false, isKnown: Bool = true, isUnsteady: Bool = false) {
        self.isReachability = isReachability
        content = Mutex(Content(state: state, isKnown: isKnown, isUnsteady: isUnsteady))
    }

    package var state: Condition.State { content.withLock(\.state) }

    package var reading: Reading {
        content.withLock { content in
            Reading(
                state: content.state, isKnown: content.isKnown, isUnsteady: content.isUnsteady, evaluation: content.evaluation)
        }
    }

    package func set(_ isSatisfied: Bool) {
        change { state in
            if isSatisfied && !state.isSatisfied { state.epoch &+= 1 }
            state.isSatisfied = isSatisfied
        }
    }

    package func advanceEpoch() { change { $0.epoch &+= 1 } }

    package func finish() { change { $0.isFinished = true } }

    /// Takes over a state that was decided elsewhere, by somebody who has looked.
    ///
    /// - Parameter wasRequested: if true, observers are called also if nothing changed.
    package func replace(_ state: Condition.State, isUnsteady: Bool = false, wasRequested: Bool = false) {
        content.withLock { content in
            guard !content.state.isFinished else { return }
            content.evaluation &+= 1
            let becomesKnown = !content.isKnown && !state.isFinished
            if becomesKnown || content.isUnsteady != isUnsteady || wasRequested { content.hasNewReading = true }
            if content.state != state { content.isStale = true }
            (content.state, content.isUnsteady) = (state, isUnsteady)
            if becomesKnown { content.isKnown = true }
        }
        publish()
    }

    /// Calls back after each change, outside locks, on the thread that made it or on one that was just publishing.
    ///
    /// It tells only *that* something changed: an observer reads the state again under its own lock.
    package func observe(_ observer: @escaping @Sendable () -> Void) -> ID {
        content.withLock { content in
            content.nextID += 1
            content.observers[content.nextID] = observer
            content.audience = nil
            return content.nextID
        }
    }

    package func removeObserver(_ id: ID) {
        // Released outside the lock: the closure may own anything.
        _ = content.withLock { ($0.observers.removeValue(forKey: id), $0.audience.take()) }
    }

    /// Has a stream told the state, and each change of it; the owner is kept until the stream ends.
    package func subscribe(_ stream: AsyncStream<Condition.State>.Continuation, keeping owner: (any AnyObject & Sendable)? = nil) {
        content.withLock { content in
            content.nextID += 1
            let id = content.nextID
            content.newcomers[id] = stream
            // Set before the condition can finish the stream.
            stream.onTermination = { [self] _ in
                withExtendedLifetime(owner) {}
                unsubscribe(id)
            }
        }
        publish()
    }

    package func unsubscribe(_ id: ID) {
        content.withLock { content in
            content.streams[id] = nil
            content.newcomers[id] = nil
        }
    }

    /// Returns the state as soon as it is satisfied or finished, at once if it is; `nil` when the task is cancelled.
    package func satisfiedOrFinished() async -> Condition.State? {
        let id = content.withLock { content in
            content.nextID += 1
            return content.nextID
        }
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { (waiter: Waiter) in
                // What the waiter is told at once; inside is `nil` for a task that is cancelled.
                let answer = content.withLock { content -> Condition.State?? in
                    // Under the lock: the handler looks for a waiter after the task has become cancelled.
                    if Task.isCancelled { return .some(nil) }
                    if content.state.isSatisfied || content.state.isFinished { return content.state }
                    content.waiters[id] = waiter
                    return nil
                }
                if let answer { waiter.resume(returning: answer) }
            }
        } onCancel: {
            content.withLock { $0.waiters.removeValue(forKey: id) }?.resume(returning: nil)
        }
    }

    /// How many streams, observers and waiters there are.
    package var listenerCount: Int {
        content.withLock { $0.observers.count + $0.streams.count + $0.newcomers.count + $0.waiters.count }
    }

    private func change(_ body: (inout Condition.State) -> Void) {
        content.withLock { content in
            guard !content.state.isFinished else { return }
            let old = content.state
            body(&content.state)
            if content.state != old { content.isStale = true }
        }
        publish()
    }

    private struct News {
        var state: Condition.State
        var waiters: [ID: Waiter] = [:]
        var streams: [AsyncStream<Condition.State>.Continuation] = []
        var observers: [@Sendable () -> Void] = []
    }

    private func publish() {
        var isContinuing = false
        while let news = takeNews(isContinuing: isContinuing) {
            isContinuing = true
            for waiter in news.waiters.values { waiter.resume(returning: news.state) }
            for stream in news.streams {
                stream.yield(news.state)
                if news.state.isFinished { stream.finish() }
            }
            for observer in news.observers { observer() }
        }
    }

    /// What is left to tell, or `nil` if nothing is or if another thread tells it.
    private func takeNews(isContinuing: Bool) -> News? {
        content.withLock { content in
            guard isContinuing || !content.isPublishing else { return nil }
            guard content.isStale || content.hasNewReading || !content.newcomers.isEmpty else {
                content.isPublishing = false
                return nil
            }
            content.isPublishing = true
            var news = News(state: content.state)
            if !content.waiters.isEmpty && (content.state.isSatisfied || content.state.isFinished) {
                swap(&news.waiters, &content.waiters)
            }
            if content.isStale && !content.streams.isEmpty { news.streams = Array(content.streams.values) }
            if content.isStale || content.hasNewReading { news.observers = content.everybody() }
            if !content.newcomers.isEmpty {
                news.streams += content.newcomers.values
                content.streams.merge(content.newcomers) { $1 }
                content.newcomers = [:]
            }
            content.isStale = false
            content.hasNewReading = false
            return news
        }
    }
}
