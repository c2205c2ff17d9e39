internal import Synchronization

/// A requirement of work, such as the network, a login or a charger: the read side.
///
/// A condition is a level with an epoch. A waiter remembers the epoch at which it last acted and compares both: a condition that
/// was lost and regained in between has another epoch even if its level is the same. Safe to use from any thread.
public final class Condition: Sendable {
    /// The state of a condition at one moment.
    public struct State: Hashable, Sendable {
        /// The level: true while work may go on.
        public var isSatisfied: Bool
        /// The number of times the level became satisfied, or changed so much that waiting makes no sense.
        public var epoch: UInt64
        /// True if the state is final.
        public var isFinished: Bool

        /// Makes a state, by default that of a condition that was never satisfied.
        public init(isSatisfied: Bool = false, epoch: UInt64 = 0, isFinished: Bool = false) {
            self.isSatisfied = isSatisfied
            self.epoch = epoch
            self.isFinished = isFinished
        }
    }

    /// The name of the condition in logs.
    public let name: String
    package let storage: ConditionStorage
    /// Released with the condition, to tell the owner that it is no longer used.
    private let lifetime: (any AnyObject & Sendable)?

    package init(_ name: String, _ storage: ConditionStorage, lifetime: (any AnyObject & Sendable)? = nil) {
        self.name = name
        self.storage = storage
        self.lifetime = lifetime
    }

    /// Makes a condition that follows a sequence of levels.
    ///
    /// It is unsatisfied until the first element, and its epoch grows whenever it becomes satisfied. The end of the sequence
    /// finishes the condition. A task of its own iterates the sequence; releasing the condition cancels the task.
    public convenience init(_ name: String, _ levels: some AsyncSequence<Bool, Never> & Sendable) {
        let storage = ConditionStorage(State())
        let follower = Task {
            for await level in levels { storage.set(level) }
            storage.finish()
        }
        self.init(name, storage, lifetime: CancellingTask(follower))
    }

    /// The present state.
    public var state: State { storage.state }

    /// The present state and each later one.
    ///
    /// A slow listener sees the latest state and misses those in between; the epoch tells their number. The stream ends after a
    /// finished state. Every access makes a new stream.
    public var updates: AsyncStream<State> {
        let (stream, continuation) = AsyncStream.makeStream(of: State.self, bufferingPolicy: .bufferingNewest(1))
        // The stream keeps the condition, so that the scope is watched while the stream is read.
        storage.subscribe(continuation, keeping: self)
        return stream
    }
}

/// The write side of a condition, for its owner.
public final class ConditionSource: Sendable {
    /// The read side, for waiters.
    public let condition: Condition

    /// Makes a condition.
    ///
    /// The epoch starts at 1 if the condition is satisfied, otherwise at 0.
    public init(_ name: String, isSatisfied: Bool) {
        condition = Condition(name, ConditionStorage(Condition.State(isSatisfied: isSatisfied, epoch: isSatisfied ? 1 : 0)))
    }

    /// Sets the level; becoming satisfied grows the epoch.
    ///
    /// Repetitions, and calls after ``finish()``, change nothing.
    public func set(_ isSatisfied: Bool) { condition.storage.set(isSatisfied) }

    /// Grows the epoch and keeps the level: earlier decisions no longer hold.
    ///
    /// Calls after ``finish()`` change nothing.
    public func advanceEpoch() { condition.storage.advanceEpoch() }

    /// Makes the present state final.
    public func finish() { condition.storage.finish() }
}

/// The owner of a task, which cancels it on release.
private final class CancellingTask: Sendable {
    private let task: Task<Void, Never>

    init(_ task: Task<Void, Never>) { self.task = task }

    deinit { task.cancel() }
}

