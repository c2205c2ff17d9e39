internal import DequeModule

/// Events on their way to those who listen.
///
/// Events are put down under the bus's lock and delivered outside of it, each kind of reader by one thread at a time, so that they
/// come in order. What a reader that blocks leaves behind is bounded.
struct EventBroadcaster: Sendable {
    typealias Listener = AsyncStream<RetryEvent>.Continuation

    /// Events for one kind of reader.
    private struct Queue: Sendable {
        var events: Deque<RetryEvent> = []
        /// How many events had no room since the last delivery.
        var dropped = 0
        /// Whether a thread is delivering.
        var isBusy = false

        mutating func takeAll() -> [RetryEvent] {
            defer { events = [] }
            return Array(events)
        }

        /// Puts an event down, or drops it if there are too many.
        mutating func put(_ event: RetryEvent) {
            if events.count < EventBroadcaster.limit { events.append(event) } else { dropped += 1 }
        }
    }

    /// How many events wait for instruments that block; those that come later are dropped.
    static let limit = 4096

    private var listeners: [UInt64: Listener] = [:]
    private var nextID: UInt64 = 0
    private var forListeners = Queue()
    private var forMetrics = Queue()
    private var forLog = Queue()
    private let listenerLimit: Int
    private let isMeasured: Bool
    private let isLogged: Bool
    private(set) var isClosed = false
    /// How many jobs there are, and how many the metrics know of.
    private var jobs = 0
    private var toldJobs = 0

    init(listenerLimit: Int = 0, isMeasured: Bool = false, isLogged: Bool = false) {
        self.listenerLimit = max(Self.limit, listenerLimit)
        self.isMeasured = isMeasured
        self.isLogged = isLogged
    }

    /// Whether anybody wants to know.
    var hasReaders: Bool { isMeasured || isLogged || !listeners.isEmpty }
    var listenerCount: Int { listeners.count }
    var hasUnreadWait: Bool {
        !forListeners.events.isEmpty || !forMetrics.events.isEmpty || !forLog.events.isEmpty || jobs != toldJobs
    }

    /// Returns `nil` if there is nothing more to hear.
    mutating func add(_ listener: Listener) -> UInt64? {
        guard !isClosed else { return nil }
        nextID += 1
        listeners[nextID] = listener
        return nextID
    }

    mutating func remove(_ id: UInt64) -> Listener? { listeners.removeValue(forKey: id) }

    /// Puts an event down for all readers; returns the oldest one if it has no room any more, to be released outside of the lock.
    mutating func put(_ event: RetryEvent) -> RetryEvent? {
        if isMeasured { forMetrics.put(event) }
        if isLogged { forLog.put(event) }
        guard !listeners.isEmpty else { return nil }
        forListeners.events.append(event)
        return forListeners.events.count > listenerLimit ? forListeners.events.popFirst() : nil
    }

    mutating func note(jobs: Int) {
        if isMeasured { self.jobs = jobs }
    }

    /// Nothing more will be put down; those who listen get what is there, and the end.
    mutating func close() { isClosed = true }

    // MARK: - Delivering

    /// What one thread delivers to the streams at once.
    struct EventBatch: Sendable {
        var events: [RetryEvent]
        var listeners: [Listener]
        /// Whether nothing follows.
        var isLast: Bool
    }

    /// What one thread delivers to instruments at once.
    struct InstrumentBatch: Sendable {
        var events: [RetryEvent]
        /// By how many jobs there are more.
        var moreJobs = 0
        /// How many events are missing behind these.
        var dropped = 0
    }

    /// What is left to tell the streams; `nil` if nothing is or if another thread tells it.
    mutating func takeForListeners(isContinuing: Bool) -> EventBatch? {
        guard isContinuing || !forListeners.isBusy else { return nil }
        forListeners.isBusy = !forListeners.events.isEmpty || (isClosed && !listeners.isEmpty)
        guard forListeners.isBusy else { return nil }
        defer { if isClosed { listeners = [:] } }
        return EventBatch(events: forListeners.takeAll(), listeners: Array(listeners.values), isLast: isClosed)
    }

    /// What is left to count; `nil` if nothing is or if another thread counts it.
    mutating func takeForMetrics(isContinuing: Bool) -> InstrumentBatch? {
        guard isContinuing || !forMetrics.isBusy else { return nil }
        forMetrics.isBusy = !forMetrics.events.isEmpty || jobs != toldJobs
        guard forMetrics.isBusy else { return nil }
        defer { toldJobs = jobs }
        return InstrumentBatch(events: forMetrics.takeAll(), moreJobs: jobs - toldJobs)
    }

    /// What is left to log; `nil` if nothing is or if another thread logs it.
    mutating func takeForLog(isContinuing: Bool) -> InstrumentBatch? {
        guard isContinuing || !forLog.isBusy else { return nil }
        forLog.isBusy = !forLog.events.isEmpty
        guard forLog.isBusy else { return nil }
        defer { forLog.dropped = 0 }
        return InstrumentBatch(events: forLog.takeAll(), dropped: forLog.dropped)
    }
}
