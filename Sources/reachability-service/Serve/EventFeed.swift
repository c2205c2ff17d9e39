import CommandKit
import Reachability
import Synchronization

/// The published state of one scope, and its outages since the service started.
struct ScopeRecord: Sendable {
    let scope: Scope
    /// The last transition, or the baseline before the first one.
    private(set) var last: Transition
    /// The transition that began the present status, or the baseline.
    private(set) var beginning: Transition
    private(set) var outages = 0
    /// The number of losses, those too short to be an outage included.
    private(set) var losses = 0
    /// The length of the outages that have ended.
    private var endedOutages = Duration.zero
    /// The time in which the machine was suspended before the present status began.
    private var suspendedBefore: Duration

    /// - Parameter suspended: The time since boot in which the machine was suspended, up to the baseline.
    init(_ scope: Scope, _ baseline: Transition, suspended: Duration = .zero) {
        (self.scope, last, beginning, suspendedBefore) = (scope, baseline, baseline, suspended)
        if baseline.current.status == .unsatisfied { outages = 1 }
    }

    mutating func update(_ transition: Transition, suspended: Duration = .zero) {
        let (old, new) = (last.current.status, transition.current.status)
        last = transition
        losses += transition.losses
        guard old != new else { return }
        if old == .unsatisfied { endedOutages = offlineTime(until: transition.at, suspended: suspended) }
        if new == .unsatisfied { outages += 1 }
        (beginning, suspendedBefore) = (transition, suspended)
    }

    /// Takes over what changed without a transition, such as the reason of one family beside another that works.
    mutating func refresh(_ path: NetworkPath) {
        if path.kinds(since: last.current).isEmpty { last.current = path }
    }

    /// Returns the time that the scope was unsatisfied, the present outage included, suspensions excluded.
    func offlineTime(until now: BootInstant, suspended: Duration = .zero) -> Duration {
        guard beginning.current.status == .unsatisfied else { return endedOutages }
        let awake = beginning.at.duration(to: now).saturatingSubtract(suspended.saturatingSubtract(suspendedBefore))
        return endedOutages.saturatingAdd(max(.zero, awake))
    }

    /// The present state, for a reader that knows no earlier one.
    var baseline: Transition {
        var baseline = last
        baseline.previous = nil
        baseline.kinds = []
        // Only a baseline that is unknown has a cause (docs/json.md).
        if last.current.status != .unknown { baseline.cause = Cause(.started, "") }
        return baseline
    }
}

/// The numbers of a service's events, the last of them for readers that come back, and the state of each scope.
///
/// Pure. An event is the text of one server-sent event (HTML Living Standard §9.2). Its id is the name of the run and the number of
/// the event: a number of another run means nothing here.
struct EventLog {
    /// The number of events that are kept.
    static let capacity = 256

    private let scopes: [Scope]
    private let run: String
    private var states: [ScopeRecord?]
    private var recent: [String] = []
    /// The number of events so far.
    private(set) var count: UInt64 = 0

    /// - Parameter run: The name of this run, without a hyphen.
    init(_ scopes: [Scope], run: String) {
        (self.scopes, self.run) = (scopes, run)
        states = scopes.map { _ in nil }
    }

    /// The states of the scopes that have a baseline.
    var records: [ScopeRecord] { states.compactMap(\.self) }

    /// True once every scope has a baseline.
    var isComplete: Bool { !states.contains { $0 == nil } }

    /// Adds a transition of the scope at an index; returns its event.
    ///
    /// - Parameter suspended: The time since boot in which the machine was suspended.
    mutating func append(_ transition: Transition, ofScopeAt index: Int, suspended: Duration = .zero) -> String {
        count += 1
        if states[index]?.update(transition, suspended: suspended) == nil {
            states[index] = ScopeRecord(scopes[index], transition, suspended: suspended)
        }
        let event = Self.event(transition, of: scopes[index], id: id)
        recent.append(event)
        if recent.count > Self.capacity { recent.removeFirst() }
        return event
    }

    /// Takes over what changed without transitions; the paths are in the order of the scopes.
    mutating func refresh(_ paths: [NetworkPath]) {
        for (index, path) in zip(states.indices, paths) { states[index]?.refresh(path) }
    }

    /// Returns the first events for a reader: those after the last one that it has, or else the present state of every scope.
    ///
    /// - Parameter lastID: The reader's `Last-Event-ID`.
    func greeting(after lastID: String?) -> [String] {
        if let missed = lastID.flatMap(events) { return missed }
        let known = records
        return known.enumerated().map { place, record in
            // With the last one the reader has them all.
            Self.event(record.baseline, of: record.scope, id: place == known.count - 1 ? id : nil)
        }
    }

