import FoundationEssentials
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

@testable import ReachableJobs

/// A store that breaks one requirement.
///
/// `Tests/Mutants/store.txt` has more of them, as mutants of the memory store.
struct BrokenStore: Sendable, CustomTestStringConvertible {
    typealias Requirement = JobStoreConformance.Requirement
    typealias Push = ([NewJob], Int?)

    let requirement: Requirement
    let flaw: String
    private let warp: @Sendable (inout WarpedStore, MemoryStore) -> Void

    var testDescription: String { "\(requirement.rawValue): \(flaw)" }

    func make(_ store: MemoryStore) -> WarpedStore {
        var warped = WarpedStore(store)
        warp(&warped, store)
        return warped
    }

    static let all = pushing + claiming + delays + keys + replacing + attempts + workers + management + pruning + explanations

    /// Changes a type of argument or answer.
    private static func change<Value>(
        _ requirement: Requirement, _ flaw: String, _ body: @escaping @Sendable (inout Value) -> Void
    ) -> BrokenStore {
        BrokenStore(requirement: requirement, flaw: flaw) { warped, _ in warped.change(body) }
    }

    /// Takes the calls of a method over.
    private static func replace<Argument, Answer>(
        _ requirement: Requirement, _ flaw: String,
        _ body: @escaping @Sendable (Argument, MemoryStore) async throws -> Answer
    ) -> BrokenStore {
        BrokenStore(requirement: requirement, flaw: flaw) { warped, store in warped.replace { try await body($0, store) } }
    }

    /// Warps a store by something that it remembers.
    private static func warp(
        _ requirement: Requirement, _ flaw: String, _ warp: @escaping @Sendable (inout WarpedStore, MemoryStore) -> Void
    ) -> BrokenStore {
        BrokenStore(requirement: requirement, flaw: flaw, warp: warp)
    }

    private static let pushing: [BrokenStore] = [
        change(.receipts, "receipts in reverse") { (receipts: inout [PushReceipt]) in receipts.reverse() },
        change(.properties, "forgets the trace context") { (job: inout NewJob) in job.traceContext = [:] },
        change(.properties, "text ends at a zero byte") { (job: inout NewJob) in
            job.serialKey = job.serialKey.map { String($0.prefix { $0 != "\0" }) }
        },
        replace(.atomicPush, "pushes one by one") { (push: Push, store) -> [PushReceipt] in
            var receipts: [PushReceipt] = []
            for job in push.0 { receipts += try await store.push([job], limit: push.1) }
            return receipts
        },
        change(.payloadLimit, "cuts large payloads") { (job: inout NewJob) in job.payload = job.payload.prefix(largestPayload) },
        change(.queueLimit, "has no limit") { (limit: inout Int?) in limit = nil },
        warp(.repeatedPush, "adds a job twice") { warped, _ in
            let seen = Mutex<Set<DurableJobID>>([])
            warped.change { (job: inout NewJob) in
                if !seen.withLock({ [id = job.id] in $0.insert(id).inserted }) { job.id = DurableJobID() }
            }
        },
    ]

    private static let claiming: [BrokenStore] = [
        change(.order, "only by priority and lane") { (claims: inout Claims) in
            claims.jobs.sort {
                ($1.job.priority, $0.job.destination ?? "", $0.job.version)
                    < ($0.job.priority, $1.job.destination ?? "", $1.job.version)
            }
        },
        change(.lanes, "tells all lanes again") { (request: inout ClaimRequest) in request.lastKnownLane = 0 },
        change(.closedLanes, "claims from all lanes") { (request: inout ClaimRequest) in
            request.lanes = (1...20).map { .init(lane: $0) }
        },
        change(.limits, "never has more") { (claims: inout Claims) in claims.hasMore = false },
        warp(.exclusiveClaims, "gives a job to two workers") { warped, _ in
            let last = Mutex<[Claims.Claimed]>([])
            warped.change { (claims: inout Claims) in
                let taken = claims.jobs
                claims.jobs += last.withLock { last in
                    defer { last = taken }
                    return last
                }
            }
        },
        change(.ageing, "a job ages by itself") { (job: inout NewJob) in
            if job.priority == .bulk, job.delay != nil { job.destination = "own" }
        },
        replace(.pausing, "pauses all queues") { (pause: (Bool, String), store) in
            for queue in ["mail", "other", "empty"] { try await store.setPaused(pause.0, queue: queue) }
        },
    ]

