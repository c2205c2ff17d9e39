/// Events on their way to those who listen.
///
/// Events are put down under the bus's lock and told outside of it, by one thread at a time, so that they are told in order.
struct Newsroom: Sendable {
    typealias Listener = AsyncStream<RetryEvent>.Continuation

    private var listeners: [UInt64: Listener] = [:]
    private var nextID: UInt64 = 0
    private var news: [RetryEvent] = []
    private var isPublishing = false
    private(set) var isClosed = false
    /// Whether there are instruments, for which everything is written down and counted.
    let isInstrumented: Bool
    /// How many jobs there are, and how many the instruments know of.
    private var jobs = 0
    private var toldJobs = 0

    init(isInstrumented: Bool = false) { self.isInstrumented = isInstrumented }

    /// Whether anybody wants to know.
    var hasReaders: Bool { isInstrumented || !listeners.isEmpty }
    var listenerCount: Int { listeners.count }
    var hasNews: Bool { !news.isEmpty || jobs != toldJobs }

    /// Returns `nil` if there is nothing more to hear.
    mutating func add(_ listener: Listener) -> UInt64? {
        guard !isClosed else { return nil }
        nextID += 1
        listeners[nextID] = listener
        return nextID
    }

    mutating func remove(_ id: UInt64) { listeners[id] = nil }

    mutating func put(_ event: RetryEvent) { news.append(event) }

    mutating func note(jobs: Int) {
        if isInstrumented { self.jobs = jobs }
    }

    /// What one thread tells at once.
    struct Edition: Sendable {
        var events: [RetryEvent]
        var listeners: [Listener]
        /// By how many jobs there are more.
        var moreJobs: Int
        /// Whether nothing follows.
        var isLast: Bool
    }

    /// What is left to tell, or `nil` if nothing is or if another thread tells it.
    mutating func take(isContinuing: Bool) -> Edition? {
        guard isContinuing || !isPublishing else { return nil }
        isPublishing = hasNews || (isClosed && !listeners.isEmpty)
        guard isPublishing else { return nil }
        let edition = Edition(
            events: news, listeners: Array(listeners.values), moreJobs: jobs - toldJobs, isLast: isClosed)
        (news, toldJobs) = ([], jobs)
        if isClosed { listeners = [:] }
        return edition
    }

    /// Nothing more will be put down; those who listen get what is there, and the end.
    mutating func close() { isClosed = true }
}
