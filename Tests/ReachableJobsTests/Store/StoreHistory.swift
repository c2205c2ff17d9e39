import FoundationEssentials
import Glibc
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

@testable import ReachableJobs

/// A random history of calls to a store and to a ``MemoryStoreState``; it stops at the first difference.
struct StoreHistory {
    /// A store, and the means to act on its surroundings.
    struct Subject: Sendable {
        var store: any JobStore
        /// The number of heartbeats in a long time.
        var heartbeats = 60
        var passTime: @Sendable (Duration) async throws -> Void
        /// Lets the store notice what time has ended.
        var notice: @Sendable () async throws -> Void
        var crash: @Sendable (WorkerID) async throws -> Void
        var reboot: @Sendable () async throws -> Void
    }

    private static let date = Date(timeIntervalSince1970: 1_800_000_000)

    private var generator: SeededGenerator
    private let subject: Subject
    private var store: any JobStore { subject.store }
    private var oracle = MemoryStoreState()
    /// The time since the beginning.
    private var time = Duration.zero
    /// The numbers of the workers, in both.
    private var workers: [(found: WorkerID, wanted: WorkerID)] = []
    /// The lanes that were ever there, in both.
    private var lanes: [(found: Lane.ID, wanted: Lane.ID)] = []
    private var tickets: [(found: JobTicket, wanted: JobTicket, worker: (found: WorkerID, wanted: WorkerID))] = []
    private var pushed: [NewJob] = []
    private(set) var calls: [String] = []

    init(seed: UInt64, _ subject: Subject) {
        generator = SeededGenerator(seed: seed)
        self.subject = subject
        advance()
    }

    /// STORE_SEEDS is the number of histories, STORE_SEED the first one.
    private static let seeds: Range<UInt64> = {
        let first: UInt64 = variable("STORE_SEED") ?? 1
        return first..<first + (variable("STORE_SEEDS") ?? 20)
    }()

    /// Compares histories, each on a store of its own, and records the first difference.
    static func check(_ makeSubject: () async throws -> Subject) async throws {
        for seed in seeds {
            var history = StoreHistory(seed: seed, try await makeSubject())
            guard let flaw = try await history.run(150) else { continue }
            Issue.record(
                "STORE_SEED=\(seed): \(flaw)\nafter \(history.calls.count) calls:\n\(history.calls.joined(separator: "\n"))")
            return
        }
    }

    /// Makes random calls; returns the first difference.
    mutating func run(_ count: Int) async throws -> String? {
        for _ in 0..<count {
            if let flaw = try await step() { return flaw }
            oracle.hint = false
            let jobs = try await store.find(JobFilter())
            if let flaw = compare(renumbered(jobs), renumbered(oracle.find(JobFilter()))) { return flaw }
            switch calls.count % 4 {
            case 0:
                let (found, wanted) = (try await store.explain(jobs.map(\.id)), oracle.explain(jobs.map(\.id)))
                if let flaw = compare(found.map(renumbered), wanted.map(renumbered)) { return flaw }
            case 1:
                for queue in [nil, "other"] {
                    let (found, wanted) = (try await store.workers(of: queue), oracle.registeredWorkers(of: queue))
                    if let flaw = compare(found.map { renumbered($0) }, wanted.map { renumbered($0) }) { return flaw }
                }
            case 2:
                for queue in ["q", "other"] {
                    let (found, wanted) = (try await store.count(queue: queue), oracle.count(queue: queue))
                    if let flaw = compare(found.map(undated), wanted.map(undated)) { return flaw }
                }
            default: break
            }
        }
        return nil
    }

    /// Returns the first difference of two answers.
    private func compare<Value: Equatable>(_ found: [Value], _ wanted: [Value]) -> String? {
        if let (found, wanted) = zip(found, wanted).first(where: { $0 != $1 }) { return "found \(found)\nwanted \(wanted)" }
        return found.count == wanted.count ? nil : "found \(found.count), wanted \(wanted.count): \(found)\n\(wanted)"
    }

    private func compare<Value: Equatable>(_ found: Value, _ wanted: Value, _ what: String) -> String? {
        found == wanted ? nil : "\(what) gave \(found)\nwanted \(wanted)"
    }

