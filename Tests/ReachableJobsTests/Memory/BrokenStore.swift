import FoundationEssentials
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

@testable import ReachableJobs

/// A store that breaks one requirement.
struct BrokenStore: Sendable, CustomTestStringConvertible {
    let requirement: JobStoreConformance.Requirement
    let flaw: String
    let make: @Sendable (MemoryStore) -> WarpedStore

    init(
        _ requirement: JobStoreConformance.Requirement, _ flaw: String, _ warp: @escaping @Sendable (WarpedStore) -> WarpedStore
    ) {
        (self.requirement, self.flaw) = (requirement, flaw)
        make = { warp(WarpedStore($0)) }
    }

    var testDescription: String { "\(requirement.rawValue): \(flaw)" }

    static let all = pushing + claiming + delays + keys + attempts + workers + management + explanations

    private static let pushing = [
        BrokenStore(.receipts, "receipts in reverse") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in try await warped.push(jobs, limit: limit).reversed() }
            return copy
        },
        BrokenStore(.properties, "forgets the trace context") { $0.changingPushed { $0.traceContext = [:] } },
        BrokenStore(.properties, "text ends at a zero byte") { warped in
            warped.changingPushed { $0.serialKey = $0.serialKey.map { String($0.prefix { $0 != "\0" }) } }
        },
        BrokenStore(.atomicPush, "pushes one by one") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                var receipts: [PushReceipt] = []
                for job in jobs { receipts += try await warped.push([job], limit: limit) }
                return receipts
            }
            return copy
        },
        BrokenStore(.payloadLimit, "cuts large payloads") { $0.changingPushed { $0.payload = $0.payload.prefix(largestPayload) } },
        BrokenStore(.queueLimit, "has no limit") { warped in
            var copy = warped
            copy.pushing = { (jobs, _) throws(JobStoreError) in try await warped.push(jobs, limit: nil) }
            return copy
        },
        BrokenStore(.queueLimit, "a kept job needs room") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                let probes = jobs.map { job in
                    var job = job
                    (job.id, job.unique) = (DurableJobID(), nil)
                    return job
                }
                if limit != nil { _ = try await warped.cancel(try await warped.push(probes, limit: limit).map(\.id)) }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.repeatedPush, "adds a job twice") { warped in
            let seen = Mutex<Set<DurableJobID>>([])
            return warped.changingPushed { job in
                if !seen.withLock({ $0.insert(job.id).inserted }) { job.id = DurableJobID() }
            }
        },
    ]

    private static let claiming = [
        BrokenStore(.order, "only by position") { warped in
            warped.changingClaims { $0.jobs.sort { $0.job.position < $1.job.position } }
        },
        BrokenStore(.order, "only by priority and lane") { warped in
            warped.changingClaims { claims in
                claims.jobs.sort {
                    ($1.job.priority, $0.job.destination ?? "", $0.job.version)
                        < ($0.job.priority, $1.job.destination ?? "", $1.job.version)
                }
            }
        },
        BrokenStore(.lanes, "tells all lanes again") { $0.changingRequests({ $0.lastKnownLane = 0 }) },
        BrokenStore(.lanes, "one lane for all versions") { $0.changingPushed { $0.version = 1 } },
        BrokenStore(.closedLanes, "claims from all lanes") { $0.changingRequests({ $0.lanes = (1...20).map { .init(lane: $0) } }) },
        BrokenStore(.limits, "ignores the limits of lanes") { warped in
            warped.changingRequests({ request in for index in request.lanes.indices { request.lanes[index].limit = .max } })
        },
        BrokenStore(.limits, "never has more") { $0.changingClaims { $0.hasMore = false } },
        BrokenStore(.exclusiveClaims, "gives a job to two workers") { warped in
            let last = Mutex<[Claims.Claimed]>([])
            return warped.changingClaims { claims in
                let taken = claims.jobs
                claims.jobs += last.withLock { last in
                    defer { last = taken }
                    return last
                }
            }
        },
        BrokenStore(.ageing, "bulk jobs stay bulk jobs") { warped in
            warped.changingClaims { claims in
                claims.jobs.sort {
                    ($1.job.priority, $0.job.position) < ($0.job.priority, $1.job.position)
                }
            }
        },
        BrokenStore(.ageing, "a job ages by itself") { warped in
            warped.changingPushed { if $0.priority == .bulk, $0.delay != nil { $0.destination = "own" } }
        },
        BrokenStore(.pausing, "never pauses") { warped in
            var copy = warped
            copy.pausing = { (_, _) throws(JobStoreError) in }
            return copy
        },
        BrokenStore(.pausing, "pauses all queues") { warped in
            var copy = warped
            copy.pausing = { (isPaused, _) throws(JobStoreError) in
                for queue in ["mail", "other", "empty"] { try await warped.setPaused(isPaused, queue: queue) }
            }
            return copy
        },
    ]

    private static let delays = [
        BrokenStore(.notBefore, "starts at once") { $0.changingPushed { $0.delay = nil } },
        BrokenStore(.notBefore, "does not say when") { $0.changingClaims { $0.nextDue = nil } },
        BrokenStore(.softDelays, "has no backoff") { warped in
            warped.changingResults { result in
                if case .again(_, let isNetwork, let hard) = result.outcome {
                    result.outcome = .again(soft: .zero, isNetwork: isNetwork, hard: hard)
                }
            }
        },
        BrokenStore(.edges, "ignores edges") { warped in
            warped.changingRequests({ request in for index in request.lanes.indices { request.lanes[index].edge = .min } })
        },
        BrokenStore(.edges, "voids every backoff") { warped in
            warped.changingResults { result in
                if case .again(let soft, _, let hard) = result.outcome {
                    result.outcome = .again(soft: soft, isNetwork: true, hard: hard)
                }
            }
        },
        BrokenStore(.edges, "voids failures after the edge") { warped in
            warped.changingRequests({ request in
                for index in request.lanes.indices where request.lanes[index].edge != .min {
                    request.lanes[index].edge = .max
                }
            })
        },
        BrokenStore(.nodes, "binds every node") { warped in
            var copy = warped
            let store = warped.store
            copy.registering = { (queue, _) throws(JobStoreError) in try await store.register(queue: queue, node: "any") }
            return copy
        },
        BrokenStore(.nodes, "binds only the worker") { warped in
            var copy = warped
            let store = warped.store
            copy.registering = { (queue, _) throws(JobStoreError) in
                try await store.register(queue: queue, node: "\(DurableJobID())")
            }
            return copy
        },
        BrokenStore(.nodes, "other nodes wait for the whole backoff") { warped in
            warped.changingResults { result in
                if case .again(let soft, true, let hard) = result.outcome {
                    result.outcome = .again(soft: soft, isNetwork: false, hard: hard)
                }
            }
        },
        BrokenStore(.nodes, "a node whose network failed starts at once") { warped in
            warped.changingRequests({ request in for index in request.lanes.indices { request.lanes[index].edge = .max } })
        },
        BrokenStore(.hardDelays, "forgets the server's order") { warped in
            warped.changingResults { result in
                if case .again(let soft, let isNetwork, _) = result.outcome {
                    result.outcome = .again(soft: soft, isNetwork: isNetwork, hard: nil)
                }
            }
        },
        BrokenStore(.destinationHolds, "holds nothing") { $0.changingResults { $0.holdsDestination = nil } },
        BrokenStore(.destinationHolds, "holds only the kind") { warped in
            warped.changingPushed { if $0.kind == "other" { $0.destination = $0.destination.map { $0 + " " } } }
        },
        BrokenStore(.deadlines, "forgets deadlines") { warped in
            var copy = warped
            copy.expiring = { (_, _) throws(JobStoreError) in ExpiredJobs(jobs: [], next: nil, hasMore: false) }
            return copy
        },
        BrokenStore(.deadlines, "ends jobs at their deadline") { warped in
            var copy = warped
            copy.finding = { (filter) throws(JobStoreError) in
                let overdue = try await warped.find(JobFilter()).filter { $0.deadline.map { $0 <= warped.store.now } ?? false }
                _ = try await warped.cancel(overdue.map(\.id))
                return try await warped.find(filter)
            }
            return copy
        },
    ]

    private static let keys = [
        BrokenStore(.serialOrder, "ignores serial keys") { $0.changingPushed { $0.serialKey = nil } },
        BrokenStore(.serialOrder, "a key per kind") { warped in
            warped.changingPushed { job in job.serialKey = job.serialKey.map { $0 + job.kind } }
        },
        BrokenStore(.serialFailures, "all continue after failure") { $0.changingPushed { $0.continuesAfterFailure = true } },
        BrokenStore(.serialFailures, "none continues after failure") { $0.changingPushed { $0.continuesAfterFailure = false } },
        BrokenStore(.serialCancellation, "keeps failed jobs") { warped in
            var copy = warped
            copy.cancelling = { (ids) throws(JobStoreError) in
                var outcomes: [CancelOutcome] = []
                for id in ids {
                    let isFailed = try await warped.job(id)?.state == .failed
                    outcomes += isFailed ? [.ended] : try await warped.cancel([id])
                }
                return outcomes
            }
            return copy
        },
        BrokenStore(.serialRetries, "retries behind the others") { warped in
            var copy = warped
            copy.retrying = { (ids, _) throws(JobStoreError) in
                for id in ids {
                    guard let job = try await warped.job(id) else { continue }
                    var again = NewJob(queue: job.queue, kind: job.kind, payload: job.payload)
                    again.serialKey = job.serialKey
                    _ = try await warped.cancel([id])
                    _ = try await warped.push([again], limit: nil)
                }
                return ids.map { _ in .retried }
            }
            return copy
        },
        BrokenStore(.uniqueKeep, "a key for all kinds") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                var filter = JobFilter()
                (filter.uniqueKey, filter.states) = (jobs.first?.unique?.key, [.available, .running])
                if filter.uniqueKey != nil, let there = try await warped.find(filter).first {
                    return [PushReceipt(id: there.id, outcome: .kept)]
                }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.unwantedHolders, "a job that is being cancelled holds its key") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                let running = try await warped.find(JobFilter(states: [.running])).first { $0.isCancelRequested }
                if let running { return jobs.map { _ in PushReceipt(id: running.id, outcome: .kept) } }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.uniqueRetries, "says that it retried") { warped in
            var copy = warped
            copy.retrying = { (ids, limit) throws(JobStoreError) in
                try await warped.retry(ids, limit: limit).map { _ in .retried }
            }
            return copy
        },
        BrokenStore(.bytes, "letters have one form") { warped in
            warped.changingPushed { job in
                if job.unique?.key == "\u{e9}" { job.unique = .keep("\u{e9}") }
                if job.serialKey == "\u{e9}" { job.serialKey = "\u{e9}" }
            }
        },
        BrokenStore(.uniqueReplace, "keeps the idempotency key") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                var jobs = jobs
                var filter = JobFilter()
                for index in jobs.indices {
                    guard case .replace(let key) = jobs[index].unique else { continue }
                    filter.uniqueKey = key
                    if let there = try await warped.find(filter).first { jobs[index].idempotencyKey = there.idempotencyKey }
                }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.uniqueReplace, "keeps the one that is there") {
            $0.changingPushed { $0.unique = $0.unique.map { .keep($0.key) } }
        },
        BrokenStore(.uniqueSuccessors, "adds a successor each time") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                var jobs = jobs
                let isRunning = try await warped.find(JobFilter()).contains { $0.state == .running }
                for index in jobs.indices where isRunning { jobs[index].unique = jobs[index].unique.map { .append($0.key) } }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.uniqueBatches, "looks at earlier pushes only") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                var (jobs, seen) = (jobs, Set<String>())
                for index in jobs.indices {
                    guard let key = jobs[index].unique?.key else { continue }
                    if !seen.insert(key).inserted { jobs[index].unique = nil }
                }
                return try await warped.push(jobs, limit: limit)
            }
            return copy
        },
        BrokenStore(.uniqueBatches, "gives the identities of the pushed jobs") { warped in
            var copy = warped
            copy.pushing = { (jobs, limit) throws(JobStoreError) in
                let receipts = try await warped.push(jobs, limit: limit)
                return zip(jobs, receipts).map { PushReceipt(id: $0.id, outcome: $1.outcome) }
            }
            return copy
        },
        BrokenStore(.uniqueAppend, "appended jobs do not wait") { warped in
            warped.changingPushed { if case .append = $0.unique { $0.unique = nil } }
        },
    ]
}
