import ReachabilityTesting
import Synchronization

@testable import ReachableJobs

/// The stores that break the requirements of attempts, workers and management.
extension BrokenStore {
    static let attempts = [
        BrokenStore(.fencing, "accepts old numbers") { warped in
            let newest = Mutex<[DurableJobID: JobTicket]>([:])
            var copy = warped.changingClaims { claims in
                newest.withLock { for claimed in claims.jobs { $0[claimed.job.id] = claimed.ticket } }
            }
            copy.finishing = { (results, worker) throws(JobStoreError) in
                let renewed = results.map { result in
                    var result = result
                    result.ticket = newest.withLock { $0[result.ticket.id] } ?? result.ticket
                    return result
                }
                return try await warped.finish(renewed, by: worker)
            }
            return copy
        },
        BrokenStore(.fencing, "numbers do not grow") { warped in
            let numbers = Mutex<[JobTicket: JobTicket]>([:])
            var copy = warped.changingClaims { claims in
                for index in claims.jobs.indices {
                    let real = claims.jobs[index].ticket
                    claims.jobs[index].claim = 1_000_000 - claims.jobs[index].claim
                    numbers.withLock { $0[claims.jobs[index].ticket] = real }
                }
            }
            let real = { @Sendable (ticket: JobTicket) in numbers.withLock { $0[ticket] } ?? ticket }
            copy.starting = { (tickets, worker) throws(JobStoreError) in try await warped.start(tickets.map(real), by: worker) }
            copy.givingBack = { (tickets, worker) throws(JobStoreError) in
                try await warped.giveBack(tickets.map(real), by: worker)
            }
            return copy
        },
        BrokenStore(.starts, "every attempt may start") { warped in
            var copy = warped
            copy.starting = { (tickets, worker) throws(JobStoreError) in
                try await warped.start(tickets, by: worker).map { _ in true }
            }
            return copy
        },
        BrokenStore(.results, "forgets the counters") { $0.changingResults { $0.counters = .init() } },
        BrokenStore(.results, "forgets the error") { $0.changingResults { $0.error = nil } },
        BrokenStore(.givingBack, "gives back with a backoff") { warped in
            var copy = warped
            copy.givingBack = { (tickets, worker) throws(JobStoreError) in
                let outcome = AttemptResult.Outcome.again(soft: .seconds(1), isNetwork: false, hard: nil)
                return try await warped.finish(tickets.map { AttemptResult($0, outcome, counters: .init()) }, by: worker)
            }
            return copy
        },
    ]

    static let workers = [
        BrokenStore(.leases, "leases never end") { warped in
            let known = Mutex<Set<WorkerID>>([])
            var copy = warped
            copy.extending = { (worker) throws(JobStoreError) in
                for id in known.withLock(\.self) where id != worker { _ = try? await warped.extend(id) }
                return try await warped.extend(worker)
            }
            return copy.changingRequests({ request in known.withLock { _ = $0.insert(request.worker) } })
        },
        BrokenStore(.heartbeats, "does not hear heartbeats") { warped in
            var copy = warped
            copy.extending = { (_) throws(JobStoreError) in WorkerStatus(cancelled: []) }
            return copy
        },
        BrokenStore(.unregistering, "takes it for a crash") { warped in
            var copy = warped
            copy.unregistering = { (worker) throws(JobStoreError) in warped.store.crash(worker) }
            return copy
        },
        BrokenStore(.unregistering, "keeps the claims") { warped in
            var copy = warped
            copy.unregistering = { (_) throws(JobStoreError) in }
            return copy
        },
        BrokenStore(.crashes, "results overwrite crashes") { warped in
            warped.changingClaims { claims in for index in claims.jobs.indices { claims.jobs[index].job.counters.crashes = 0 } }
        },
        BrokenStore(.crashes, "knows the outcome of a crashed attempt") { warped in
            warped.changingClaims { claims in for index in claims.jobs.indices { claims.jobs[index].job.hasUnknownOutcome = false }
            }
        },
        BrokenStore(.unregistering, "does not know the outcome of what was given back") { warped in
            warped.changingClaims { claims in for index in claims.jobs.indices { claims.jobs[index].job.hasUnknownOutcome = true } }
        },
        BrokenStore(.listedWorkers, "lists the workers of all queues") { warped in
            var copy = warped
            copy.listing = { (_) throws(JobStoreError) in try await warped.workers(of: nil) }
            return copy
        },
        BrokenStore(.listedWorkers, "the last one first") { warped in
            var copy = warped
            copy.listing = { (queue) throws(JobStoreError) in try await warped.workers(of: queue).reversed() }
            return copy
        },
        BrokenStore(.listedWorkers, "lists workers whose lease has ended") { warped in
            let known = Mutex<[WorkerID: RegisteredWorker]>([:])
            var copy = warped
            copy.unregistering = { (worker) throws(JobStoreError) in
                try await warped.unregister(worker)
                _ = known.withLock { $0.removeValue(forKey: worker) }
            }
            copy.listing = { (queue) throws(JobStoreError) in
                let found = try await warped.workers(of: queue)
                return known.withLock { known in
                    for worker in found { known[worker.id] = worker }
                    return known.values.filter { queue == nil || $0.queue == queue }.sorted { $0.id.rawValue < $1.id.rawValue }
                }
            }
            return copy
        },
        BrokenStore(.listedWorkers, "a node for all") { $0.changingListed { $0.node = "node" } },
        BrokenStore(.listedWorkers, "counts no claims") { $0.changingListed { $0.claims = 0 } },
        BrokenStore(.listedWorkers, "always heard a moment ago") { $0.changingListed { $0.sinceHeartbeat = .zero } },
        BrokenStore(.listedWorkers, "hears the registration only") { warped in
            warped.changingListed { $0.sinceHeartbeat = max($0.sinceHeartbeat, .seconds(20)) }
        },
    ]