    private static let delays: [BrokenStore] = [
        change(.notBefore, "starts at once") { (job: inout NewJob) in job.delay = nil },
        change(.notBefore, "does not say when") { (claims: inout Claims) in claims.nextDue = nil },
        backoff(.softDelays, "has no backoff") { .again(soft: .zero, isNetwork: $1, hard: $2) },
        edge(.edges, "ignores edges") { _ in .min },
        replace(.nodes, "binds only the worker") { (worker: (String, String), store) in
            try await store.register(queue: worker.0, node: "\(DurableJobID())")
        },
        edge(.nodes, "a node whose network failed starts at once") { _ in .max },
        backoff(.hardDelays, "forgets the server's order") { soft, isNetwork, _ in
            .again(soft: soft, isNetwork: isNetwork, hard: nil)
        },
        change(.destinationHolds, "holds only the kind") { (job: inout NewJob) in
            if job.kind == "other" { job.destination = job.destination.map { $0 + " " } }
        },
        change(.deadlines, "forgets deadlines") { (expired: inout ExpiredJobs) in
            expired = ExpiredJobs(jobs: [], next: nil, hasMore: false)
        },
        replace(.deadlines, "ends jobs at their deadline") { (filter: JobFilter, store) -> [DurableJob] in
            let overdue = try await store.find(JobFilter()).filter { $0.deadline.map { $0 <= store.now } ?? false }
            _ = try await store.cancel(overdue.map(\.id))
            return try await store.find(filter)
        },
    ]

    private static func backoff(
        _ requirement: Requirement, _ flaw: String,
        _ body: @escaping @Sendable (Duration, Bool, Duration?) -> AttemptResult.Outcome
    ) -> BrokenStore {
        change(requirement, flaw) { (result: inout AttemptResult) in
            if case .again(let soft, let isNetwork, let hard) = result.outcome { result.outcome = body(soft, isNetwork, hard) }
        }
    }

    private static func edge(
        _ requirement: Requirement, _ flaw: String, _ body: @escaping @Sendable (Int64) -> Int64
    ) -> BrokenStore {
        change(requirement, flaw) { (request: inout ClaimRequest) in
            for index in request.lanes.indices { request.lanes[index].edge = body(request.lanes[index].edge) }
        }
    }