/// A condition's state and listeners.
///
/// The thread that changes the state becomes the publisher, unless there is one. The publisher calls listeners outside the lock
/// until it has published every change. So concurrent changes are published in order, and a callback may change the condition.
package final class ConditionStorage: Sendable {
    /// A subscription of ``observe(_:)``.
    package typealias ID = UInt64

    /// A condition at one moment, as the retry bus reads it.
    package struct Reading: Hashable, Sendable {
        package var state: Condition.State
        /// False before the first evaluation: the state is a guess.
        package var isKnown: Bool
        /// True while the path changes too often to be relied on.
        ///
        /// Observers are called when it is steady again.
        package var isUnsteady: Bool
        /// The number of evaluations that changed the condition or were requested.
        package var evaluation: UInt64
    }

    /// A task that waits for one moment; a stream would cost several times as much.
    private typealias Waiter = UnsafeContinuation<Condition.State?, Never>

    private struct Content {
        var state: Condition.State
        var waiters: [ID: Waiter] = [:]
        var observers: [ID: @Sendable () -> Void] = [:]
        var streams: [ID: AsyncStream<Condition.State>.Continuation] = [:]
        var newcomers: [ID: AsyncStream<Condition.State>.Continuation] = [:]
        /// The values of `observers`, until they change: each publication needs them, and they change rarely.
        var observerList: [@Sendable () -> Void]?
        var nextID: ID = 0
        var isKnown: Bool
        var isUnsteady: Bool
        var evaluation: UInt64 = 0
        var isStale = false
        /// True if observers have to be called; streams need `isStale`.
        var hasNewReading = false
        var isPublishing = false

        mutating func allObservers() -> [@Sendable () -> Void] {
            let list = observerList ?? Array(observers.values)
            observerList = list
            return list
        }
    }

    private let content: Mutex<Content>

    /// True for a monitor's condition: its end says nothing about the network.
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

    /// Takes over a state that an evaluation found.
    ///
    /// - Parameter wasRequested: true to call observers even if nothing changed.
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

    /// Calls back after each change, outside locks, on the thread that made it or on the present publisher.
    ///
    /// The call carries no state: an observer reads it under its own lock.
    package func observe(_ observer: @escaping @Sendable () -> Void) -> ID {
        content.withLock { content in
            content.nextID += 1
            content.observers[content.nextID] = observer
            content.observerList = nil
            return content.nextID
        }
    }

    package func removeObserver(_ id: ID) {
        // Released outside the lock: the closure may own anything.
        _ = content.withLock { ($0.observers.removeValue(forKey: id), $0.observerList.take()) }
    }

    /// Publishes the state and each change of it to a stream, which keeps the owner until it ends.
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

    /// Waits until the state is satisfied or finished, and returns it; `nil` if the task is cancelled.
    package func satisfiedOrFinished() async -> Condition.State? {
        let id = content.withLock { content in
            content.nextID += 1
            return content.nextID
        }
        return await withTaskCancellationHandler {
            await withUnsafeContinuation { (waiter: Waiter) in
                // The immediate answer; `.some(nil)` for a cancelled task.
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

    /// The number of streams, observers and waiters.
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

    private struct Publication {
        var state: Condition.State
        var waiters: [ID: Waiter] = [:]
        var streams: [AsyncStream<Condition.State>.Continuation] = []
        var observers: [@Sendable () -> Void] = []
    }

    private func publish() {
        var isContinuing = false
        while let publication = nextPublication(isContinuing: isContinuing) {
            isContinuing = true
            for waiter in publication.waiters.values { waiter.resume(returning: publication.state) }
            for stream in publication.streams {
                stream.yield(publication.state)
                if publication.state.isFinished { stream.finish() }
            }
            for observer in publication.observers { observer() }
        }
    }

    /// Returns the unpublished changes; `nil` if there are none, or if another thread publishes them.
    private func nextPublication(isContinuing: Bool) -> Publication? {
        content.withLock { content in
            guard isContinuing || !content.isPublishing else { return nil }
            guard content.isStale || content.hasNewReading || !content.newcomers.isEmpty else {
                content.isPublishing = false
                return nil
            }
            content.isPublishing = true
            var publication = Publication(state: content.state)
            if !content.waiters.isEmpty && (content.state.isSatisfied || content.state.isFinished) {
                swap(&publication.waiters, &content.waiters)
            }
            if content.isStale && !content.streams.isEmpty { publication.streams = Array(content.streams.values) }
            if content.isStale || content.hasNewReading { publication.observers = content.allObservers() }
            if !content.newcomers.isEmpty {
                publication.streams += content.newcomers.values
                content.streams.merge(content.newcomers) { $1 }
                content.newcomers = [:]
            }
            content.isStale = false
            content.hasNewReading = false
            return publication
        }
    }
}
