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
    /// finishes the condition. A task of its own iterates the sequence, on the task executor that the calling task prefers;
    /// releasing the condition cancels the task.
    public convenience init(_ name: String, _ levels: some AsyncSequence<Bool, Never> & Sendable) {
        let storage = ConditionStorage(State())
        let follower = Task(executorPreference: Task.preferredExecutor) {
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

    deinit { finish() }

    /// Sets the level; becoming satisfied grows the epoch.
    ///
    /// Repetitions, and calls after ``finish()``, change nothing.
    public func set(_ isSatisfied: Bool) { condition.storage.set(isSatisfied) }

    /// Grows the epoch and keeps the level: earlier decisions no longer hold.
    ///
    /// Calls after ``finish()`` change nothing.
    public func advanceEpoch() { condition.storage.advanceEpoch() }

    /// Makes the present state final; releasing the source does the same.
    ///
    /// Waiters for an unsatisfied condition end, because nothing can satisfy it any more.
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
    private typealias Waiter = CheckedContinuation<Condition.State, any Error>
    private typealias Stream = AsyncStream<Condition.State>.Continuation

    /// The changes that have not been published, the least first; each case includes those before it.
    private enum News: Comparable {
        case none
        /// Observers have to read again; the state is the same.
        case reading
        case state
    }

    private struct Content {
        var reading: Reading
        var waiters: [ID: Waiter] = [:]
        var observers: [ID: @Sendable () -> Void] = [:]
        var streams: [ID: Stream] = [:]
        var newcomers: [ID: Stream] = [:]
        var nextID: ID = 0
        private var news = News.none
        private var turn = PublishingTurn()

        init(_ reading: Reading) { self.reading = reading }

        mutating func makeID() -> ID {
            nextID += 1
            return nextID
        }

        mutating func note(_ news: News) { self.news = max(self.news, news) }

        /// Returns the unpublished changes; `nil` if there are none, or if another thread publishes them.
        mutating func nextPublication(isContinuing: Bool) -> Publication? {
            guard turn.take(isContinuing: isContinuing, hasWork: news != .none || !newcomers.isEmpty) else { return nil }
            var publication = Publication(state: reading.state)
            if !waiters.isEmpty && reading.state.endsWaits { swap(&publication.waiters, &waiters) }
            if news == .state && !streams.isEmpty { publication.streams = Array(streams.values) }
            if news != .none { publication.observers = Array(observers.values) }
            if !newcomers.isEmpty {
                publication.streams += newcomers.values
                streams.merge(newcomers) { $1 }
                newcomers = [:]
            }
            news = .none
            return publication
        }
    }

    private struct Publication {
        var state: Condition.State
        var waiters: [ID: Waiter] = [:]
        var streams: [Stream] = []
        var observers: [@Sendable () -> Void] = []
    }

    private let content: Mutex<Content>

    /// True for a monitor's condition: its end says nothing about the network.
    package let isReachability: Bool

    package init(_ state: Condition.State, isReachability: Bool = false, isKnown: Bool = true, isUnsteady: Bool = false) {
        self.isReachability = isReachability
        content = Mutex(Content(Reading(state: state, isKnown: isKnown, isUnsteady: isUnsteady, evaluation: 0)))
    }

    package var state: Condition.State { content.withLock(\.reading.state) }

    package var reading: Reading { content.withLock(\.reading) }

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
            guard !content.reading.state.isFinished else { return }
            let old = content.reading
            content.reading.evaluation &+= 1
            content.reading.isKnown = old.isKnown || !state.isFinished
            (content.reading.state, content.reading.isUnsteady) = (state, isUnsteady)
            if old.isKnown != content.reading.isKnown || old.isUnsteady != isUnsteady || wasRequested { content.note(.reading) }
            if old.state != state { content.note(.state) }
        }
        publish()
    }

    /// Calls back after each change, outside locks, on the thread that made it or on the present publisher.
    ///
    /// The call carries no state: an observer reads it under its own lock.
    package func observe(_ observer: @escaping @Sendable () -> Void) -> ID {
        content.withLock { content in
            let id = content.makeID()
            content.observers[id] = observer
            return id
        }
    }

    package func removeObserver(_ id: ID) {
        // Released outside the lock: the closure may own anything.
        _ = content.withLock { $0.observers.removeValue(forKey: id) }
    }

    /// Publishes the state and each change of it to a stream, which keeps the owner until it ends.
    package func subscribe(_ stream: AsyncStream<Condition.State>.Continuation, keeping owner: (any AnyObject & Sendable)? = nil) {
        content.withLock { content in
            let id = content.makeID()
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
        if Task.isCancelled { return nil }
        let id = content.withLock { $0.makeID() }
        return try? await withCancellableContinuation { waiter in
            let state = content.withLock { content -> Condition.State? in
                if content.reading.state.endsWaits { return content.reading.state }
                content.waiters[id] = waiter
                return nil
            }
            if let state { waiter.resume(returning: state) }
        } onCancel: {
            content.withLock { $0.waiters.removeValue(forKey: id) }?.resume(throwing: CancellationError())
        }
    }

    /// The number of streams, observers and waiters.
    package var listenerCount: Int {
        content.withLock { $0.observers.count + $0.streams.count + $0.newcomers.count + $0.waiters.count }
    }

    private func change(_ body: (inout Condition.State) -> Void) {
        content.withLock { content in
            guard !content.reading.state.isFinished else { return }
            let old = content.reading.state
            body(&content.reading.state)
            if content.reading.state != old { content.note(.state) }
        }
        publish()
    }

    private func publish() {
        var isContinuing = false
        while let publication = content.withLock({ $0.nextPublication(isContinuing: isContinuing) }) {
            isContinuing = true
            for waiter in publication.waiters.values { waiter.resume(returning: publication.state) }
            // Before the streams, so that a listener that hears of the change finds the jobs of a bus or a queue awake.
            for observer in publication.observers { observer() }
            for stream in publication.streams {
                stream.yield(publication.state)
                if publication.state.isFinished { stream.finish() }
            }
        }
    }
}

extension Condition.State {
    /// True if the state ends a wait for a satisfied condition.
    fileprivate var endsWaits: Bool { isSatisfied || isFinished }
}

extension Task where Success == Never, Failure == Never {
    /// The executor that the calling task prefers: a task of its own does not inherit it (SE-0417), as a child would.
    package static var preferredExecutor: (any TaskExecutor)? {
        #if compiler(>=6.3)
        withUnsafeCurrentTask { $0?.unownedTaskExecutor?.asTaskExecutor() }
        #else
        nil
        #endif
    }
}