    private static let keys: [BrokenStore] = [
        change(.serialOrder, "ignores serial keys") { (job: inout NewJob) in job.serialKey = nil },
        change(.serialOrder, "a key per kind") { (job: inout NewJob) in job.serialKey = job.serialKey.map { [job] in $0 + job.kind }
        },
        change(.serialFailures, "all continue after failure") { (job: inout NewJob) in job.continuesAfterFailure = true },
        replace(.serialCancellation, "keeps failed jobs") { (ids: [DurableJobID], store) -> [CancelOutcome] in
            try await cancel(ids, in: store) { $0.state == .failed ? .ended : nil }
        },
        replace(.serialRetries, "retries behind the others") { (retry: ([DurableJobID], Int?), store) -> [RetryOutcome] in
            for job in try await store.find(JobFilter(ids: Set(retry.0))) {
                var again = NewJob(queue: job.queue, kind: job.kind, payload: job.payload)
                again.serialKey = job.serialKey
                _ = try await store.cancel([job.id])
                _ = try await store.push([again], limit: nil)
            }
            return retry.0.map { _ in .retried }
        },
        replace(.uniqueKeep, "a key for all kinds") { (push: Push, store) -> [PushReceipt] in
            var filter = JobFilter(states: [.available, .running])
            filter.uniqueKey = push.0.first?.unique?.key
            if filter.uniqueKey != nil, let there = try await store.find(filter).first {
                return [PushReceipt(id: there.id, outcome: .kept)]
            }
            return try await store.push(push.0, limit: push.1)
        },
        replace(.unwantedHolders, "a job that is being cancelled holds its key") { (push: Push, store) -> [PushReceipt] in
            let running = try await store.find(JobFilter(states: [.running])).first { $0.isCancelRequested }
            if let running { return push.0.map { _ in PushReceipt(id: running.id, outcome: .kept) } }
            return try await store.push(push.0, limit: push.1)
        },
        change(.uniqueRetries, "says that it retried") { (outcome: inout RetryOutcome) in outcome = .retried },
        change(.bytes, "letters have one form") { (job: inout NewJob) in
            if job.unique?.key == "\u{e9}" { job.unique = .keep("\u{e9}") }
            if job.serialKey == "\u{e9}" { job.serialKey = "\u{e9}" }
        },
        change(.uniqueAppend, "appended jobs do not wait") { (job: inout NewJob) in
            if case .append = job.unique { job.unique = nil }
        },
    ]

    private static let replacing: [BrokenStore] = [
        replace(.uniqueReplace, "keeps the idempotency key") { (push: Push, store) -> [PushReceipt] in
            var (jobs, filter) = (push.0, JobFilter())
            for index in jobs.indices {
                guard case .replace(let key) = jobs[index].unique else { continue }
                filter.uniqueKey = key
                if let there = try await store.find(filter).first { jobs[index].idempotencyKey = there.idempotencyKey }
            }
            return try await store.push(jobs, limit: push.1)
        },
        change(.uniqueReplace, "keeps the one that is there") { (job: inout NewJob) in
            job.unique = job.unique.map { .keep($0.key) }
        },
        replace(.uniqueSuccessors, "adds a successor each time") { (push: Push, store) -> [PushReceipt] in
            var jobs = push.0
            let isRunning = try await !store.find(JobFilter(states: [.running])).isEmpty
            for index in jobs.indices where isRunning { jobs[index].unique = jobs[index].unique.map { .append($0.key) } }
            return try await store.push(jobs, limit: push.1)
        },
        change(.uniqueBatches, "looks at earlier pushes only") { (jobs: inout [NewJob]) in
            var seen = Set<String>()
            for index in jobs.indices {
                if let key = jobs[index].unique?.key, !seen.insert(key).inserted { jobs[index].unique = nil }
            }
        },
        replace(.uniqueBatches, "gives the identities of the pushed jobs") { (push: Push, store) -> [PushReceipt] in
            zip(push.0, try await store.push(push.0, limit: push.1)).map { PushReceipt(id: $0.id, outcome: $1.outcome) }
        },
    ]

    private static let attempts: [BrokenStore] = [
        warp(.fencing, "numbers do not grow") { warped, _ in
            warped.change { (claims: inout Claims) in
                for index in claims.jobs.indices { claims.jobs[index].claim = 1_000_000 - claims.jobs[index].claim }
                for index in claims.cancelled.indices { claims.cancelled[index].claim = 1_000_000 - claims.cancelled[index].claim }
            }
            warped.change { (ticket: inout JobTicket) in ticket.claim = 1_000_000 - ticket.claim }
        },
        finishing(.fencing, "accepts what was given back") { $0.outcome == .givenBack && $1 == .refused ? .recorded : $1 },
        change(.starts, "every attempt may start") { (mayStart: inout [Bool]) in mayStart = mayStart.map { _ in true } },
        change(.results, "forgets the counters") { (result: inout AttemptResult) in result.counters = .init() },
        change(.results, "forgets the error") { (result: inout AttemptResult) in result.error = nil },
        change(.givingBack, "gives back with a backoff") { (result: inout AttemptResult) in
            if result.outcome == .givenBack { result.outcome = .again(soft: .seconds(1), isNetwork: false, hard: nil) }
        },
    ]

