import FoundationEssentials
import ReachableJobs
import ReachableRetry

/// The promises of a store, by the simplest means: one array of jobs, searched from end to end for each answer.
struct StoreOracle {
    struct Worker {
        var queue: String
        var node: String
        var leaseEnd: StoreInstant
        /// The lanes that its last claim named.
        var lanes: Set<Lane.ID> = []
    }

    struct Job {
        var job: DurableJob
        var claim: Int64 = 0
        var worker: WorkerID?
        var isStarted = false
        /// The node that its network delay binds; `nil` for all.
        var boundNode: String?
        /// The workers that could not decode it.
        var undecodableBy: Set<WorkerID> = []
        var ended: StoreInstant?
        /// The bounds of its runnable time: the store may begin to count when a claim has seen that the job may run.
        var least = Duration.zero
        var most = Duration.zero
        var isSeen = false
    }

    struct Site: Hashable {
        var queue: String
        var scope: String
        var destination: String?
    }

    var now = StoreInstant(nanoseconds: 0)
    let date: Date
    var jobs: [Job] = []
    var lanes: [(queue: String, lane: Lane)] = []
    private(set) var lastLane: Lane.ID = 0
    var workers: [WorkerID: Worker] = [:]
    var holds: [Site: StoreInstant] = [:]
    var paused: Set<String> = []
    /// True for a store that may tell of jobs too early that are blocked, or that a worker cannot decode.
    var mayTellEarly = false
    private var lastPosition: Int64 = 0

    init(date: Date) { self.date = date }

    // MARK: - What may run

    /// The end of the delays that nothing voids.
    func fixedDue(_ job: DurableJob) -> StoreInstant {
        let soft = job.softDelay.flatMap { $0.isNetwork ? nil : $0.until }
        return [job.notBefore, job.hardUntil, soft].compactMap(\.self).max() ?? StoreInstant(nanoseconds: .min)
    }

    /// The time from which a job may run on a node; `nil` for all nodes.
    func due(_ index: Int, edge: StoreInstant?, node: String? = nil) -> StoreInstant {
        let job = jobs[index].job
        guard let soft = job.softDelay, soft.isNetwork, !(edge.map { soft.since < $0 } ?? false) else { return fixedDue(job) }
        if let node, let bound = jobs[index].boundNode, bound != node { return fixedDue(job) }
        return max(fixedDue(job), soft.until)
    }

    func isBlocked(_ index: Int) -> Bool {
        let job = jobs[index].job
        guard job.state == .available else { return false }
        return jobs.contains { other in
            let other = other.job
            guard other.id != job.id, other.queue == job.queue else { return false }
            let isAhead = other.position < job.position
            let sharesSerial = job.serialKey != nil && other.serialKey == job.serialKey
            let sharesUnique = job.uniqueKey != nil && other.uniqueKey == job.uniqueKey && other.kind == job.kind
            if other.state == .running { return sharesSerial || sharesUnique }
            if other.state == .available { return isAhead && (sharesSerial || sharesUnique) }
            return other.state == .failed && !other.continuesAfterFailure && isAhead && sharesSerial
        }
    }

    func hold(_ job: DurableJob) -> StoreInstant {
        holds[Site(queue: job.queue, scope: job.scope, destination: job.destination)] ?? StoreInstant(nanoseconds: .min)
    }

    func lane(of job: DurableJob) -> Lane.ID {
        let found = lanes.first { entry in
            entry.queue == job.queue && entry.lane.kind == job.kind && entry.lane.version == job.version
                && entry.lane.scope == job.scope && entry.lane.destination == job.destination
        }
        return found?.lane.id ?? 0
    }

    // MARK: - Time

    mutating func advance(to time: StoreInstant) {
        for index in jobs.indices where jobs[index].job.state == .available && !isBlocked(index) {
            let lane = lane(of: jobs[index].job)
            let leases = workers.values.filter { $0.lanes.contains(lane) }.map(\.leaseEnd)
            guard let open = leases.max() else { continue }
            let end = min(open, time)
            let start = max(now, hold(jobs[index].job))
            let begin = max(start, due(index, edge: StoreInstant(nanoseconds: .max)))
            jobs[index].most += max(.zero, begin.duration(to: end))
            if jobs[index].isSeen { jobs[index].least += max(.zero, start.duration(to: end)) }
        }
        now = time
        for (id, worker) in workers where worker.leaseEnd <= now { end(id, isCrash: false) }
    }

