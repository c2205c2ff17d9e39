public import Reachability

/// A suite that checks a custom `NetworkSource` against the requirements of the protocol.
///
/// It needs no testing library. It checks each requirement on a new ``Candidate``, which it runs, wakes, asks from many
/// threads, changes and cancels:
///
/// ```swift
/// @Test func mySourceMeetsTheRequirements() async throws {
///     let conformance = NetworkSourceConformance {
///         let network = MyNetwork()
///         return .init(network, changes: [{ try await network.dropDefaultRoute() }])
///     }
///     try await conformance.check()
/// }
/// ```
///
/// It reports each violation as a text; the suite itself never traps and never waits longer than its patience in one place. A
/// call that does not return cannot be cancelled: its task or thread stays behind. Safe to use from any thread.
public struct NetworkSourceConformance: Sendable {
    /// A violated requirement.
    public typealias Violation = ConformanceViolation<Requirement>
    /// The error of ``check()``: all violations.
    public typealias Failure = ConformanceFailure<Requirement>

    let exemptions: Set<Requirement>
    let patience: Duration
    let sleep: @Sendable (Duration) async throws -> Void
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - exemptions: The requirements that the source's documentation excludes, such as ``Requirement/pauses`` for a replay.
    ///   - patience: The time limit for each expected event. Only a broken source exhausts it.
    ///   - clock: The clock of the patience; real time by default, also for a source with its own clock.
    ///   - makeCandidate: Makes a new source that has never run; called about ten times, once for each session.
    public init(
        exempting exemptions: Set<Requirement> = [], patience: Duration = .seconds(60),
        clock: some Clock<Duration> = ContinuousClock(),
        makeCandidate: @escaping @Sendable () async throws -> Candidate
    ) {
        self.exemptions = exemptions
        self.patience = patience
        sleep = { try await clock.sleep(for: $0) }
        self.makeCandidate = makeCandidate
    }

    /// Checks all requirements.
    ///
    /// - Throws: ``Failure`` if a requirement is violated; the errors of making or changing a candidate; `CancellationError`
    ///   when the calling task is cancelled.
    public func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// Returns the violations, at most one of each requirement, in the order of ``Requirement/all``.
    ///
    /// - Parameter requirements: The requirements to check. Violations of others are not returned.
    /// - Throws: The errors of making or changing a candidate; `CancellationError` when the calling task is cancelled.
    public func violations(of requirements: Set<Requirement> = Set(Requirement.all)) async throws -> [Violation] {
        let wanted = requirements.subtracting(exemptions)
        var found: [Requirement: Violation] = [:]
        for session in Self.sessions where !session.requirements.isDisjoint(with: wanted) {
            try Task.checkCancellation()
            for violation in try await session.run(self) where wanted.contains(violation.requirement) {
                found[violation.requirement] = found[violation.requirement] ?? violation
            }
        }
        return Requirement.all.compactMap { found[$0] }
    }

    /// A part of the suite with the requirements that it can find violated.
    private struct Session: Sendable {
        var requirements: Set<Requirement>
        var run: @Sendable (NetworkSourceConformance) async throws -> [Violation]
    }

    /// The requirements that every session observes.
    private static let everywhere: Set<Requirement> = [.beginning, .serialDelivery, .time, .cancellation, .silenceAfterEnd]

    private static let sessions = [
        Session(requirements: everywhere) { try await $0.checkSerialDelivery() },
        Session(requirements: [.wakeUps]) { try await $0.checkWakeUps() },
        Session(requirements: [.pauses]) { try await $0.checkPauses() },
        Session(requirements: [.questions, .stability]) { try await $0.checkQuestions() },
        Session(requirements: [.results]) { try await $0.checkResults() },
        Session(requirements: [.refusals, .sources, .selection]) { try await $0.checkLookups() },
        Session(requirements: [.interruptions]) { try await $0.checkInterruptions() },
        Session(requirements: [.announcements]) { try await $0.checkAnnouncements() },
        Session(requirements: [.cancellation]) { try await $0.checkCancellationWithinDelivery() },
        Session(requirements: [.cancellation]) { try await $0.checkEarlyCancellation() },
        Session(requirements: [.silenceAfterEnd]) { try await $0.checkSilenceAfterEnd() },
    ]
}