    /// Changes the answers to results.
    private static func finishing(
        _ requirement: Requirement, _ flaw: String,
        _ body: @escaping @Sendable (AttemptResult, FinishOutcome) -> FinishOutcome
    ) -> BrokenStore {
        replace(requirement, flaw) { (end: ([AttemptResult], WorkerID), store) -> [FinishOutcome] in
            zip(end.0, try await store.finish(end.0, by: end.1)).map(body)
        }
    }

    private static let workers: [BrokenStore] = [
        warp(.leases, "leases never end") { warped, store in
            let known = Mutex<Set<WorkerID>>([])
            warped.change { (request: inout ClaimRequest) in known.withLock { [worker = request.worker] in _ = $0.insert(worker) } }
            warped.replace { (worker: WorkerID) -> [JobTicket] in
                for id in known.withLock(\.self) where id != worker { _ = try? await store.extend(id) }
                return try await store.extend(worker)
            }
        },
        replace(.heartbeats, "does not hear heartbeats") { (_: WorkerID, _) -> [JobTicket] in [] },
        replace(.unregistering, "takes it for a crash") { (worker: WorkerID, store) in store.crash(worker) },
        replace(.unregistering, "keeps the claims") { (_: WorkerID, _) in },
        claimed(.unregistering, "does not know the outcome of what was given back") { $0.hasUnknownOutcome = true },
        claimed(.crashes, "counts no crash") { $0.counters.crashes = 0 },
        claimed(.crashes, "knows the outcome of a crashed attempt") { $0.hasUnknownOutcome = false },
        claimed(.reboots, "takes it for a crash") { if $0.hasUnknownOutcome { $0.counters.crashes += 1 } },
        replace(.listedWorkers, "lists the workers of all queues") { (_: String?, store) in try await store.workers(of: nil) },
        warp(.listedWorkers, "lists workers whose lease has ended") { warped, store in
            let known = Mutex<[WorkerID: RegisteredWorker]>([:])
            warped.replace { (worker: WorkerID) in
                try await store.unregister(worker)
                known.withLock { _ = $0.removeValue(forKey: worker) }
            }
            warped.replace { (queue: String?) -> [RegisteredWorker] in
                let found = try await store.workers(of: queue)
                return known.withLock { known in
                    for worker in found { known[worker.id] = worker }
                    return known.values.filter { queue == nil || $0.queue == queue }.sorted { $0.id.rawValue < $1.id.rawValue }
                }
            }
        },
        change(.listedWorkers, "a node for all") { (worker: inout RegisteredWorker) in worker.node = "node" },
        change(.listedWorkers, "counts no claims") { (worker: inout RegisteredWorker) in worker.claims = 0 },
        change(.listedWorkers, "always heard a moment ago") { (worker: inout RegisteredWorker) in worker.sinceHeartbeat = .zero },
    ]

    /// Changes the jobs of claims.
    private static func claimed(
        _ requirement: Requirement, _ flaw: String, _ body: @escaping @Sendable (inout DurableJob) -> Void
    ) -> BrokenStore {
        change(requirement, flaw) { (claims: inout Claims) in
            for index in claims.jobs.indices { body(&claims.jobs[index].job) }
        }
    }

