/// Checks that a source keeps the promises of `NetworkSource`: for those who write one of their own.
///
/// It needs no testing library. Each promise is checked on a fresh ``Candidate``, which the suite runs, wakes, asks from many
/// threads, changes and cancels:
///
/// ```swift
/// @Test func mySourceKeepsItsPromises() async throws {
///     let conformance = NetworkSourceConformance {
///         let network = MyNetwork()
///         return .init(network, changes: [{ try await network.dropDefaultRoute() }])
///     }
///     try await conformance.check()
/// }
/// ```
///
/// A source that breaks a promise is told in words; the suite itself never traps and never waits longer than its patience at
/// one place. A call that does not return cannot be taken back: its task or thread stays behind. Safe to use from any thread.
public struct NetworkSourceConformance: Sendable {
    /// A promise that was broken.
    public struct Violation: Hashable, Sendable, CustomStringConvertible {
        /// Which one.
        public var promise: Promise
        /// What was seen.
        public var message: String

        /// Makes a finding.
        public init(_ promise: Promise, _ message: String) {
            self.promise = promise
            self.message = message
        }

        /// The promise's name and what was seen.
        public var description: String { "\(promise.rawValue): \(message)" }
    }

    /// What ``check()`` throws: all that was found.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The broken promises, at least one.
        public var violations: [Violation]

        /// Makes an error out of what was found.
        public init(_ violations: [Violation]) { self.violations = violations }

        /// One line for each.
        public var description: String {
            "the source breaks promises of NetworkSource:" + violations.map { "\n- \($0)" }.joined()
        }
    }

    let exemptions: Set<Promise>
    let patience: Duration
    let sleep: @Sendable (Duration) async throws -> Void
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - exemptions: promises that the source's documentation takes back, such as ``Promise/pauses`` for a replay.
    ///   - patience: how long something that must happen is waited for. Only a broken source needs it.
    ///   - clock: what measures the patience; real time by default, also for a source with a clock of its own.
    ///   - makeCandidate: makes a new source that has never run; called for each session, some ten times.
    public init(
        exempting exemptions: Set<Promise> = [], patience: Duration = .seconds(10), clock: some Clock<Duration> = ContinuousClock(),
        makeCandidate: @escaping @Sendable () async throws -> Candidate
    ) {
        self.exemptions = exemptions
        self.patience = patience
        sleep = { try await clock.sleep(for: $0) }
        self.makeCandidate = makeCandidate
    }

    /// Checks everything.
    ///
    /// - Throws: ``Failure`` if any promise is broken; what making or changing a candidate throws; `CancellationError` when the
    ///   calling task is cancelled.
    public func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// What is found, at most one violation of each promise, in the order of ``Promise/all``.
    ///
    /// - Parameter promises: which ones to check; others are checked only as far as it happens on the way, and not told.
    /// - Throws: what making or changing a candidate throws; `CancellationError` when the calling task is cancelled.
    public func violations(of promises: Set<Promise> = Set(Promise.all)) async throws -> [Violation] {
        let wanted = promises.subtracting(exemptions)
        var found: [Promise: Violation] = [:]
        for session in Self.sessions where !session.promises.isDisjoint(with: wanted) {
            try Task.checkCancellation()
            for violation in try await session.run(self) where wanted.contains(violation.promise) {
                found[violation.promise] = found[violation.promise] ?? violation
            }
        }
        return Promise.all.compactMap { found[$0] }
    }

    /// A part of the suite: what it can find, and how.
    private struct Session: Sendable {
        var promises: Set<Promise>
        var run: @Sendable (NetworkSourceConformance) async throws -> [Violation]
    }

    /// Seen in every session: whatever is done, these are watched.
    private static let everywhere: Set<Promise> = [.beginning, .serialDelivery, .time, .cancellation, .silenceAfterEnd]

    private static let sessions = [
        Session(promises: everywhere) { try await $0.checkCrowd() },
        Session(promises: [.wakeUps]) { try await $0.checkWakeUps() },
        Session(promises: [.pauses]) { try await $0.checkPauses() },
        Session(promises: [.questions, .stability]) { try await $0.checkQuestions() },
        Session(promises: [.announcements]) { try await $0.checkAnnouncements() },
        Session(promises: [.cancellation]) { try await $0.checkCancellationWithinDelivery() },
        Session(promises: [.cancellation]) { try await $0.checkEarlyCancellation() },
        Session(promises: [.silenceAfterEnd]) { try await $0.checkSilenceAfterEnd() },
    ]
}