    static let management = [
        BrokenStore(.cancellation, "knows every job") { warped in
            var copy = warped
            copy.cancelling = { (ids) throws(JobStoreError) in
                try await warped.cancel(ids).map { $0 == .unknown ? .ended : $0 }
            }
            return copy
        },
        BrokenStore(.cancellationRequests, "does not tell the worker") { warped in
            var copy = warped
            copy.extending = { (worker) throws(JobStoreError) in
                _ = try await warped.extend(worker)
                return WorkerStatus(cancelled: [])
            }
            return copy
        },
        BrokenStore(.cancellationRequests, "forgets requests") { warped in
            var copy = warped
            copy.cancelling = { (ids) throws(JobStoreError) in
                var outcomes: [CancelOutcome] = []
                for id in ids {
                    let isRunning = try await warped.job(id)?.state == .running
                    outcomes += isRunning ? [.requested] : try await warped.cancel([id])
                }
                return outcomes
            }
            return copy
        },
        BrokenStore(.cancellationRequests, "ends silently") { warped in
            var copy = warped
            copy.finishing = { (results, worker) throws(JobStoreError) in
                try await warped.finish(results, by: worker).map { $0 == .cancelled ? .recorded : $0 }
            }
            return copy
        },
        BrokenStore(.cancellationRequests, "gives back silently") { warped in
            var copy = warped
            copy.givingBack = { (tickets, worker) throws(JobStoreError) in
                try await warped.giveBack(tickets, by: worker).map { $0 == .cancelled ? .recorded : $0 }
            }
            return copy
        },
        BrokenStore(.fencing, "accepts what was given back") { warped in
            var copy = warped
            copy.givingBack = { (tickets, worker) throws(JobStoreError) in
                try await warped.giveBack(tickets, by: worker).map { $0 == .refused ? .recorded : $0 }
            }
            return copy
        },
        BrokenStore(.retries, "says yes to all") { warped in
            var copy = warped
            copy.retrying = { (ids, limit) throws(JobStoreError) in
                try await warped.retry(ids, limit: limit).map { _ in .retried }
            }
            return copy
        },
        BrokenStore(.retries, "has no limit") { warped in
            var copy = warped
            copy.retrying = { (ids, _) throws(JobStoreError) in try await warped.retry(ids, limit: nil) }
            return copy
        },
        BrokenStore(.endedBackoff, "only says so") { warped in
            var copy = warped
            copy.hurrying = { (ids) in ids.map { _ in true } }
            return copy
        },
        BrokenStore(.endedBackoff, "runs failed jobs again instead") { warped in
            var copy = warped
            copy.hurrying = { (ids) throws(JobStoreError) in try await warped.retry(ids, limit: nil).map { $0 == .retried } }
            return copy
        },
        BrokenStore(.searches, "does not know where to begin") { warped in
            var copy = warped
            copy.finding = { (filter) throws(JobStoreError) in
                var filter = filter
                filter.after = nil
                return try await warped.find(filter)
            }
            return copy
        },
        BrokenStore(.searches, "newest first") { warped in
            var copy = warped
            copy.finding = { (filter) throws(JobStoreError) in try await warped.find(filter).reversed() }
            return copy
        },
        BrokenStore(.counts, "one destination for all") { warped in
            var copy = warped
            copy.counting = { (queue) throws(JobStoreError) in
                try await warped.count(queue: queue).map { count in
                    var count = count
                    count.destination = nil
                    return count
                }
            }
            return copy
        },
        BrokenStore(.pruning, "ignores the limit") { warped in
            var copy = warped
            copy.pruning = { (retention, _) throws(JobStoreError) in try await warped.prune(retention, limit: .max) }
            return copy
        },
        BrokenStore(.pruning, "too early") { warped in
            var copy = warped
            copy.pruning = { (retention, limit) throws(JobStoreError) in
                let half = Retention(succeeded: retention.succeeded / 2, failed: retention.failed / 2)
                return try await warped.prune(half, limit: limit)
            }
            return copy
        },
        BrokenStore(.pruningHeads, "deletes failed heads") { warped in
            var copy = warped
            copy.pruning = { (retention, limit) throws(JobStoreError) in
                let failed = try await warped.find(JobFilter()).filter { $0.state == .failed && $0.serialKey == "a" }
                _ = try await warped.cancel(failed.map(\.id))
                let none = Retention(succeeded: retention.succeeded, failed: .zero)
                return try await warped.prune(none, limit: limit)
            }
            return copy
        },
        BrokenStore(.pruningLanes, "keeps lanes") { warped in
            let known = Mutex<[Lane.ID: Lane]>([:])
            return warped.changingClaims { claims in
                claims.newLanes = known.withLock { known in
                    for lane in claims.newLanes { known[lane.id] = lane }
                    return known.values.sorted { $0.id < $1.id }
                }
            }
        },
        BrokenStore(.pruningLanes, "deletes lanes of held destinations") { warped in
            warped.changingClaims { $0.newLanes.removeAll { $0.destination == "held" } }
        },
        BrokenStore(.pruningLanes, "does not tell of deleted lanes") { $0.changingClaims { $0.goneLanes = [] } },
        BrokenStore(.hints, "gives no hint") { warped in
            var copy = warped
            copy.hinting = { AsyncStream { _ in } }
            return copy
        },
        BrokenStore(.hints, "one stream for all") { warped in
            let first = Mutex(true)
            var copy = warped
            copy.hinting = {
                let isFirst = first.withLock { first in
                    defer { first = false }
                    return first
                }
                return isFirst ? warped.changes() : AsyncStream { _ in }
            }
            return copy
        },
    ]
}
