import FoundationEssentials
import ReachabilityTesting
import ReachableJobs
import Synchronization

/// The stores that explain wrongly why jobs wait.
extension BrokenStore {
    static let explanations = [
        BrokenStore(.explanations, "shows payloads") { warped in
            var copy = warped
            copy.explaining = { (ids) throws(JobStoreError) in
                var explanations: [JobExplanation?] = []
                for var explanation in try await warped.explain(ids) {
                    if let id = explanation?.id, let job = try await warped.job(id) { explanation?.job = job }
                    explanations.append(explanation)
                }
                return explanations
            }
            return copy
        },
        BrokenStore(.explanations, "leaves out unknown jobs") { warped in
            var copy = warped
            copy.explaining = { (ids) throws(JobStoreError) in try await warped.explain(ids).filter { $0 != nil } }
            return copy
        },
        BrokenStore(.explanations, "by position") { warped in
            var copy = warped
            copy.explaining = { (ids) throws(JobStoreError) in
                try await warped.explain(ids).sorted { ($0?.job.position ?? 0) < ($1?.job.position ?? 0) }
            }
            return copy
        },
        BrokenStore(.explanations, "forgets the delays") { warped in
            warped.changingExplanations { $0.job.softDelay = nil }
        },
        BrokenStore(.explainedQueues, "never tells of a pause") { $0.changingExplanations { $0.isPaused = false } },
        BrokenStore(.explainedQueues, "counts the workers of all queues") { warped in
            let known = Mutex<Int>(0)
            return warped.changingExplanations { explanation in
                known.withLock { $0 = max($0, explanation.workers) }
                explanation.workers = known.withLock { $0 }
            }
        },
        BrokenStore(.explainedBlockers, "names no job") { $0.changingExplanations { $0.blockers = [] } },
        BrokenStore(.explainedBlockers, "says that all wait") { warped in
            warped.changingExplanations { explanation in
                for index in explanation.blockers.indices { explanation.blockers[index].state = .available }
            }
        },
        BrokenStore(.explainedBlockers, "only serial keys") { warped in
            warped.changingExplanations { $0.blockers.removeAll { $0.key == .unique } }
        },
        BrokenStore(.explainedHolds, "has no order") { $0.changingExplanations { $0.holdUntil = nil } },
        BrokenStore(.explainedHolds, "holds the kind only") { warped in
            warped.changingExplanations { if $0.job.kind == "other" { $0.holdUntil = nil } }
        },
        BrokenStore(.explainedHolds, "the order has no end") { warped in
            let first = Mutex<StoreInstant?>(nil)
            return warped.changingExplanations { explanation in
                guard explanation.job.destination == "x" else { return }
                if let until = explanation.holdUntil { first.withLock { $0 = until } }
                explanation.holdUntil = first.withLock { $0 }
            }
        },
        BrokenStore(.explainedClaims, "names no worker") { $0.changingExplanations { $0.worker = nil } },
        BrokenStore(.explainedClaims, "a claim is a start") { warped in
            warped.changingExplanations { $0.isStarted = $0.worker != nil }
        },
    ]
}