    private mutating func step() async throws -> String? {
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<22: return try await push()
        case 22..<44: return try await claim()
        case 44..<52: return try await start()
        case 52..<68: return try await finish()
        case 68..<71: return try await giveBack()
        case 71..<75: return try await cancel()
        case 75..<79: return try await retry()
        case 79..<81: return try await pause()
        case 81..<90: return try await pass()
        case 90..<94: return try await changeWorkers()
        case 94..<96: return try await extend()
        case 96..<97: return try await endBackoff()
        case 97..<98: return try await expire()
        default: return try await prune()
        }
    }

    /// Moves the oracle to the present.
    private mutating func advance() {
        let now = StoreInstant(nanoseconds: time.nanoseconds)
        oracle.advance(to: now, leaseTime: now, nodeTime: store.nodeTime, date: Self.date)
    }

    // MARK: - Numbers

    /// Returns jobs with places for positions, and without the times and identities that each store has its own of.
    private func renumbered(_ jobs: [DurableJob]) -> [DurableJob] {
        jobs.enumerated().map { index, job in
            var job = renumbered(job)
            job.position = Int64(index)
            return job
        }
    }

    private func renumbered(_ job: DurableJob) -> DurableJob {
        var job = job
        (job.created, job.finished) = (Self.date, job.finished.map { _ in Self.date })
        job.avoidance?.bootID = ""
        return job
    }

    private func renumbered(_ explanation: JobExplanation?) -> JobExplanation? {
        guard var explanation else { return nil }
        explanation.job = renumbered(explanation.job)
        explanation.job.position = 0
        explanation.worker = explanation.worker.flatMap { id in workers.first { $0.found == id }?.wanted ?? id }
        return explanation
    }

    private func renumbered(_ worker: RegisteredWorker) -> RegisteredWorker {
        var worker = worker
        worker.id = workers.first { $0.found == worker.id }?.wanted ?? worker.id
        (worker.host, worker.process) = (nil, nil)
        return worker
    }

    private func undated(_ count: JobCount) -> JobCount {
        var count = count
        count.oldest = Self.date
        return count
    }

    // MARK: - Calls

    private mutating func push() async throws -> String? {
        var jobs = (0..<Int.random(in: 1...3, using: &generator)).map { _ in newJob() }
        if chance(5), let old = pushed.randomElement(using: &generator) { jobs[0] = old }
        let limit = chance(20) ? Int.random(in: -1...12, using: &generator) : nil
        calls.append("push \(jobs.map { ($0.kind, $0.unique as Any, $0.serialKey as Any) }), limit \(limit as Any)")
        let wanted = try? oracle.push(jobs, limit: limit)
        let found = try? await store.push(jobs, limit: limit)
        try await subject.notice()
        if found != nil { pushed += jobs }
        return compare(found, wanted, "push")
    }

    private mutating func newJob() -> NewJob {
        var job = NewJob(
            queue: chance(85) ? "q" : "other", kind: pick(["k", "k", "l"]), version: pick([1, 1, 1, 2]),
            payload: Data("\(pushed.count)".utf8) + Data(count: chance(10) ? Int.random(in: 0...9000, using: &generator) : 0))
        job.id = DurableJobID(milliseconds: 1, using: &generator)
        job.idempotencyKey = job.id.description
        job.destination = pick([nil, "x", "y"])
        job.priority = pick(JobPriority.allCases)
        if chance(20) { job.delay = duration() }
        if chance(10) { job.timeLimit = duration() }
        if chance(30) { job.serialKey = pick(["s", "t"]) }
        if chance(30) { job.unique = pick([.keep("u"), .replace("u"), .append("u"), .replace("v")]) }
        (job.continuesAfterFailure, job.isRepeatable) = (chance(30), chance(70))
        return job
    }

    private mutating func claim() async throws -> String? {
        guard let worker = workers.randomElement(using: &generator) else { return try await register() }
        // The lanes that the worker's queue has now, in both.
        let all = ClaimRequest(worker: worker.found, limit: 0, lanes: [], lastKnownLane: 0)
        var mirrored = all
        mirrored.worker = worker.wanted
        guard let there = try? await store.claim(all), let wantedThere = oracle.claim(mirrored) else {
            return "worker \(worker) has no lease"
        }
        func anonymous(_ lanes: [Lane]) -> [Lane] {
            lanes.map { Lane(id: 0, kind: $0.kind, version: $0.version, scope: $0.scope, destination: $0.destination) }
        }
        if let flaw = compare(anonymous(there.newLanes), anonymous(wantedThere.newLanes), "the lanes") { return flaw }
        for (found, wanted) in zip(there.newLanes, wantedThere.newLanes) where !lanes.contains(where: { $0.found == found.id }) {
            lanes.append((found.id, wanted.id))
        }
        var named: [(found: Lane.ID, wanted: Lane.ID)] = lanes.filter { _ in chance(80) }.shuffled(using: &generator)
        if chance(5), let first = named.first { named.append(first) }
        let limits = named.map { _ in chance(70) ? Int.max : Int.random(in: 0...2, using: &generator) }
        // Edges within the time that backoff lasts.
        let now = store.nodeTime + 1
        let edges = named.map { _ in chance(40) ? Int64.random(in: max(0, now - 25_000_000_000)...now, using: &generator) : .min }
        let limit = Int.random(in: 0...4, using: &generator)
        func request(_ worker: WorkerID, _ ids: [Lane.ID]) -> ClaimRequest {
            let open = ids.indices.map { ClaimRequest.Open(lane: ids[$0], limit: limits[$0], edge: edges[$0]) }
            return ClaimRequest(worker: worker, limit: limit, lanes: open, lastKnownLane: Lane.ID.max)
        }
        let found = try await store.claim(request(worker.found, named.map(\.found)))
        guard let wanted = oracle.claim(request(worker.wanted, named.map(\.wanted))) else { return "the oracle claimed nothing" }
        calls.append("claim \(request(worker.wanted, named.map(\.wanted))) -> \(wanted.jobs.map(\.job.position))")
        tickets += zip(found.jobs, wanted.jobs).map { ($0.ticket, $1.ticket, worker) }
        let gone = Set(lanes.filter { found.goneLanes.contains($0.found) }.map(\.wanted))
        return compare(found.now, wanted.now, "the time")
            ?? compare(renumbered(found.jobs.map(\.job)), renumbered(wanted.jobs.map(\.job)))
            ?? compare(found.isPaused, wanted.isPaused, "`isPaused`") ?? compare(found.hasMore, wanted.hasMore, "`hasMore`")
            ?? compare(gone, wanted.goneLanes, "`goneLanes`")
            ?? (found.hasMore ? nil : compare(found.nextDue, wanted.nextDue, "`nextDue`"))
    }

    private mutating func start() async throws -> String? {
        guard let (found, wanted, worker) = anyTicket() else { return nil }
        calls.append("start \(wanted)")
        return compare(
            try await store.start([found], by: worker.found), [oracle.start(wanted, by: worker.wanted)], "start")
    }

    private mutating func finish() async throws -> String? {
        guard let (found, wanted, worker) = anyTicket() else { return nil }
        let isNetwork = chance(60)
        let outcome: AttemptResult.Outcome = pick([
            .succeeded, .succeeded, .cancelled, .failed(reason: "attempts"),
            .again(soft: duration(), isNetwork: isNetwork, hard: nil), .again(soft: .zero, isNetwork: isNetwork, hard: nil),
            .again(soft: duration(), isNetwork: isNetwork, hard: duration()),
        ])
        var counters = oracle.find(JobFilter(ids: [wanted.id])).first?.counters ?? .init()
        counters.networkFailures += isNetwork ? 1 : 0
        (counters.charged, counters.crashes) = (counters.charged + 1, 77)
        var result = AttemptResult(
            wanted, outcome, counters: counters, error: chance(50) ? "broken" : nil,
            holdsDestination: chance(10) ? duration() : nil, time: chance(30) ? oracle.now.advanced(by: .zero - duration()) : nil)
        calls.append("finish \(result)")
        let expected = oracle.finish(result, by: worker.wanted)
        result.ticket = found
        return compare(try await store.finish([result], by: worker.found), [expected], "finish")
    }

    private mutating func giveBack() async throws -> String? {
        guard let (found, wanted, worker) = anyTicket() else { return nil }
        calls.append("giveBack \(wanted)")
        let expected = oracle.finish(.givenBack(wanted), by: worker.wanted)
        return compare(try await store.finish([.givenBack(found)], by: worker.found), [expected], "giveBack")
    }

    private mutating func cancel() async throws -> String? {
        let ids = [anyJob(), anyJob()]
        calls.append("cancel \(ids)")
        return compare(try await store.cancel(ids), ids.map { oracle.cancel($0) }, "cancel")
    }

    private mutating func retry() async throws -> String? {
        let (ids, limit) = ([anyJob(), anyJob()], chance(20) ? Int.random(in: 0...12, using: &generator) : nil)
        calls.append("retry \(ids), limit \(limit as Any)")
        let wanted = try? oracle.retry(ids, limit: limit)
        return compare(try? await store.retry(ids, limit: limit), wanted, "retry")
    }

    private mutating func endBackoff() async throws -> String? {
        let id = anyJob()
        calls.append("endBackoff \(id)")
        return compare(try await store.endBackoff([id]), [oracle.endBackoff(id)], "endBackoff")
    }

    private mutating func pause() async throws -> String? {
        let (queue, isPaused) = (pick(["q", "other"]), chance(40))
        calls.append("setPaused \(isPaused) \(queue)")
        try await store.setPaused(isPaused, queue: queue)
        oracle.setPaused(isPaused, queue: queue)
        return nil
    }

    private mutating func expire() async throws -> String? {
        let (queue, limit) = (pick(["q", "other"]), Int.random(in: 0...2, using: &generator))
        calls.append("expire \(queue) \(limit)")
        let (found, wanted) = (
            try await store.expire(queue: queue, limit: limit), oracle.expire(queue: queue, limit: limit)
        )
        return compare(renumbered(found.jobs), renumbered(wanted.jobs)) ?? compare(found.next, wanted.next, "`next`")
            ?? compare(found.hasMore, wanted.hasMore, "`hasMore` of expire")
    }

    private mutating func pass() async throws -> String? {
        // Long spans with heartbeats, for bulk jobs; short ones without, for leases.
        let count = chance(30) ? subject.heartbeats : 1
        let step: Duration = count > 1 ? .seconds(29) : chance(50) ? .milliseconds(700) : duration()
        calls.append("pass \(step) \(count) times")
        for _ in 0..<count {
            try await subject.passTime(step)
            time += step
            advance()
            try await subject.notice()
            _ = oracle.extend(WorkerID(rawValue: 0))
            guard count > 1 else { continue }
            for worker in workers {
                _ = try? await store.extend(worker.found)
                _ = oracle.extend(worker.wanted)
            }
        }
        forgetEnded()
        return nil
    }

    /// Forgets the workers that have ended.
    private mutating func forgetEnded() {
        let there = Set(oracle.registeredWorkers(of: nil).map(\.id))
        workers.removeAll { !there.contains($0.wanted) }
    }

    private mutating func changeWorkers() async throws -> String? {
        let choice = Int.random(in: 0..<10, using: &generator)
        calls.append("workers \(choice)")
        if choice == 0 {
            try await subject.reboot()
            advance()
            oracle.reboot()
        } else if choice < 4, let worker = workers.randomElement(using: &generator) {
            if choice < 3 { try await subject.crash(worker.found) } else { try await store.unregister(worker.found) }
            oracle.end(worker.wanted, choice < 3 ? .crashed : .unregistered)
        } else {
            return try await register()
        }
        forgetEnded()
        return nil
    }

    private mutating func register() async throws -> String? {
        // One name of a node begins with the other.
        let (queue, node) = (chance(80) ? "q" : "other", chance(70) ? "n" : "n 2")
        let id = try await store.register(queue: queue, node: node)
        if workers.contains(where: { $0.found == id }) { return "\(id) was given twice" }
        workers.append((id, oracle.register(queue: queue, node: node)))
        return nil
    }

    private mutating func extend() async throws -> String? {
        guard let worker = workers.randomElement(using: &generator) else { return nil }
        calls.append("extend \(worker.wanted)")
        let (found, wanted) = (try await store.extend(worker.found), oracle.extend(worker.wanted))
        return compare(Set(found.map(\.id)), wanted.map { Set($0.map(\.id)) }, "extend")
    }

    private mutating func prune() async throws -> String? {
        let retention = Retention(succeeded: duration(), failed: duration())
        let limit = Int.random(in: 0...5, using: &generator)
        calls.append("prune \(retention) \(limit)")
        let before = try await store.find(JobFilter()).map(\.id)
        let count = try await store.prune(retention, limit: limit)
        let deleted = Set(before).subtracting(try await store.find(JobFilter()).map(\.id))
        let prunable = oracle.prunable(retention)
        if !deleted.isSubset(of: prunable) { return "prune deleted \(deleted.subtracting(prunable).count) jobs that must stay" }
        if count != deleted.count || count != min(limit, prunable.count) {
            return "prune told \(count) and deleted \(deleted.count) of \(prunable.count) within \(limit)"
        }
        // Which ones go first is the store's choice.
        if limit > 0 { oracle.delete(deleted) }
        return nil
    }

    // MARK: - Choices

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &generator)] }

    private mutating func duration() -> Duration { .seconds(Int.random(in: 1...25, using: &generator)) }

    private mutating func anyTicket() -> (found: JobTicket, wanted: JobTicket, worker: (found: WorkerID, wanted: WorkerID))? {
        if tickets.count > 12 { tickets.removeFirst(tickets.count - 12) }
        guard var ticket = tickets.randomElement(using: &generator) else { return nil }
        // Another worker's claim is refused.
        if chance(5), let other = workers.randomElement(using: &generator) { ticket.worker = other }
        return ticket
    }

    private mutating func anyJob() -> DurableJobID {
        oracle.find(JobFilter()).randomElement(using: &generator)?.id ?? DurableJobID()
    }
}