    /// Returns the events after one of this run; `nil` if it is unknown, or some of them are gone.
    private func events(after id: String) -> [String]? {
        let parts = id.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == run, let number = UInt64(parts[1]), number <= count, count - number <= recent.count
        else { return nil }
        return recent.suffix(Int(count - number))
    }

    private var id: String { "\(run)-\(count)" }

    private static func event(_ transition: Transition, of scope: Scope, id: String?) -> String {
        let name = transition.isBaseline ? "baseline" : "transition"
        return text(name, .transition(transition, of: scope), id: id)
    }

    /// Returns the text of an event; JSON has no line breaks.
    static func text(_ name: String, _ data: JSONValue, id: String? = nil) -> String {
        "\(id.map { "id: \($0)\n" } ?? "")event: \(name)\ndata: \(data)\n\n"
    }
}

/// Sends the events of a service to its readers.
///
/// Each reader has a bounded buffer. A reader that is too slow for it is cut off: it comes back with the id of the last event that
/// it has, and gets the rest. So no reader delays another one, and none misses an event unnoticed.
actor EventFeed {
    /// The number of events that wait for a slow reader.
    static let bufferedEvents = 64

    private struct Reader {
        var continuation: AsyncStream<String>.Continuation
        var departure: Departure
        var cut: @Sendable () -> Void
    }

    /// The end of a reader's stream, from its side.
    private final class Departure: Sendable {
        let hasLeft = Atomic(false)
    }

    private var log: EventLog
    private let maxReaders: Int
    private var readers: [Int: Reader] = [:]
    private var nextReader = 0
    private var hints = 0
    private var hasEnded = false
    /// The number of readers that were cut off because they were too slow.
    private(set) var cutReaders = 0

    init(_ log: EventLog, maxReaders: Int = 256) { (self.log, self.maxReaders) = (log, maxReaders) }

    /// The states of the scopes that have a baseline.
    var records: [ScopeRecord] { log.records }
    /// The number of readers.
    var readerCount: Int {
        forgetReadersThatLeft()
        return readers.count
    }
    /// A number that changes with each event and hint.
    var version: UInt64 { log.count &+ UInt64(hints) }

    /// Sends a transition; returns true if with it every scope has a baseline.
    func publish(_ transition: Transition, ofScopeAt index: Int, suspended: Duration = .zero) -> Bool {
        let wasComplete = log.isComplete
        send(log.append(transition, ofScopeAt: index, suspended: suspended))
        return log.isComplete && !wasComplete
    }

    /// Takes over what changed without transitions; the paths are in the order of the scopes.
    func refresh(_ paths: [NetworkPath]) { log.refresh(paths) }

    /// Sends a hint without an id: something else than a path may have changed.
    func hint(_ name: String, _ data: JSONValue = .object([])) {
        hints += 1
        send(EventLog.text(name, data))
    }

    /// Adds a reader; `nil` if there are too many.
    ///
    /// - Parameters:
    ///   - lastID: The id of the last event that it has.
    ///   - cut: Closes its connection, because it is too slow; must not block.
    func open(after lastID: String?, cut: @escaping @Sendable () -> Void) -> AsyncStream<String>? {
        guard readerCount < maxReaders, !hasEnded else { return nil }
        // A greeting may be longer than the buffer.
        let greeting = "retry: 1000\n\n" + log.greeting(after: lastID).joined()
        let (stream, continuation) = AsyncStream.makeStream(
            of: String.self, bufferingPolicy: .bufferingOldest(Self.bufferedEvents))
        nextReader += 1
        let departure = Departure()
        readers[nextReader] = Reader(continuation: continuation, departure: departure, cut: cut)
        continuation.onTermination = { _ in departure.hasLeft.store(true, ordering: .releasing) }
        continuation.yield(greeting)
        return stream
    }

    /// Ends all streams.
    func end() {
        hasEnded = true
        for reader in readers.values { reader.continuation.finish() }
        readers = [:]
    }

    private func forgetReadersThatLeft() {
        readers = readers.filter { !$0.value.departure.hasLeft.load(ordering: .acquiring) }
    }

    private func send(_ event: String) {
        forgetReadersThatLeft()
        for (number, reader) in readers {
            guard case .dropped = reader.continuation.yield(event) else { continue }
            readers[number] = nil
            cutReaders += 1
            reader.continuation.finish()
            reader.cut()
        }
    }
}
