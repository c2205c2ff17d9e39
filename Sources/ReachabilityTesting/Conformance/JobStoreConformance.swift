package import ReachableJobs

/// A suite that checks a custom `JobStore` against the requirements of the protocol.
///
/// It needs no testing library. It checks each requirement on a new ``Candidate``:
///
/// ```swift
/// @Test func myStoreMeetsTheRequirements() async throws {
///     let conformance = JobStoreConformance {
///         let clock = ManualClock()
///         return .init(try MyStore(clock: clock), passTime: { clock.advance(by: $0) })
///     }
///     try await conformance.check()
/// }
/// ```
///
/// It reports each violation as a text, and an error that a store throws as a violation, too. The suite waits for hints no longer
/// than its patience; it waits for all other answers as long as they take. Safe to use from any thread.
package struct JobStoreConformance: Sendable {
    /// A violated requirement.
    package typealias Violation = ConformanceViolation<Requirement>
    /// The error of ``check()``: all violations.
    package typealias Failure = ConformanceFailure<Requirement>

    /// A store to check, and the means to act on its surroundings.
    package struct Candidate: Sendable {
        /// The store, which has no jobs and no workers.
        package var store: any JobStore
        /// Another object for the same jobs, as another process has it.
        package var peer: any JobStore
        /// Lets the store's time pass; without it the suite does not check the requirements of time.
        package var passTime: (@Sendable (Duration) async throws -> Void)?
        /// Ends the process of a worker while the machine stays up; without it ``Requirement/crashes`` is not checked.
        package var crash: (@Sendable (WorkerID) async throws -> Void)?
        /// Restarts the machine, which ends all workers; without it ``Requirement/reboots`` is not checked.
        package var reboot: (@Sendable () async throws -> Void)?

        /// Makes a candidate.
        ///
        /// - Parameters:
        ///   - store: The store, which has no jobs and no workers.
        ///   - peer: Another object for the same jobs; the store itself by default.
        ///   - passTime: Lets the store's time pass.
        ///   - crash: Ends the process of a worker while the machine stays up.
        ///   - reboot: Restarts the machine. The store and its peer must stay usable.
        package init(
            _ store: some JobStore, peer: (any JobStore)? = nil, passTime: (@Sendable (Duration) async throws -> Void)? = nil,
            crash: (@Sendable (WorkerID) async throws -> Void)? = nil, reboot: (@Sendable () async throws -> Void)? = nil
        ) {
            self.store = store
            self.peer = peer ?? store
            (self.passTime, self.crash, self.reboot) = (passTime, crash, reboot)
        }
    }

    let exemptions: Set<Requirement>
    let patience: Duration
    let sleep: @Sendable (Duration) async throws -> Void
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - exemptions: The requirements that the store's documentation excludes.
    ///   - patience: The time limit for each expected hint. Only a broken store exhausts it.
    ///   - clock: The clock of the patience; real time by default, also for a store with its own clock.
    ///   - makeCandidate: Makes a new store; called once for each requirement.
    package init(
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
    /// - Throws: ``Failure`` if a requirement is violated; the errors of making a candidate or acting on its surroundings;
    ///   `CancellationError` when the calling task is cancelled.
    package func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// Returns the violations, at most one of each requirement, in the order of ``Requirement/all``.
    ///
    /// - Parameter requirements: The requirements to check.
    /// - Throws: The errors of making a candidate or acting on its surroundings; `CancellationError` when the calling task is
    ///   cancelled.
    package func violations(of requirements: Set<Requirement> = Set(Requirement.all)) async throws -> [Violation] {
        var found: [Violation] = []
        for (requirement, check) in StoreSession.checks
        where requirements.contains(requirement) && !exemptions.contains(requirement) {
            try Task.checkCancellation()
            let session = StoreSession(try await makeCandidate(), self)
            do {
                try await check(session)
            } catch let finding as StoreSession.Finding {
                found.append(Violation(requirement, finding.message))
            } catch let error as JobStoreError {
                found.append(Violation(requirement, "a call threw \(error.code.rawValue): \(error)"))
            } catch is StoreSession.MissingMeans {
                continue
            }
        }
        return found
    }
}