    mutating func end(_ id: WorkerID, isCrash: Bool, isOrderly: Bool = false) {
        workers[id] = nil
        for index in jobs.indices { jobs[index].undecodableBy.remove(id) }
        for index in jobs.indices where jobs[index].worker == id {
            if isCrash, jobs[index].isStarted { jobs[index].job.counters.crashes += 1 }
            if !isOrderly, jobs[index].isStarted { jobs[index].job.hasUnknownOutcome = true }
            free(index)
        }
    }

    mutating func free(_ index: Int) {
        if jobs[index].job.isCancelRequested { finish(index, .cancelled) } else { set(index, .available) }
    }

    private mutating func set(_ index: Int, _ state: DurableJob.State) {
        jobs[index].job.state = state
        (jobs[index].worker, jobs[index].isStarted, jobs[index].isSeen) = (nil, false, false)
    }

    private mutating func finish(_ index: Int, _ state: DurableJob.State) {
        set(index, state)
        jobs[index].job.isCancelRequested = false
        (jobs[index].job.finished, jobs[index].ended) = (date, now)
    }

    // MARK: - Calls

    /// Returns the receipts; `nil` if a queue would be too full.
    mutating func push(_ pushed: [NewJob], limit: Int?) -> [PushReceipt]? {
        var copy = self
        let receipts = pushed.map { copy.push($0) }
        if let limit {
            for queue in Set(pushed.map(\.queue)) {
                let before = unfinished(queue)
                let after = copy.unfinished(queue)
                if after > limit, after > before { return nil }
            }
        }
        self = copy
        return receipts
    }

    private func unfinished(_ queue: String) -> Int { jobs.count { $0.job.queue == queue && !$0.job.state.isFinal } }

    private mutating func push(_ new: NewJob) -> PushReceipt {
        let last = new.unique.flatMap { unique in
            jobs.lastIndex {
                $0.job.queue == new.queue && $0.job.kind == new.kind && $0.job.uniqueKey == unique.key && !$0.job.state.isFinal
            }
        }
        if let last {
            if case .keep = new.unique { return PushReceipt(id: jobs[last].job.id, outcome: .kept) }
            if case .replace = new.unique, jobs[last].job.state == .available, jobs[last].job.counters.started == 0 {
                let fresh = DurableJob(new, position: 0, now: now, created: date)
                jobs[last].job.payload = fresh.payload
                jobs[last].job.version = fresh.version
                (jobs[last].job.scope, jobs[last].job.destination) = (fresh.scope, fresh.destination)
                (jobs[last].job.notBefore, jobs[last].job.deadline) = (fresh.notBefore, fresh.deadline)
                jobs[last].job.idempotencyKey = fresh.idempotencyKey
                jobs[last].job.traceContext = fresh.traceContext
                jobs[last].isSeen = false
                jobs[last].undecodableBy = []
                addLane(jobs[last].job)
                return PushReceipt(id: jobs[last].job.id, outcome: .replaced)
            }
        }
        lastPosition += 1
        jobs.append(Job(job: DurableJob(new, position: lastPosition, now: now, created: date)))
        addLane(jobs[jobs.count - 1].job)
        return PushReceipt(id: new.id, outcome: last == nil ? .added : .appended)
    }

    private mutating func addLane(_ job: DurableJob) {
        guard lane(of: job) == 0 else { return }
        lastLane += 1
        let lane = Lane(
            id: lastLane, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination)
        lanes.append((job.queue, lane))
    }

    func index(of ticket: JobTicket, _ worker: WorkerID) -> Int? {
        jobs.firstIndex { $0.job.id == ticket.id && $0.worker == worker && $0.claim == ticket.claim }
    }

    mutating func start(_ ticket: JobTicket, _ worker: WorkerID) -> Bool {
        guard let index = index(of: ticket, worker), !jobs[index].job.isCancelRequested else { return false }
        if !jobs[index].isStarted { jobs[index].job.counters.started += 1 }
        jobs[index].isStarted = true
        return true
    }

