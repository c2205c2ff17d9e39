public import Reachability

/// A job that has not ended: the answer to "why is it not running".
///
/// ``reason`` says it in words, the rest in numbers.
public struct PendingJob: Sendable, Identifiable {
    /// What a job is doing.
    ///
    /// More may be added.
    public struct State: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a state from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Waits for ``PendingJob/unmet``.
        public static let waiting = State(rawValue: "waiting")
        /// Nothing is missing: it waits for its turn, as ``ReleasePolicy`` and ``RetryBus/Configuration/maxConcurrent`` have it.
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
    /// What it is doing.
    public var state: State
    /// What it wants to reach.
    public var scope: Scope
    /// The server or resource that it talks to, if the caller named it.
    public var destination: String?
    /// How it ranks.
    public var priority: JobPriority
    /// The names of the conditions that it waits for; the scope's is the scope's description.
    public var unmet: [String]
    /// How long it waits at most because of its own backoff, from now; a reconnect ends that early.
    ///
    /// `nil` if it does not. See ``RetryBus/retryNow(_:ignoringServerDelays:)``.
    public var softDelay: Duration?
    /// How long it waits at least because the server said so, from now; nothing ends that early.
    ///
    /// `nil` if nobody said so.
    public var hardDelay: Duration?
    /// How long it has until ``RetryPolicy/giveUpAfter(elapsed:)`` ends it, from now; `nil` if it may take any time.
    public var timeLeft: Duration?
    /// How many attempts have been started, the running one included.
    public var attempts: Int
    /// How many of them were charged.
    public var charged: Int
    /// How many of them the network broke off.
    public var networkFailures: Int
    /// Why the last attempt failed; `nil` if none has.
    public var lastError: (any Error)?

    /// Whether the scope is among what it waits for, and what is missing there, in words.
    var isScopeUnmet = false
    var missing: String?
    /// What keeps it in line, and for how long if that is known.
    var queueReason: QueueReason?
    var queueDelay: Duration?
    /// What numbers of the system its errors stand for.
    var errnoReaders: [@Sendable (any Error) -> Int32?] = []
}

extension PendingJob: CustomStringConvertible {
    /// Why the job is not running, in words for people: `waits for the network: eth0 has no carrier (noCarrier)`.
    ///
    /// As of the moment when ``RetryBus/pending`` was read. It may name the last error, as that describes itself, and the
    /// conditions and the destination, as the caller named them. What the words are may change with any release.
    public var reason: String {
        switch state {
        case .running: "attempt \(attempts) is running"
        case .paused: "paused until it is resumed, or its reader asks for what comes next"
        case .waiting: "waits for " + needs.joined(separator: ", and for ")
        case .queued: queueWords
        default: delays
        }
    }

    /// The job's name and the ``reason``.
    public var description: String { "\(id): \(reason)" }

    /// What it wants to reach, in words.
    private var target: String { destination ?? (scope == .internet ? "the internet" : "\(scope)") }

    private var needs: [String] {
        let what = scope == .internet ? "the network" : "a way to \(scope)"
        // The monitor misses nothing, and still the scope is unmet: a lookup has outrun it.
        let network = isScopeUnmet ? ["\(what): \(missing ?? "the kernel says that it is gone")"] : []
        return network + unmet.dropFirst(network.count).map { "condition '\($0)'" }
    }

    private var queueWords: String {
        let time = queueDelay?.words
        switch queueReason {
        case .canary: return "waits for its turn: another job tries \(target) first"
        case .full(let count): return "waits for its turn: \(Self.attempts(count)) to \(target)"
        case .crowded(let count): return "waits for its turn: \(Self.attempts(count)), as many as the bus allows"
        case .failed: return "waits \(time ?? "") for the next try of \(target): others have failed"
        case .throttled(let id):
            return "waits \(time ?? ""): \(target) wants to be left alone\(id.map { ", as it told \($0)" } ?? "")"
        case .destinationFull(let count):
            return "waits for its turn: \(Self.attempts(count)) to \(target), as many as may at a time"
        case .unsteady:
            let (most, span, calm) = (Steadiness.mostEdges, Steadiness.span.words, Steadiness.calm.words)
            return "waits for the network to last \(calm): it changed more than \(most) times in \(span)"
        case .spread: return "waits \(time ?? "") so that not all machines come back together"
        case .pace: return "waits for its turn: the pace allows the next start in \(time ?? "a moment")"
        case nil: return "waits for its turn"
        }
    }

    private var delays: String {
        let order = hardDelay.map { "told to wait \($0.words) by the server" }
        // Nobody has failed yet: a time that its owner set.
        if attempts == 0, let hardDelay { return "is due in \(hardDelay.words)" }
        guard let softDelay, softDelay > hardDelay ?? .zero else { return order ?? "its delay is being decided on" }
        return ["backs off for \(softDelay.words)\(after)", order].compactMap(\.self).joined(separator: ", and ")
    }

    /// What it backs off after.
    private var after: String {
        guard let lastError else { return "" }
        if lastError as? RetryError == .attemptTimedOut { return " after an attempt that took too long" }
        var classification = Classification()
        classification.errnoReaders = errnoReaders
        switch classification.report(lastError).evidence {
        case .unreachable: return " after an unreachable network"
        case .unanswered: return " after a host that could not be reached"
        case .timedOut: return " after a connection that timed out"
        case .nameless: return " after a name lookup without an answer"
        case .refused: return " after a refused connection"
        case .addressless, .shortage, .classified, .unclassified: return " after the error \(lastError)"
        }
    }

    private static func attempts(_ count: Int) -> String { count == 1 ? "1 attempt runs" : "\(count) attempts run" }
}

extension Duration {
    /// The duration for people: `250 ms`, `3.2 s`; rounded up, so that what is left is never nothing.
    var words: String {
        let (whole, rest) = attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000_000)
        let milliseconds = whole + (rest > 0 ? 1 : 0)
        guard milliseconds >= 1000 else { return "\(milliseconds) ms" }
        let tenths = milliseconds / 100 + (milliseconds % 100 > 0 ? 1 : 0)
        return tenths % 10 == 0 ? "\(tenths / 10) s" : "\(tenths / 10).\(tenths % 10) s"
    }
}