extension NetworkSourceConformance {
    /// A requirement of every source.
    ///
    /// Later versions may add more.
    public struct Requirement: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a requirement from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// `run` delivers a first batch by itself.
        public static let beginning = Requirement(rawValue: "beginning")
        /// `deliver` is never called while another call is in progress, neither by another thread nor from within.
        public static let serialDelivery = Requirement(rawValue: "serialDelivery")
        /// The time of the batches never goes backwards.
        public static let time = Requirement(rawValue: "time")
        /// `wake()` leads to a batch, from any thread and at any time.
        public static let wakeUps = Requirement(rawValue: "wakeUps")
        /// A batch comes when the pause that `deliver` returned has passed; an empty batch does not come much earlier.
        public static let pauses = Requirement(rawValue: "pauses")
        /// `interfaces()` and `routes(to:)` answer on any thread at any time: before, during and after a run, and within
        /// `deliver`.
        public static let questions = Requirement(rawValue: "questions")
        /// `routes(to:)` returns one result for each query, in the order of the queries.
        public static let results = Requirement(rawValue: "results")
        /// A refusal is a verdict, not a failure: a query that every kernel refuses is answered.
        public static let refusals = Requirement(rawValue: "refusals")
        /// A route has the source of its query, and IPv4 refuses a source that no interface holds.
        public static let sources = Requirement(rawValue: "sources")
        /// `RouteQuery.Source.selected` is answered like connect(2), or fails with `permissionDenied`.
        public static let selection = Requirement(rawValue: "selection")
        /// An interrupted dump throws `interrupted` at once.
        public static let interruptions = Requirement(rawValue: "interruptions")
        /// The answers stay the same while nothing changes.
        public static let stability = Requirement(rawValue: "stability")
        /// A change is announced, and the answers show it from the batch that announces it.
        public static let announcements = Requirement(rawValue: "announcements")
        /// Cancellation ends `run` soon, with a `CancellationError`.
        public static let cancellation = Requirement(rawValue: "cancellation")
        /// `deliver` is not called after `run` has ended, and no call is in progress when `run` ends.
        public static let silenceAfterEnd = Requirement(rawValue: "silenceAfterEnd")

        /// All requirements.
        public static let all: [Requirement] = [
            .beginning, .serialDelivery, .time, .wakeUps, .pauses, .questions, .results, .refusals, .sources,
            .selection, .interruptions, .stability, .announcements, .cancellation, .silenceAfterEnd,
        ]
    }
}

extension NetworkSourceConformance {
    /// A source to check, and the means to change it.
    public struct Candidate: Sendable {
        /// The source, which has never run.
        public var source: any NetworkSource
        /// The queries to ask.
        public var queries: [RouteQuery]
        /// The pause that `deliver` requests.
        public var pause: Duration
        /// Lets the source's own time pass; `nil` if its time is real.
        public var passTime: (@Sendable (Duration) async throws -> Void)?
        /// The changes to make, one after the other.
        ///
        /// Each must show in the links, their addresses or the answers to ``queries``, and must last. The change has been made
        /// when the closure returns; its event may come before or after that.
        public var changes: [@Sendable () async throws -> Void]

        /// Interrupts the next dump, as a change of links or addresses would (NLM_F_DUMP_INTR, netlink(7)).
        ///
        /// Without it ``Requirement/interruptions`` is not checked.
        public var interruptNextDump: (@Sendable () -> Void)?

        /// Makes a candidate.
        ///
        /// - Parameters:
        ///   - source: The source, which must not have run before.
        ///   - queries: The queries to ask; by default one for a root name server of each family.
        ///   - pause: The pause that `deliver` requests. In real time it must be long compared with thread switches.
        ///   - passTime: Lets the source's own time pass; `nil` if its time is real.
        ///   - changes: Changes to the network; without any, the suite does not check announcements.
        ///   - interruptNextDump: Interrupts the next dump; without it the suite does not check interruptions.
        public init(
            _ source: some NetworkSource, queries: [RouteQuery] = Candidate.defaultQueries, pause: Duration = .milliseconds(100),
            passTime: (@Sendable (Duration) async throws -> Void)? = nil, changes: [@Sendable () async throws -> Void] = [],
            interruptNextDump: (@Sendable () -> Void)? = nil
        ) {
            self.source = source
            self.queries = queries
            self.pause = pause
            self.passTime = passTime
            self.changes = changes
            self.interruptNextDump = interruptNextDump
        }

        /// Routes to 198.41.0.4 and 2001:503:ba3e::2:30, a root name server of each family.
        public static let defaultQueries = [
            RouteQuery(to: IPAddress(family: .ipv4, value: 0xc629_0004)),
            RouteQuery(to: IPAddress(family: .ipv6, value: 0x2001_0503_ba3e << 80 | 0x2_0030)),
        ]
    }
}