    mutating func finish(_ result: AttemptResult, _ worker: WorkerID) -> FinishOutcome {
        guard let index = index(of: result.ticket, worker) else { return .refused }
        let isUnwanted = jobs[index].job.isCancelRequested
        let crashes = jobs[index].job.counters.crashes
        jobs[index].job.counters = result.counters
        jobs[index].job.counters.crashes = crashes
        if let error = result.error { jobs[index].job.lastError = error }
        let (earlier, bound, node) = (jobs[index].job.softDelay, jobs[index].boundNode, workers[worker]?.node)
        (jobs[index].job.softDelay, jobs[index].job.hardUntil) = (nil, nil)
        if let duration = result.holdsDestination {
            let job = jobs[index].job
            let site = Site(queue: job.queue, scope: job.scope, destination: job.destination)
            holds[site] = max(hold(job), now.advanced(by: duration))
        }
        switch result.outcome {
        case .succeeded: finish(index, .succeeded)
        case .cancelled: finish(index, .cancelled)
        case .failed(let reason):
            jobs[index].job.failureReason = reason
            finish(index, .failed)
        case .again(let soft, let isNetwork, let hard):
            if jobs[index].job.isCancelRequested {
                finish(index, .cancelled)
            } else {
                let until = now.advanced(by: soft)
                jobs[index].job.softDelay = soft > .zero ? .init(until: until, since: now, isNetwork: isNetwork) : nil
                let isWithin = earlier.map { $0.isNetwork && $0.until > now } ?? false
                jobs[index].boundNode = isWithin && bound != node ? nil : node
                jobs[index].job.hardUntil = hard.map { now.advanced(by: $0) }
                set(index, .available)
            }
        case .undecodable:
            jobs[index].undecodableBy.insert(worker)
            if jobs[index].job.isCancelRequested { finish(index, .cancelled) } else { set(index, .available) }
        }
        return switch result.outcome {
        case .again, .undecodable: isUnwanted ? .cancelled : .recorded
        case .succeeded, .failed, .cancelled: .recorded
        }
    }

    mutating func cancel(_ id: DurableJobID) -> CancelOutcome {
        guard let index = jobs.firstIndex(where: { $0.job.id == id }) else { return .unknown }
        let job = jobs[index].job
        if job.state == .running {
            jobs[index].job.isCancelRequested = true
            return .requested
        }
        guard job.state == .available || job.state == .failed && job.serialKey != nil && !job.continuesAfterFailure else {
            return .ended
        }
        finish(index, .cancelled)
        return .cancelled
    }

    mutating func retry(_ id: DurableJobID) -> Bool {
        guard let index = jobs.firstIndex(where: { $0.job.id == id && [.failed, .cancelled].contains($0.job.state) }) else {
            return false
        }
        set(index, .available)
        (jobs[index].job.counters, jobs[index].job.softDelay, jobs[index].job.hardUntil) = (.init(), nil, nil)
        (jobs[index].job.failureReason, jobs[index].job.finished, jobs[index].ended) = (nil, nil, nil)
        (jobs[index].undecodableBy, jobs[index].job.hasUnknownOutcome) = ([], false)
        if let deadline = jobs[index].job.deadline, deadline <= now { jobs[index].job.deadline = nil }
        return true
    }

    /// Returns the jobs that may be deleted.
    func prunable(_ retention: Retention) -> Set<DurableJobID> {
        let found = jobs.filter { entry in
            guard let ended = entry.ended else { return false }
            let kept = entry.job.state == .succeeded ? retention.succeeded : retention.failed
            guard ended.advanced(by: kept) <= now else { return false }
            let job = entry.job
            guard job.state == .failed, job.serialKey != nil, !job.continuesAfterFailure else { return true }
            return !jobs.contains {
                $0.job.queue == job.queue && $0.job.serialKey == job.serialKey && $0.job.position > job.position
                    && !$0.job.state.isFinal
            }
        }
        return Set(found.map(\.job.id))
    }

    /// Deletes the lanes without jobs that no server's order holds.
    mutating func pruneLanes() {
        let used = Set(jobs.map { lane(of: $0.job) })
        lanes = lanes.filter { entry in
            let site = Site(queue: entry.queue, scope: entry.lane.scope, destination: entry.lane.destination)
            return holds[site, default: now] > now || used.contains(entry.lane.id)
        }
    }

    /// The jobs as a store returns them.
    var durable: [DurableJob] {
        jobs.indices.map { index in
            var job = jobs[index].job
            job.isBlocked = isBlocked(index)
            return job
        }
    }
}
