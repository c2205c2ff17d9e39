public import Reachability

/// A job that has not ended, with the reason why it is not running.
///
/// ``reason`` is the reason as text; the other properties are its numbers.
public struct PendingJob: Sendable, Identifiable {
    /// The state of a job.
    ///
    /// More may be added.
    public struct State: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Creates a state from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Waits for ``PendingJob/unmet``.
        public static let waiting = State(rawValue: "waiting")
        /// Waits for its turn, because of ``ReleasePolicy`` or ``RetryBus/Configuration/maxConcurrent``.
        public static let queued = State(rawValue: "queued")
        /// Waits for ``RetryBus/resume(_:)``.
        public static let paused = State(rawValue: "paused")
        /// Waits after a failure, for ``PendingJob/softDelay`` and ``PendingJob/hardDelay``.
        public static let backingOff = State(rawValue: "backingOff")
        /// An attempt is running.
        public static let running = State(rawValue: "running")
    }

    /// The job's name.
    public var id: JobID
    /// The state.
    public var state: State
    /// The scope to reach.
    public var scope: Scope
    /// The server or resource that it uses, if the caller named it.
    public var destination: String?
    /// The priority.
    public var priority: JobPriority
    /// The names of the unmet conditions; a scope is named by its description.
    public var unmet: [String]
    /// The backoff that is left; a reconnect or ``RetryBus/retryNow(_:ignoringServerDelays:)`` ends it early.
    ///
    /// `nil` if there is none.
    public var softDelay: Duration?
    /// The rest of the delay that a server ordered; a reconnect does not end it.
    ///
    /// `nil` if there is none.
    public var hardDelay: Duration?
    /// The time left until ``RetryPolicy/giveUpAfter(elapsed:)`` ends the job; `nil` if there is no deadline.
    public var timeLeft: Duration?
    /// The number of started attempts, the running one included.
    public var attempts: Int
    /// The number of charged attempts.
    public var charged: Int
    /// The number of attempts that the network broke.
    public var networkFailures: Int
    /// The error of the last failed attempt; `nil` if none has failed.
    public var lastError: (any Error)?

    /// True if the scope is unmet.
    ///
    /// `missing` is the missing layer as text.
    var isScopeUnmet = false
    var missing: String?
    /// The reason why it is queued, and its duration if known.
    var queueReason: QueueReason?
    var queueDelay: Duration?
    /// The functions that return the system error numbers of its errors.
    var errnoReaders: [@Sendable (any Error) -> Int32?] = []
}

extension PendingJob: CustomStringConvertible {
    /// The reason why the job is not running, as text: `waits for the network: eth0 has no carrier (noCarrier)`.
    ///
    /// Taken when ``RetryBus/pending`` was read. It may contain the last error's description and the caller's names of conditions
    /// and destination. The wording may change with any release.
    public var reason: String {
        switch state {
        case .running: "attempt \(attempts) is running"
        case .paused: "paused until it is resumed, or its reader asks for what comes next"
        case .waiting: WaitWords.waits(for: needs)
        case .queued: queueWords
        default: delays
        }
    }

    /// The job's name and its ``reason``.
    public var description: String { "\(id): \(reason)" }

    /// The target as text.
    private var target: String { WaitWords.target(scope, destination) }

    private var needs: [String] {
        let network = isScopeUnmet ? [WaitWords.network(scope, missing: missing)] : []
        return network + unmet.dropFirst(network.count).map(WaitWords.condition)
    }

    private var queueWords: String {
        let time = queueDelay?.words
        // Without a time its end has come.
        let wait = time.map { "waits \($0)" } ?? "waits"
        switch queueReason {
        case .canary: return "waits for its turn: another job tries \(target) first"
        case .full(let count): return "waits for its turn: \(Self.attempts(count)) to \(target)"
        case .crowded(let count): return "waits for its turn: \(Self.attempts(count)), as many as the bus allows"
        case .failed: return "\(wait) for the next try of \(target): others have failed"
        case .throttled(let id): return WaitWords.hold(queueDelay, target, answering: id.map { "\($0)" })
        case .destinationFull(let count):
            return "waits for its turn: \(Self.attempts(count)) to \(target), as many as may at a time"
        case .unsteady:
            let (most, span, calm) = (Steadiness.mostEdges, Steadiness.span.words, Steadiness.calm.words)
            return "waits for the network to last \(calm): it changed more than \(most) times in \(span)"
        case .spread: return "\(wait) so that not all machines come back together"
        case .pace: return "waits for its turn: the pace allows the next start in \(time ?? "a moment")"
        case nil: return "waits for its turn"
        }
    }

    private var delays: String {
        let serverDelay = hardDelay.map(WaitWords.serverDelay)
        // Before the first attempt a hard delay is its owner's.
        if attempts == 0, let hardDelay { return WaitWords.due(in: hardDelay) }
        guard let softDelay, softDelay > hardDelay ?? .zero else { return serverDelay ?? WaitWords.isDue }
        return [WaitWords.backoff(softDelay, after: after), serverDelay].compactMap(\.self).joined(separator: ", and ")
    }

    /// The failure before the backoff, as text.
    private var after: String {
        guard let lastError else { return "" }
        if lastError as? RetryError == .attemptTimedOut { return " after an attempt that took too long" }
        var classification = Classification()
        classification.errnoReaders = errnoReaders
        switch classification.report(lastError).evidence {
        case .unreachable: return " after an unreachable network"
        case .unanswered: return " after a host that could not be reached"
        case .timedOut: return " after a connection that timed out"
        case .noNameServer: return " after a name lookup without an answer"
        case .refused: return " after a refused connection"
        case .noSourceAddress, .shortage, .classified, .unclassified: return " after the error \(lastError)"
        }
    }

    private static func attempts(_ count: Int) -> String { count == 1 ? "1 attempt runs" : "\(count) attempts run" }
}
