/// Checks that a source meets the requirements of `NetworkSource`: for those who write one of their own.
///
/// It needs no testing library. Each requirement is checked on a fresh ``Candidate``, which the suite runs, wakes, asks from many
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
/// A source that violates a requirement is told in words; the suite itself never traps and never waits longer than its patience at
/// one place. A call that does not return cannot be taken back: its task or thread stays behind. Safe to use from any thread.
public struct NetworkSourceConformance: Sendable {
    /// A violated requirement.
    public struct Violation: Hashable, Sendable, CustomStringConvertible {
        /// Which one.
        public var requirement: Requirement
        /// What was seen.
        public var message: String

        /// Makes a finding.
        public init(_ requirement: Requirement, _ message: String) {
            self.requirement = requirement
            self.message = message
        }

        /// The requirement's name and what was seen.
        public var description: String { "\(requirement.rawValue): \(message)" }
    }

    /// What ``check()`` throws: all that was found.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The violated requirements, at least one.
        public var violations: [Violation]

        /// Makes an error out of what was found.
        public init(_ violations: [Violation]) { self.violations = violations }

        /// One line for each.
        public var description: String {
            "the source violates requirements of NetworkSource:" + violations.map { "\n- \($0)" }.joined()
        }
    }

    let exemptions: Set<Requirement>
    let patience: Duration
    let sleep: @Sendable (Duration) async throws -> Void
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - exemptions: requirements that the source's documentation takes back, such as ``Requirement/pauses`` for a replay.
    ///   - patience: how long something that must happen is waited for. Only a broken source needs it.
    ///   - clock: what measures the patience; real time by default, also for a source with a clock of its own.
    ///   - makeCandidate: makes a new source that has never run; called for each session, some ten times.
    public init(
        exempting exemptions: Set<Requirement> = [], patience: Duration = .seconds(10),
        clock: some Clock<Duration> = ContinuousClock(),
        makeCandidate: @escaping @Sendable () async throws -> Candidate
    ) {
        self.exemptions = exemptions
        self.patience = patience
        sleep = { try await clock.sleep(for: $0) }
        self.makeCandidate = makeCandidate
    }

    /// Checks everything.
    ///
    /// - Throws: ``Failure`` if any requirement is violated; what making or changing a candidate throws; `CancellationError` when
    ///   the calling task is cancelled.
    public func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// What is found, at most one violation of each requirement, in the order of ``Requirement/all``.
    ///
    /// - Parameter requirements: which ones to check; others are checked only as far as it happens on the way, and not told.
    /// - Throws: what making or changing a candidate throws; `CancellationError` when the calling task is cancelled.
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

    /// A part of the suite: what it can find, and how.
    private struct Session: Sendable {
        var requirements: Set<Requirement>
        var run: @Sendable (NetworkSourceConformance) async throws -> [Violation]
    }

    /// Seen in every session: whatever is done, these are watched.
    private static let everywhere: Set<Requirement> = [.beginning, .serialDelivery, .time, .cancellation, .silenceAfterEnd]

    private static let sessions = [
        Session(requirements: everywhere) { try await $0.checkCrowd() },
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
