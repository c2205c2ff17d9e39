import FoundationEssentials
import Glibc
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Testing

/// A random history of calls to a store and to the oracle; it stops at the first difference.
struct StoreHistory {
    /// A store, and the means to act on its surroundings.
    struct Subject: Sendable {
        var store: any JobStore
        var passTime: @Sendable (Duration) async throws -> Void
        /// Lets the store notice what time has ended.
        var notice: @Sendable () async throws -> Void
        var crash: @Sendable (WorkerID) async throws -> Void
        var reboot: @Sendable () async throws -> Void
        /// True for a store whose positions have gaps, that has a wall clock of its own, and that keeps past delays.
        var hasOwnNumbers = false
    }

    static let date = Date(timeIntervalSince1970: 1_800_000_000)

    private var generator: SeededGenerator
    private let subject: Subject
    private var store: any JobStore { subject.store }
    private var oracle = StoreOracle(date: date)
    private var tickets: [(ticket: JobTicket, worker: WorkerID)] = []
    private var pushed: [NewJob] = []
    private(set) var calls: [String] = []

    init(seed: UInt64, _ subject: Subject) {
        generator = SeededGenerator(seed: seed)
        self.subject = subject
        oracle.mayTellEarly = subject.hasOwnNumbers
    }

    /// STORE_SEEDS is the number of histories, STORE_SEED the first one.
    private static let seeds: Range<UInt64> = {
        func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
        let first = number("STORE_SEED") ?? 1
        return first..<first + (number("STORE_SEEDS") ?? 20)
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
            let (found, wanted) = (try await store.find(JobFilter()).map(renumbered), oracle.durable.map(withoutPastDelays))
            if let (found, wanted) = zip(found, wanted).first(where: { $0 != $1 }) { return "found \(found)\nwanted \(wanted)" }
            if found.count != wanted.count { return "found \(found.count) jobs, wanted \(wanted.count)" }
            if calls.count % 4 == 0, let flaw = try await explain(found.map(\.id)) { return flaw }
            if calls.count % 4 == 1, let flaw = try await listWorkers() { return flaw }
        }
        return nil
    }

    private func explain(_ ids: [DurableJobID]) async throws -> String? {
        let wanted = oracle.standings.map { standing in
            var standing = standing
            standing.job = withoutPastDelays(standing.job)
            return standing
        }
        let found = try await store.explain(ids).map(renumbered)
        if let (found, wanted) = zip(found, wanted).first(where: { $0 != $1 }) { return "found \(found as Any)\nwanted \(wanted)" }
        return found.count == wanted.count ? nil : "explain gave \(found.count) answers for \(wanted.count) jobs"
    }

    private func listWorkers() async throws -> String? {
        let (listed, wanted) = (try await store.workers(of: nil), oracle.registeredWorkers)
        let found = listed.map { worker in
            var worker = worker
            (worker.host, worker.process) = (nil, nil)
            return worker
        }
        return found == wanted ? nil : "found the workers \(found)\nwanted \(wanted)"
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
        case 81..<91: return try await pass()
        case 91..<95: return try await changeWorkers()
        case 95..<97: return try await extend()
        default: return try await prune()
        }
    }

    /// Returns a job with the oracle's number and dates, for a store that has its own.
    private func renumbered(_ job: DurableJob) -> DurableJob {
        guard subject.hasOwnNumbers, let known = oracle.jobs.first(where: { $0.job.id == job.id })?.job else { return job }
        var job = job
        (job.position, job.created) = (known.position, known.created)
        job.finished = job.finished.map { _ in Self.date }
        return withoutPastDelays(job)
    }

    /// Returns a job without the delays that delay nothing: whether a store keeps them is its own business.
    private func withoutPastDelays(_ job: DurableJob) -> DurableJob {
        guard subject.hasOwnNumbers else { return job }
        var job = job
        if job.state.isFinal { (job.softDelay, job.hardUntil) = (nil, nil) }
        if let delay = job.softDelay, delay.until <= delay.since { job.softDelay = nil }
        return job
    }

    private func renumbered(_ standing: JobStanding?) -> JobStanding? {
        guard var standing else { return nil }
        standing.job = renumbered(standing.job)
        return standing
    }

    // MARK: - Calls

    private mutating func push() async throws -> String? {
        var jobs = (0..<Int.random(in: 1...3, using: &generator)).map { _ in newJob() }
        if chance(5), let old = pushed.randomElement(using: &generator), oracle.jobs.contains(where: { $0.job.id == old.id }) {
            // A repeated push is kept.
            let receipts = try await store.push([old], limit: nil)
            return receipts == [PushReceipt(id: old.id, outcome: .kept)] ? nil : "a repeated push gave \(receipts)"
        }
        if chance(20) { jobs = [jobs[0]] }
        let limit = chance(20) ? Int.random(in: 1...12, using: &generator) : nil
        calls.append("push \(jobs.map { ($0.kind, $0.unique as Any, $0.serialKey as Any) }), limit \(limit as Any)")
        let wanted = oracle.push(jobs, limit: limit)
        let found = try? await store.push(jobs, limit: limit)
        try await subject.notice()
        if found != nil { pushed += jobs }
        return found == wanted ? nil : "receipts \(found as Any), wanted \(wanted as Any)"
    }

    private mutating func newJob() -> NewJob {
        var job = NewJob(
            queue: chance(85) ? "q" : "other", kind: pick(["k", "k", "l"]), version: pick([1, 1, 1, 2]),
            payload: Data("\(pushed.count)".utf8))
        job.id = DurableJobID(milliseconds: 1, using: &generator)
        job.idempotencyKey = job.id.description
        job.destination = pick([nil, "x", "y"])
        job.priority = pick(JobPriority.allCases)
        if chance(20) { job.delay = duration() }
        if chance(10) { job.timeLimit = duration() }
        if chance(30) { job.serialKey = pick(["s", "t"]) }
        if chance(30) { job.unique = pick([.keep("u"), .replace("u"), .append("u"), .replace("v")]) }
        job.continuesAfterFailure = chance(30)
        return job
    }

    private mutating func claim() async throws -> String? {
        guard let worker = anyWorker() else { return nil }
        var lanes: [ClaimRequest.Open] = []
        for entry in oracle.lanes where chance(80) {
            let edge =
                chance(40) ? StoreInstant(nanoseconds: .random(in: 0...max(1, oracle.now.nanoseconds + 1), using: &generator)) : nil
            lanes.append(
                .init(lane: entry.lane.id, limit: chance(70) ? .max : Int.random(in: 0...2, using: &generator), edge: edge))
        }
        if chance(20) { lanes.append(.init(lane: Lane.ID.random(in: 1...oracle.lastLane + 1, using: &generator))) }
        if chance(5), let first = lanes.first { lanes.append(first) }
        let request = ClaimRequest(
            worker: worker, limit: Int.random(in: 0...4, using: &generator), lanes: lanes.shuffled(using: &generator),
            lastKnownLane: Lane.ID.random(in: 0...oracle.lastLane, using: &generator))
        var answer = try? await store.claim(request)
        if let jobs = answer?.jobs { answer?.jobs = jobs.map { .init(job: renumbered($0.job), claim: $0.claim) } }
        calls.append("claim \(request) -> \(answer?.jobs.map(\.job.position) ?? [])")
        tickets += (answer?.jobs ?? []).map { ($0.ticket, worker) }
        if let answer, answer.now != oracle.now { return "the time is \(answer.now), wanted \(oracle.now)" }
        return oracle.claim(request, answer)
    }

    private mutating func start() async throws -> String? {
        guard let (ticket, worker) = anyTicket() else { return nil }
        calls.append("start \(ticket)")
        let (found, wanted) = (try await store.start([ticket], by: worker), oracle.start(ticket, worker))
        return found == [wanted] ? nil : "start gave \(found)"
    }

    private mutating func finish() async throws -> String? {
        guard let (ticket, worker) = anyTicket() else { return nil }
        let isNetwork = chance(60)
        let outcome: AttemptResult.Outcome = pick([
            .succeeded, .succeeded, .cancelled, .failed(reason: "attempts"),
            .again(soft: duration(), isNetwork: isNetwork, hard: nil), .again(soft: .zero, isNetwork: isNetwork, hard: nil),
            .again(soft: duration(), isNetwork: isNetwork, hard: duration()), .undecodable,
        ])
        var counters = oracle.jobs.first { $0.job.id == ticket.id }?.job.counters ?? .init()
        (counters.charged, counters.crashes) = (counters.charged + 1, 77)
        let result = AttemptResult(
            ticket, outcome, counters: counters, error: chance(50) ? "broken" : nil, holdsDestination: chance(10) ? duration() : nil
        )
        calls.append("finish \(result)")
        let (found, wanted) = (try await store.finish([result], by: worker), oracle.finish(result, worker))
        return found == [wanted] ? nil : "finish gave \(found), wanted \(wanted)"
    }

    private mutating func giveBack() async throws -> String? {
        guard let (ticket, worker) = anyTicket() else { return nil }
        calls.append("giveBack \(ticket)")
        let found = try await store.giveBack([ticket], by: worker)
        var wanted = FinishOutcome.refused
        if let index = oracle.index(of: ticket, worker) {
            oracle.free(index)
            wanted = oracle.jobs[index].job.state == .cancelled ? .cancelled : .recorded
        }
        return found == [wanted] ? nil : "giveBack gave \(found), wanted \(wanted)"
    }

    private mutating func cancel() async throws -> String? {
        let id = anyJob()
        calls.append("cancel \(id)")
        let (found, wanted) = (try await store.cancel([id]), oracle.cancel(id))
        return found == [wanted] ? nil : "cancel gave \(found), wanted \(wanted)"
    }

    private mutating func retry() async throws -> String? {
        let id = anyJob()
        calls.append("retry \(id)")
        let (found, wanted) = (try await store.retry([id]), oracle.retry(id))
        return found == [wanted] ? nil : "retry gave \(found)"
    }

    private mutating func pause() async throws -> String? {
        let (queue, isPaused) = (pick(["q", "other"]), chance(40))
        calls.append("setPaused \(isPaused) \(queue)")
        try await store.setPaused(isPaused, queue: queue)
        if isPaused {
            oracle.paused.insert(queue)
            for (id, worker) in oracle.workers where worker.queue == queue { oracle.workers[id]?.lanes = [] }
        } else {
            oracle.paused.remove(queue)
        }
        return nil
    }

    private mutating func pass() async throws -> String? {
        // Long spans with heartbeats, for ageing; short ones without, for leases.
        let (step, count) = chance(30) ? (Duration.seconds(29), 60) : (duration(), 1)
        calls.append("pass \(step) \(count) times")
        for _ in 0..<count {
            try await subject.passTime(step)
            oracle.advance(to: oracle.now.advanced(by: step))
            try await subject.notice()
            guard count > 1 else { continue }
            for id in oracle.workers.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
                oracle.workers[id]?.leaseEnd = oracle.now.advanced(by: StoreLease.duration)
                _ = try await store.extend(id)
            }
        }
        return nil
    }

    private mutating func changeWorkers() async throws -> String? {
        let choice = Int.random(in: 0..<10, using: &generator)
        calls.append("workers \(choice)")
        if choice == 0 {
            try await subject.reboot()
            for id in oracle.workers.keys { oracle.end(id, isCrash: false) }
        } else if choice < 4, let id = anyWorker() {
            if choice == 1 { try await subject.crash(id) } else { try await store.unregister(id) }
            oracle.end(id, isCrash: choice == 1, isOrderly: choice != 1)
        } else {
            let queue = chance(80) ? "q" : "other"
            let node = chance(70) ? "n" : "m"
            let id = try await store.register(queue: queue, node: node)
            if oracle.workers[id] != nil { return "\(id) was given twice" }
            oracle.workers[id] = .init(queue: queue, node: node, leaseEnd: oracle.now.advanced(by: StoreLease.duration))
        }
        return nil
    }

    private mutating func extend() async throws -> String? {
        let id = anyWorker() ?? WorkerID(rawValue: 1)
        calls.append("extend \(id)")
        let found = try? await store.extend(id)
        guard oracle.workers[id] != nil else { return found == nil ? nil : "an unknown worker was extended" }
        oracle.workers[id]?.leaseEnd = oracle.now.advanced(by: StoreLease.duration)
        let asked = oracle.jobs.filter { $0.worker == id && $0.job.isCancelRequested }
        let wanted = asked.map { JobTicket(id: $0.job.id, claim: $0.claim) }
        return found?.cancelled == wanted ? nil : "extend told \(found as Any), wanted \(wanted)"
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
        if count != deleted.count || count > limit { return "prune told \(count) and deleted \(deleted.count)" }
        if count < min(limit, prunable.count) {
            let left = oracle.jobs.filter { prunable.contains($0.job.id) && !deleted.contains($0.job.id) }
            return "prune deleted \(count) of \(limit) jobs at \(oracle.now) and left \(left)"
        }
        oracle.jobs.removeAll { deleted.contains($0.job.id) }
        if limit > 0 { oracle.pruneLanes() }
        return nil
    }

    // MARK: - Choices

    private mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    private mutating func pick<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &generator)] }

    private mutating func duration() -> Duration { .seconds(Int.random(in: 1...25, using: &generator)) }

    private mutating func anyWorker() -> WorkerID? {
        oracle.workers.keys.sorted { $0.rawValue < $1.rawValue }.randomElement(using: &generator)
    }

    private mutating func anyTicket() -> (JobTicket, WorkerID)? {
        if tickets.count > 12 { tickets.removeFirst(tickets.count - 12) }
        guard let (ticket, worker) = tickets.randomElement(using: &generator) else { return nil }
        return chance(95) ? (ticket, worker) : (ticket, WorkerID(rawValue: worker.rawValue + 1))
    }

    private mutating func anyJob() -> DurableJobID {
        oracle.jobs.randomElement(using: &generator)?.job.id ?? DurableJobID()
    }
}

extension DurableJob {
    /// The payload of a test's job.
    var name: String { String(decoding: payload, as: UTF8.self) }
}
