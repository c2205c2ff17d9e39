internal import DequeModule
internal import Reachability
internal import Synchronization

/// Delivers a bus's events to listeners, metrics and the log.
///
/// The bus appends events under its lock and delivers them outside of it. Each kind of reader has its own queue, with one
/// delivering thread at a time: events arrive in order, and a logger that blocks delays no listener. All queues are bounded.
struct EventBroadcaster: Sendable {
    typealias Listener = AsyncStream<RetryEvent>.Continuation

    /// The events for one kind of reader.
    private struct Queue: Sendable {
        var events: Deque<RetryEvent> = []
        /// The number of events that were dropped since the last delivery.
        var dropped = 0
        /// The turn to deliver.
        private var turn = PublishingTurn()

        /// Takes everything, unless another thread delivers; returns `nil` and ends the delivery if there is nothing.
        mutating func takeAll(isContinuing: Bool, orIf hasOtherWork: Bool = false) -> [RetryEvent]? {
            guard turn.take(isContinuing: isContinuing, hasWork: !events.isEmpty || hasOtherWork) else { return nil }
            defer { events = [] }
            // An empty deque would write to the storage that all empty arrays share, which the thread sanitizer calls a race.
            return events.isEmpty ? [] : Array(events)
        }

        /// Appends an event, or drops it if the queue is full.
        mutating func append(_ event: RetryEvent) {
            if events.count < EventBroadcaster.limit { events.append(event) } else { dropped += 1 }
        }
    }

    /// The most events that wait for instruments that block; later ones are dropped.
    static let limit = 4096

    private var listeners: [UInt64: Listener] = [:]
    private var nextID: UInt64 = 0
    /// The number of the last event.
    private var sequence: UInt64 = 0
    private var forListeners = Queue()
    private var forMetrics = Queue()
    private var forLog = Queue()
    private let listenerLimit: Int
    private let isMeasured: Bool
    private let isLogged: Bool
    private(set) var isClosed = false
    /// The number of jobs, and the number that the metrics know.
    private var jobs = 0
    private var measuredJobs = 0

    init(listenerLimit: Int = 0, isMeasured: Bool = false, isLogged: Bool = false) {
        self.listenerLimit = max(Self.limit, listenerLimit)
        self.isMeasured = isMeasured
        self.isLogged = isLogged
    }

    var hasReaders: Bool { isMeasured || isLogged || !listeners.isEmpty }
    var listenerCount: Int { listeners.count }
    var hasEvents: Bool {
        !forListeners.events.isEmpty || !forMetrics.events.isEmpty || !forLog.events.isEmpty || jobs != measuredJobs
    }

    /// Adds a listener; returns `nil` if the broadcaster is closed.
    mutating func add(_ listener: Listener) -> UInt64? {
        guard !isClosed else { return nil }
        nextID += 1
        listeners[nextID] = listener
        return nextID
    }

    mutating func remove(_ id: UInt64) -> Listener? { listeners.removeValue(forKey: id) }

    /// Appends an event for all readers; returns the oldest one if it was dropped, to be released outside of the lock.
    mutating func append(_ event: RetryEvent) -> RetryEvent? {
        var event = event
        sequence += 1
        event.sequence = sequence
        if isMeasured { forMetrics.append(event) }
        if isLogged { forLog.append(event) }
        guard !listeners.isEmpty else { return nil }
        forListeners.events.append(event)
        return forListeners.events.count > listenerLimit ? forListeners.events.popFirst() : nil
    }

    mutating func note(jobs: Int) {
        if isMeasured { self.jobs = jobs }
    }

    /// Finishes the listeners' streams with the next delivery.
    mutating func close() { isClosed = true }

    // MARK: - Delivering

    /// The events that one thread delivers to the streams at once.
    struct EventBatch: Sendable {
        var events: [RetryEvent]
        var listeners: [Listener]
        /// True if no batch follows.
        var isLast: Bool
    }

    /// The events that one thread delivers to the metrics or the log at once.
    struct InstrumentBatch: Sendable {
        var events: [RetryEvent]
        /// The change in the number of jobs.
        var moreJobs = 0
        /// The number of events that were dropped after these.
        var dropped = 0
    }

    mutating func takeForListeners(isContinuing: Bool) -> EventBatch? {
        guard let events = forListeners.takeAll(isContinuing: isContinuing, orIf: isClosed && !listeners.isEmpty)
        else { return nil }
        defer { if isClosed { listeners = [:] } }
        return EventBatch(events: events, listeners: Array(listeners.values), isLast: isClosed)
    }

    mutating func takeForMetrics(isContinuing: Bool) -> InstrumentBatch? {
        guard let events = forMetrics.takeAll(isContinuing: isContinuing, orIf: jobs != measuredJobs) else { return nil }
        defer { (measuredJobs, forMetrics.dropped) = (jobs, 0) }
        return InstrumentBatch(events: events, moreJobs: jobs - measuredJobs, dropped: forMetrics.dropped)
    }

    mutating func takeForLog(isContinuing: Bool) -> InstrumentBatch? {
        guard let events = forLog.takeAll(isContinuing: isContinuing) else { return nil }
        defer { forLog.dropped = 0 }
        return InstrumentBatch(events: events, dropped: forLog.dropped)
    }
}

extension RetryBus {
    /// The events of all jobs from now on, in order.
    ///
    /// Each access makes a new stream, for one iteration. It does not repeat earlier events. A slow listener loses the oldest
    /// events beyond ``Configuration/bufferedEvents``; ``RetryEvent/sequence`` tells how many. The stream finishes when the bus is
    /// shut down or released.
    public var events: AsyncStream<RetryEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: RetryEvent.self, bufferingPolicy: .bufferingNewest(max(1, configuration.bufferedEvents)))
        guard let id = state.withLock({ $0.broadcaster.add(continuation) }) else {
            continuation.finish()
            return stream
        }
        // Unread events are released outside of the lock.
        continuation.onTermination = { [weak self] _ in _ = self?.state.withLock { $0.broadcaster.remove(id) } }
        return stream
    }

    /// Delivers the events that were appended, unless another thread does.
    func publish() {
        deliver(to: Self.yield) { $0.takeForListeners(isContinuing: $1) }
        guard let instruments else { return }
        deliver(to: instruments.measure) { $0.takeForMetrics(isContinuing: $1) }
        deliver(to: instruments.log) { $0.takeForLog(isContinuing: $1) }
    }

    private static func yield(_ batch: EventBroadcaster.EventBatch) {
        for event in batch.events {
            for listener in batch.listeners { listener.yield(event) }
        }
        guard batch.isLast else { return }
        for listener in batch.listeners { listener.finish() }
    }

    /// Delivers batches until there are no more, including those that other threads append meanwhile.
    private func deliver<Batch: Sendable>(
        to reader: (Batch) -> Void, _ take: (inout EventBroadcaster, _ isContinuing: Bool) -> Batch?
    ) {
        var isContinuing = false
        while let batch = state.withLock({ take(&$0.broadcaster, isContinuing) }) {
            isContinuing = true
            reader(batch)
        }
    }
}