    private static let management: [BrokenStore] = [
        change(.cancellation, "knows every job") { (outcome: inout CancelOutcome) in if outcome == .unknown { outcome = .ended } },
        replace(.cancellationRequests, "tells no heartbeat") { (worker: WorkerID, store) -> [JobTicket] in
            _ = try await store.extend(worker)
            return []
        },
        change(.cancellationRequests, "tells no claim") { (claims: inout Claims) in claims.cancelled = [] },
        replace(.cancellationRequests, "forgets requests") { (ids: [DurableJobID], store) -> [CancelOutcome] in
            try await cancel(ids, in: store) { $0.state == .running ? .requested : nil }
        },
        finishing(.cancellationRequests, "ends silently") {
            $0.outcome != .givenBack && $1 == .cancelled ? .recorded : $1
        },
        finishing(.cancellationRequests, "gives back silently") {
            $0.outcome == .givenBack && $1 == .cancelled ? .recorded : $1
        },
        change(.retries, "says yes to all") { (outcome: inout RetryOutcome) in outcome = .retried },
        replace(.endedBackoff, "runs failed jobs again instead") { (ids: [DurableJobID], store) in
            try await store.retry(ids, limit: nil).map { $0 == .retried }
        },
        change(.searches, "does not know where to begin") { (filter: inout JobFilter) in filter.after = nil },
        change(.searches, "newest first") { (jobs: inout [DurableJob]) in jobs.reverse() },
        change(.counts, "one destination for all") { (count: inout JobCount) in count.destination = nil },
        warp(.hints, "one stream for all") { warped, _ in
            let streams = Mutex(0)
            warped.change { (stream: inout AsyncStream<Void>) in
                let isFirst = streams.withLock { count in
                    count += 1
                    return count == 1
                }
                if !isFirst { stream = AsyncStream { _ in } }
            }
        },
    ]

    /// Cancels jobs, but for those that have an answer already.
    private static func cancel(
        _ ids: [DurableJobID], in store: MemoryStore, unless answer: (DurableJob) -> CancelOutcome?
    ) async throws -> [CancelOutcome] {
        var outcomes: [CancelOutcome] = []
        for id in ids {
            let known = try await store.find(JobFilter(ids: [id])).first.flatMap(answer)
            if let known { outcomes.append(known) } else { outcomes += try await store.cancel([id]) }
        }
        return outcomes
    }

    private static let pruning: [BrokenStore] = [
        replace(.pruning, "ignores the limit") { (prune: (Retention, Int), store) in try await store.prune(prune.0, limit: .max) },
        change(.pruning, "too early") { (retention: inout Retention) in
            retention = Retention(succeeded: retention.succeeded / 2, failed: retention.failed / 2)
        },
        replace(.pruningHeads, "deletes failed heads") { (prune: (Retention, Int), store) -> Int in
            let failed = try await store.find(JobFilter()).filter { $0.state == .failed && $0.serialKey == "a" }
            _ = try await store.cancel(failed.map(\.id))
            return try await store.prune(Retention(succeeded: prune.0.succeeded, failed: .zero), limit: prune.1)
        },
        warp(.pruningLanes, "keeps lanes") { warped, _ in
            let known = Mutex<[Lane.ID: Lane]>([:])
            warped.change { (claims: inout Claims) in
                let lanes = claims.newLanes
                claims.newLanes = known.withLock { known in
                    for lane in lanes { known[lane.id] = lane }
                    return known.values.sorted { $0.id < $1.id }
                }
            }
        },
        change(.pruningLanes, "does not tell of deleted lanes") { (claims: inout Claims) in claims.goneLanes = [] },
    ]

    private static let explanations: [BrokenStore] = [
        replace(.explanations, "shows payloads") { (ids: [DurableJobID], store) -> [JobExplanation?] in
            let jobs = try await store.find(JobFilter(ids: Set(ids)))
            return try await store.explain(ids).map { explanation in
                var explanation = explanation
                if let job = jobs.first(where: { $0.id == explanation?.id }) { explanation?.job = job }
                return explanation
            }
        },
        change(.explanations, "leaves out unknown jobs") { (all: inout [JobExplanation?]) in all.removeAll { $0 == nil } },
        change(.explainedBlockers, "says that all wait") { (explanation: inout JobExplanation) in
            for index in explanation.blockers.indices { explanation.blockers[index].state = .available }
        },
        change(.explainedBlockers, "only serial keys") { (explanation: inout JobExplanation) in
            explanation.blockers.removeAll { $0.key == .unique }
        },
    ]
}
