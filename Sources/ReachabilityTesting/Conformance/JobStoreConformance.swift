package import ReachableJobs

/// A suite that checks a store against the requirements of `JobStore`, each on a new ``Candidate``.
///
/// It needs no testing library. It reports each violation as a text, and an error that a store throws as a violation, too. It waits
/// for hints no longer than its patience, and for all other answers as long as they take. Safe to use from any thread.
package struct JobStoreConformance: Sendable {
    /// A requirement of every store; its check in ``StoreSession`` says which.
    package enum Requirement: String, CaseIterable, Sendable {
        case receipts, properties, atomicPush, payloadLimit, queueLimit, repeatedPush
        case order, lanes, closedLanes, limits, exclusiveClaims, ageing, pausing
        case notBefore, softDelays, edges, nodes, hardDelays, destinationHolds, endedBackoff, deadlines
        case serialOrder, serialFailures, serialCancellation, serialRetries, uniqueKeep, uniqueReplace, uniqueSuccessors,
            uniqueAppend, unwantedHolders, uniqueRetries, bytes, uniqueBatches
        case fencing, starts, results, givingBack
        case leases, heartbeats, unregistering, crashes, reboots, listedWorkers
        case cancellation, cancellationRequests, retries, searches, explanations, explainedBlockers, counts
        case pruning, pruningHeads, pruningLanes, hints
    }

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
        /// Lets the store's time pass.
        package var passTime: @Sendable (Duration) async throws -> Void
        /// Ends the process of a worker while the machine stays up; without it ``Requirement/crashes`` is not checked.
        package var crash: (@Sendable (WorkerID) async throws -> Void)?
        /// Restarts the machine, which ends all workers; without it ``Requirement/reboots`` is not checked.
        package var reboot: (@Sendable () async throws -> Void)?

        /// Makes a candidate; the store is its own peer by default.
        package init(
            _ store: some JobStore, peer: (any JobStore)? = nil, passTime: @escaping @Sendable (Duration) async throws -> Void,
            crash: (@Sendable (WorkerID) async throws -> Void)? = nil, reboot: (@Sendable () async throws -> Void)? = nil
        ) {
            self.store = store
            self.peer = peer ?? store
            (self.passTime, self.crash, self.reboot) = (passTime, crash, reboot)
        }
    }

    let patience: Duration
    let makeCandidate: @Sendable () async throws -> Candidate

    /// Makes a suite.
    ///
    /// - Parameters:
    ///   - patience: The time limit for each expected hint, in real time. Only a broken store exhausts it.
    ///   - makeCandidate: Makes a new store; called once for each requirement.
    package init(
        patience: Duration = .seconds(600), makeCandidate: @escaping @Sendable () async throws -> Candidate
    ) {
        (self.patience, self.makeCandidate) = (patience, makeCandidate)
    }

    /// Checks all requirements.
    ///
    /// - Throws: ``Failure`` if a requirement is violated; the errors of making a candidate or acting on its surroundings;
    ///   `CancellationError` when the calling task is cancelled.
    package func check() async throws {
        let violations = try await violations()
        if !violations.isEmpty { throw Failure(violations) }
    }

    /// Returns the violations, at most one of each requirement; throws as ``check()`` does.
    package func violations(of requirements: [Requirement] = Requirement.allCases) async throws -> [Violation] {
        var found: [Violation] = []
        for requirement in requirements {
            try Task.checkCancellation()
            let session = StoreSession(try await makeCandidate(), patience)
            do {
                try await StoreSession.checks[requirement]?(session)()
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

extension StoreSession {
    /// The check of each requirement, on a candidate of its own.
    static let checks: [JobStoreConformance.Requirement: @Sendable (StoreSession) -> @Sendable () async throws -> Void] = [
        .receipts: checkReceipts, .properties: checkProperties, .atomicPush: checkAtomicPush, .payloadLimit: checkPayloadLimit,
        .queueLimit: checkQueueLimit, .repeatedPush: checkRepeatedPush, .order: checkOrder, .lanes: checkLanes,
        .closedLanes: checkClosedLanes, .limits: checkLimits, .exclusiveClaims: checkExclusiveClaims, .ageing: checkAgeing,
        .pausing: checkPausing, .notBefore: checkNotBefore, .softDelays: checkSoftDelays, .edges: checkEdges, .nodes: checkNodes,
        .hardDelays: checkHardDelays, .destinationHolds: checkDestinationHolds, .endedBackoff: checkEndedBackoff,
        .deadlines: checkDeadlines, .serialOrder: checkSerialOrder, .serialFailures: checkSerialFailures,
        .serialCancellation: checkSerialCancellation, .serialRetries: checkSerialRetries, .uniqueKeep: checkUniqueKeep,
        .uniqueReplace: checkUniqueReplace, .uniqueSuccessors: checkUniqueSuccessors, .uniqueAppend: checkUniqueAppend,
        .unwantedHolders: checkUnwantedHolders, .uniqueRetries: checkUniqueRetries, .bytes: checkBytes,
        .uniqueBatches: checkUniqueBatches, .fencing: checkFencing, .starts: checkStarts, .results: checkResults,
        .givingBack: checkGivingBack, .leases: checkLeases, .heartbeats: checkHeartbeats, .unregistering: checkUnregistering,
        .crashes: checkCrashes, .reboots: checkReboots, .listedWorkers: checkListedWorkers, .cancellation: checkCancellation,
        .cancellationRequests: checkCancellationRequests, .retries: checkRetries, .searches: checkSearches,
        .explanations: checkExplanations, .explainedBlockers: checkExplainedBlockers, .counts: checkCounts,
        .pruning: checkPruning, .pruningHeads: checkPruningHeads, .pruningLanes: checkPruningLanes, .hints: checkHints,
    ]
}
