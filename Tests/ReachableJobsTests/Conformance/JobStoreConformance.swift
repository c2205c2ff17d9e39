import ReachableJobs
import Testing

/// Checks a store against the requirements of `JobStore`, each on a new ``Candidate``.
enum JobStoreConformance {
    /// A store to check, and the means to act on its surroundings.
    struct Candidate: Sendable {
        /// The store, which has no jobs and no workers.
        var store: any JobStore
        /// Another object for the same jobs, as another process has it.
        var peer: any JobStore
        /// Lets the store's time pass.
        var passTime: @Sendable (Duration) async throws -> Void
        /// Ends the process of a worker while the machine stays up; without it crashes are not checked.
        var crash: (@Sendable (WorkerID) async throws -> Void)?
        /// Restarts the machine, which ends all workers; without it reboots are not checked.
        var reboot: (@Sendable () async throws -> Void)?
    }

    static func check(_ makeCandidate: () async throws -> Candidate) async throws {
        for (requirement, check) in StoreSession.checks {
            do {
                try await check(StoreSession(candidate: try await makeCandidate()))()
            } catch {
                Issue.record(error, "\(requirement)")
            }
        }
    }
}

extension StoreSession {
    fileprivate static let checks: KeyValuePairs<String, @Sendable (StoreSession) -> @Sendable () async throws -> Void> = [
        "receipts": checkReceipts, "properties": checkProperties, "atomicPush": checkAtomicPush, "queueLimit": checkQueueLimit,
        "repeatedPush": checkRepeatedPush, "order": checkOrder, "lanes": checkLanes, "closedLanes": checkClosedLanes,
        "limits": checkLimits, "exclusiveClaims": checkExclusiveClaims, "ageing": checkAgeing, "pausing": checkPausing,
        "delays": checkDelays, "edges": checkEdges, "nodes": checkNodes, "destinationHolds": checkDestinationHolds,
        "endedBackoff": checkEndedBackoff, "deadlines": checkDeadlines, "serialOrder": checkSerialOrder,
        "serialFailures": checkSerialFailures, "serialCancellation": checkSerialCancellation, "serialRetries": checkSerialRetries,
        "uniqueKeep": checkUniqueKeep, "uniqueReplace": checkUniqueReplace, "uniqueSuccessors": checkUniqueSuccessors,
        "uniqueAppend": checkUniqueAppend, "unwantedHolders": checkUnwantedHolders, "uniqueRetries": checkUniqueRetries,
        "bytes": checkBytes, "uniqueBatches": checkUniqueBatches, "fencing": checkFencing, "starts": checkStarts,
        "results": checkResults, "givingBack": checkGivingBack, "leases": checkLeases, "heartbeats": checkHeartbeats,
        "unregistering": checkUnregistering, "crashes": checkCrashes, "reboots": checkReboots, "listedWorkers": checkListedWorkers,
        "cancellation": checkCancellation, "cancellationRequests": checkCancellationRequests, "retries": checkRetries,
        "searches": checkSearches, "explanations": checkExplanations, "explainedBlockers": checkExplainedBlockers,
        "counts": checkCounts, "pruning": checkPruning, "pruningHeads": checkPruningHeads, "pruningLanes": checkPruningLanes,
        "hints": checkHints,
    ]
}
