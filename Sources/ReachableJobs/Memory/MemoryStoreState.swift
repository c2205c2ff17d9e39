internal import FoundationEssentials
internal import ReachableRetry

/// The jobs, lanes and workers of a ``MemoryStore``, and the rules of ``JobStore`` in their plainest form.
///
/// Other stores are compared with it. It keeps almost nothing that can be found by looking at all jobs, so that a call takes time
/// in proportion to their number. Pure: ``advance(to:leaseTime:nodeTime:date:)`` takes the times of the operations that follow it.
/// An operation that throws has changed nothing.
struct MemoryStoreState: Sendable {
    /// The jobs that a server's order holds together.
    fileprivate struct Target: Hashable {
        var queue: Bytes
        var scope: Bytes
        var destination: Bytes?
    }

    /// The properties that the jobs of a lane have in common.
    fileprivate struct LaneKey: Hashable {
        var target: Target
        var kind: Bytes
        var version: Int

        init(queue: String, kind: String, version: Int, scope: String, destination: String?) {
            target = Target(queue: Bytes(queue), scope: Bytes(scope), destination: destination.map(Bytes.init))
            (self.kind, self.version) = (Bytes(kind), version)
        }
    }

    /// The jobs that run one after the other: with a serial key of a queue, or with a unique key of a queue and kind.
    fileprivate struct Chain: Hashable {
        var key: JobExplanation.Blocker.Key
        var queue: Bytes
        var kind: Bytes?
        var text: Bytes
    }

    /// The jobs that keep those of a chain waiting, by position.
    fileprivate struct Holders {
        var first: Int64
        var running: Int64?
    }

    struct Entry: StoredJob, Sendable {
        var job: DurableJob
        var lane: Lane.ID
        fileprivate var chains: [Chain]
        var claim: Int64 = 0
        var worker: WorkerID?
        var isStarted = false
        var ended: StoreInstant?

        fileprivate init(_ job: DurableJob, lane: Lane.ID) {
            (self.job, self.lane) = (job, lane)
            let queue = Bytes(job.queue)
            chains = [
                job.serialKey.map { Chain(key: .serial, queue: queue, text: Bytes($0)) },
                job.uniqueKey.map { Chain(key: .unique, queue: queue, kind: Bytes(job.kind), text: Bytes($0)) },
            ].compactMap(\.self)
        }
    }

    struct Worker: Sendable {
        let queue: String
        let node: String
        var leaseEnd: StoreInstant
        var seen: StoreInstant
    }

    var entries: [Entry] = []
    private var positions: [DurableJobID: Int64] = [:]
    private var lanes: [Lane.ID: (lane: Lane, key: LaneKey)] = [:]
    private var laneIDs: [LaneKey: Lane.ID] = [:]
    private var holds: [Target: StoreInstant] = [:]
    private var paused: Set<Bytes> = []
    private(set) var workers: [WorkerID: Worker] = [:]
    private var (lastPosition, lastWorker, lastClaim): (Int64, Int64, Int64) = (0, 0, 0)
    private(set) var lastLane: Lane.ID = 0
    private(set) var now = StoreInstant(nanoseconds: 0)
    /// The time of the leases, which stands still while the machine is suspended.
    private(set) var leaseTime = StoreInstant(nanoseconds: 0)
    /// The boot clock, and the number of the boot.
    private var (nodeTime, boot): (Int64, Int) = (0, 1)
    private var date = Date.distantPast

    var hint = false

    /// Moves the time.
    mutating func advance(to time: StoreInstant, leaseTime: StoreInstant, nodeTime: Int64, date: Date) {
        now = max(now, time)
        self.leaseTime = max(self.leaseTime, leaseTime)
        (self.nodeTime, self.date) = (nodeTime, date)
    }

    /// Frees the claims of other workers whose lease has ended; that of a worker itself may come late.
    private mutating func sweep(but own: WorkerID) {
        for (id, worker) in workers where id != own && !isLeased(worker) { end(id, .leaseEnded) }
    }

    private func isLeased(_ worker: Worker) -> Bool { worker.leaseEnd > leaseTime }

    // MARK: - Pushing

    mutating func push(_ pushed: [NewJob], limit: Int?) throws(JobStoreError) -> [PushReceipt] {
        if let error = JobStoreError.tooLarge(pushed) { throw error }
        let before = limit == nil ? nil : self
        let receipts = pushed.map { push($0) }
        let added = zip(pushed, receipts).filter { $1.outcome == .added || $1.outcome == .appended }
        do {
            try checkRoom(added.map(\.0.queue), limit)
        } catch {
            if let before { self = before }
            throw error
        }
        return receipts
    }

    private func checkRoom(_ queues: [String], _ limit: Int?) throws(JobStoreError) {
        guard let limit else { return }
        for queue in queues {
            let count = entries.count { !$0.job.state.isFinal && Bytes($0.job.queue) == Bytes(queue) }
            if count > limit { throw .full(queue: queue, limit: limit) }
        }
    }

    private mutating func push(_ job: NewJob) -> PushReceipt {
        guard positions[job.id] == nil else { return PushReceipt(id: job.id, outcome: .kept) }
        let last = job.unique.flatMap { lastHolder(queue: job.queue, kind: job.kind, uniqueKey: $0.key) }
        switch (job.unique, last) {
        case (.keep, let last?):
            return PushReceipt(id: entries[last].job.id, outcome: .kept)
        case (.replace, let last?) where !entries[last].hasStarted:
            replace(last, by: job)
            return PushReceipt(id: entries[last].job.id, outcome: .replaced)
        default:
            lastPosition += 1
            let new = DurableJob(job, position: lastPosition, now: now, created: date)
            entries.append(Entry(new, lane: lane(of: job)))
            positions[job.id] = lastPosition
            hint = true
            return PushReceipt(id: job.id, outcome: last == nil ? .added : .appended)
        }
    }

    private mutating func replace(_ index: Int, by job: NewJob) {
        let old = entries[index]
        // Without a worker: a claim that has not started ends.
        entries[index] = Entry(old.job.replaced(by: job, now: now), lane: lane(of: job))
        entries[index].claim = old.claim
        hint = true
    }

    private func lastHolder(queue: String, kind: String, uniqueKey: String) -> Int? {
        let chain = Chain(key: .unique, queue: Bytes(queue), kind: Bytes(kind), text: Bytes(uniqueKey))
        return entries.lastIndex { $0.job.holds(.unique) && !$0.job.isCancelRequested && $0.chains.contains(chain) }
    }

    private mutating func lane(of job: NewJob) -> Lane.ID {
        let key = LaneKey(
            queue: job.queue, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination)
        if let id = laneIDs[key] { return id }
        lastLane += 1
        let lane = Lane(
            id: lastLane, kind: job.kind, version: job.version, scope: job.scope, destination: job.destination)
        lanes[lastLane] = (lane, key)
        laneIDs[key] = lastLane
        return lastLane
    }

    // MARK: - Claiming

    mutating func claim(_ request: ClaimRequest) -> Claims? {
        guard let worker = workers[request.worker] else { return nil }
        sweep(but: request.worker)
        let queue = Bytes(worker.queue)
        let new = lanes.values.filter { $0.key.target.queue == queue && $0.lane.id > request.lastKnownLane }.map(\.lane)
        var claims = Claims(
            jobs: [], newLanes: new.sorted { $0.id < $1.id }, cancelled: cancelled(of: request.worker),
            isPaused: paused.contains(queue), hasMore: false, nextDue: nil, now: now)
        if claims.isPaused { return claims }
        var open: [Lane.ID: ClaimRequest.Open] = [:]
        for named in request.lanes {
            let isThere = lanes[named.lane]?.key.target.queue == queue
            // The first one counts of a lane that is named twice.
            if !isThere { claims.goneLanes.insert(named.lane) } else if open[named.lane] == nil { open[named.lane] = named }
        }
        let candidates = candidates(open, node: worker.node, &claims.nextDue)
        for (_, index) in candidates.sorted(by: { ($1.priority, $0.index) < ($0.priority, $1.index) }) {
            let lane = entries[index].lane
            guard claims.jobs.count < request.limit, let left = open[lane]?.limit, left > 0 else {
                claims.hasMore = true
                continue
            }
            open[lane]?.limit = left - 1
            claims.jobs.append(take(index, for: request.worker))
        }
        return claims
    }

    /// Returns the jobs of open lanes that may run now, with the priority that they have for a claim.
    ///
    /// - Parameter nextDue: Set to the time at which the next of the others may run.
    private func candidates(
        _ open: [Lane.ID: ClaimRequest.Open], node: String, _ nextDue: inout StoreInstant?
    ) -> [(priority: JobPriority, index: Int)] {
        let holders = holders()
        var found: [(priority: JobPriority, index: Int)] = []
        /// The time from which the bulk jobs of a lane that may run count as normal ones.
        var ageing: [Lane.ID: StoreInstant] = [:]
        for (index, entry) in entries.enumerated() where entry.job.state == .available {
            guard let lane = open[entry.lane], !isBlocked(entry, holders) else { continue }
            let hold = lanes[entry.lane].flatMap { holds[$0.key.target] } ?? now
            let start = max(hold, start(of: entry.job, on: node, edge: lane.edge))
            if start > now {
                nextDue = min(nextDue ?? start, start)
            } else if entry.job.priority == .bulk {
                let time = max(ageing[entry.lane] ?? entry.job.ageing, entry.job.ageing)
                ageing[entry.lane] = time
                found.append((time <= now ? .normal : .bulk, index))
            } else {
                found.append((entry.job.priority, index))
            }
        }
        return found
    }

    /// Returns the time from which a node may run a job; the past if it may now.
    private func start(of job: DurableJob, on node: String, edge: Int64) -> StoreInstant {
        let start = job.heldUntil ?? now
        guard let avoidance = job.avoidance else { return start }
        if Bytes(avoidance.node) != Bytes(node) { return max(start, job.handOver ?? start) }
        guard avoidance.bootID == bootID, avoidance.since >= edge else { return start }
        return max(start, now.advanced(by: .nanoseconds(avoidance.until - nodeTime)))
    }

    var bootID: String { "\(boot)" }

    private mutating func take(_ index: Int, for worker: WorkerID) -> Claims.Claimed {
        lastClaim += 1
        (entries[index].claim, entries[index].worker, entries[index].job.state) = (lastClaim, worker, .running)
        return Claims.Claimed(job: entries[index].job, claim: lastClaim)
    }

    // MARK: - Chains

    private func holders() -> [Chain: Holders] {
        var holders: [Chain: Holders] = [:]
        for entry in entries {
            for chain in entry.chains where entry.job.holds(chain.key) {
                let position = entry.job.position
                if holders[chain] == nil { holders[chain] = Holders(first: position) }
                if entry.job.state == .running { holders[chain]?.running = position }
            }
        }
        return holders
    }

    private func blocker(of entry: Entry, _ chain: Chain, _ holders: [Chain: Holders]) -> Int64? {
        guard entry.job.state == .available, let holder = holders[chain] else { return nil }
        // A job that is retried may come back before one that runs.
        return holder.first < entry.job.position ? holder.first : holder.running
    }

    private func isBlocked(_ entry: Entry, _ holders: [Chain: Holders]) -> Bool {
        entry.chains.contains { blocker(of: entry, $0, holders) != nil }
    }

    private func durable(_ entry: Entry, _ holders: [Chain: Holders]) -> DurableJob {
        var job = entry.job
        job.isBlocked = isBlocked(entry, holders)
        return job
    }

    // MARK: - Attempts

    mutating func start(_ ticket: JobTicket, by worker: WorkerID) -> Bool {
        guard let index = index(of: ticket, by: worker), !entries[index].job.isCancelRequested else { return false }
        if !entries[index].isStarted { entries[index].job.counters.started += 1 }
        entries[index].isStarted = true
        return true
    }

    mutating func finish(_ result: AttemptResult, by worker: WorkerID) -> FinishOutcome {
        guard let index = index(of: result.ticket, by: worker), let node = workers[worker]?.node else { return .refused }
        if let duration = result.holdsDestination, let target = lanes[entries[index].lane]?.key.target {
            let until = min(result.time ?? now, now).advanced(by: duration)
            holds[target] = max(holds[target] ?? until, until)
        }
        return change(index) { $0.finish(result, node: node, at: $1) }
    }

    private mutating func change<Answer>(_ index: Int, _ body: (inout Entry, StoreMoment) -> Answer) -> Answer {
        let answer = body(&entries[index], StoreMoment(now: now, bootID: bootID, boot: nodeTime, date: date))
        // A follower may run now, too.
        if !entries[index].job.state.isFinal || !entries[index].chains.isEmpty { hint = true }
        return answer
    }

    private func index(of ticket: JobTicket, by worker: WorkerID) -> Int? {
        guard let index = index(of: ticket.id), entries[index].worker == worker, entries[index].claim == ticket.claim else {
            return nil
        }
        return index
    }

    func index(of id: DurableJobID) -> Int? {
        guard let position = positions[id] else { return nil }
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].job.position < position { low = middle + 1 } else { high = middle }
        }
        return low
    }

    // MARK: - Workers

    mutating func register(queue: String, node: String) -> WorkerID {
        lastWorker += 1
        let id = WorkerID(rawValue: lastWorker)
        workers[id] = Worker(queue: queue, node: node, leaseEnd: leaseTime.advanced(by: StoreLease.duration), seen: now)
        return id
    }

    mutating func extend(_ id: WorkerID) -> [JobTicket]? {
        sweep(but: id)
        guard workers[id] != nil else { return nil }
        workers[id]?.leaseEnd = leaseTime.advanced(by: StoreLease.duration)
        workers[id]?.seen = now
        return cancelled(of: id)
    }

    private func cancelled(of id: WorkerID) -> [JobTicket] {
        entries.filter { $0.worker == id && $0.job.isCancelRequested }.map { JobTicket(id: $0.job.id, claim: $0.claim) }
    }

    mutating func end(_ id: WorkerID, _ reason: WorkerEnd) {
        guard workers.removeValue(forKey: id) != nil else { return }
        for index in entries.indices where entries[index].worker == id {
            change(index) { $0.release(reason, at: $1) }
        }
    }

    mutating func reboot() {
        boot += 1
        for id in workers.keys { end(id, .leaseEnded) }
    }

    func registeredWorkers(of queue: String?) -> [RegisteredWorker] {
        let queue = queue.map(Bytes.init)
        let listed = workers.filter { isLeased($1) && (queue == nil || queue == Bytes($1.queue)) }
        return listed.sorted { $0.key.rawValue < $1.key.rawValue }.map { id, worker in
            RegisteredWorker(
                id: id, queue: worker.queue, node: worker.node, claims: entries.count { $0.worker == id },
                sinceHeartbeat: worker.seen.duration(to: now))
        }
    }

    // MARK: - Management

    mutating func expire(queue: String, limit: Int) -> ExpiredJobs {
        let waiting = entries.indices.filter { index in
            let job = entries[index].job
            return job.state == .available && job.deadline != nil && Bytes(job.queue) == Bytes(queue)
        }
        let sorted = waiting.map { (deadline: entries[$0].job.deadline ?? now, index: $0) }
            .sorted { ($0.deadline, $0.index) < ($1.deadline, $1.index) }
        let late = sorted.prefix { $0.deadline <= now }.count
        let failed = sorted.prefix(min(late, max(0, limit)))
        for (_, index) in failed {
            change(index) { $0.fail("deadline", at: $1) }
        }
        return ExpiredJobs(
            jobs: failed.map { entries[$0.index].job }, next: sorted.dropFirst(failed.count).first?.deadline,
            hasMore: late > failed.count)
    }

    mutating func cancel(_ id: DurableJobID) -> CancelOutcome {
        guard let index = index(of: id) else { return .unknown }
        return change(index) { $0.cancel(at: $1) }
    }

    mutating func retry(_ ids: [DurableJobID], limit: Int?) throws(JobStoreError) -> [RetryOutcome] {
        let before = limit == nil ? nil : self
        let outcomes = ids.map { retry($0) }
        let queues = zip(ids, outcomes).compactMap { id, outcome in
            outcome == .retried ? index(of: id).map { entries[$0].job.queue } : nil
        }
        do {
            try checkRoom(queues, limit)
        } catch {
            if let before { self = before }
            throw error
        }
        return outcomes
    }

    private mutating func retry(_ id: DurableJobID) -> RetryOutcome {
        guard let index = index(of: id), [.failed, .cancelled].contains(entries[index].job.state) else { return .notEnded }
        let job = entries[index].job
        if let key = job.uniqueKey, let holder = lastHolder(queue: job.queue, kind: job.kind, uniqueKey: key) {
            return .taken(by: entries[holder].job.id)
        }
        change(index) { $0.retry(at: $1) }
        return .retried
    }

    mutating func endBackoff(_ id: DurableJobID) -> Bool {
        guard let index = index(of: id) else { return false }
        return change(index) { $0.endBackoff(at: $1) }
    }

    mutating func setPaused(_ isPaused: Bool, queue: String) {
        if isPaused { paused.insert(Bytes(queue)) } else { paused.remove(Bytes(queue)) }
        hint = true
    }

    mutating func prune(_ retention: Retention, limit: Int) -> Int {
        guard limit > 0 else { return 0 }
        let prunable = entries.filter { isPrunable($0, retention) }.prefix(limit)
        delete(Set(prunable.map(\.job.id)))
        return prunable.count
    }

    func prunable(_ retention: Retention) -> Set<DurableJobID> {
        Set(entries.filter { isPrunable($0, retention) }.map(\.job.id))
    }

    private func isPrunable(_ entry: Entry, _ retention: Retention) -> Bool {
        let kept = entry.job.state == .succeeded ? retention.succeeded : retention.failed
        guard let ended = entry.ended, ended.advanced(by: kept) <= now else { return false }
        // Those behind it wait for it.
        let held = entry.chains.filter { entry.job.holds($0.key) }
        return !entries.contains { other in
            other.job.position > entry.job.position && !other.job.state.isFinal && other.chains.contains(where: held.contains)
        }
    }

    mutating func delete(_ ids: Set<DurableJobID>) {
        for id in ids { positions[id] = nil }
        entries.removeAll { ids.contains($0.job.id) }
        holds = holds.filter { $0.value > now }
        let used = Set(entries.map(\.lane))
        for (id, lane) in lanes where !used.contains(id) && holds[lane.key.target] == nil {
            (lanes[id], laneIDs[lane.key]) = (nil, nil)
        }
    }

    // MARK: - Reading

    func find(_ filter: JobFilter) -> [DurableJob] {
        let prefix = filter.idPrefix?.lowercased()
        func isEqual(_ wanted: String?, _ text: String?) -> Bool { wanted == nil || wanted.map(Bytes.init) == text.map(Bytes.init) }
        let kinds = filter.kinds.map { Set($0.map(Bytes.init)) }
        let found = entries.lazy.filter { entry in
            let job = entry.job
            return isEqual(filter.queue, job.queue) && isEqual(filter.uniqueKey, job.uniqueKey)
                && isEqual(filter.serialKey, job.serialKey) && isEqual(filter.destination, job.destination)
                && filter.ids?.contains(job.id) != false && filter.states?.contains(job.state) != false
                && kinds?.contains(Bytes(job.kind)) != false && job.position > filter.after ?? .min
                && prefix.map { job.id.description.hasPrefix($0) } != false
        }
        let holders = holders()
        return found.prefix(max(0, filter.limit ?? .max)).map { durable($0, holders) }
    }

    func explain(_ ids: [DurableJobID]) -> [JobExplanation?] {
        let holders = holders()
        return ids.map { id in
            guard let index = index(of: id) else { return nil }
            let entry = entries[index]
            var job = durable(entry, holders)
            job.payload = Data()
            let blockers = entry.chains.compactMap { chain -> JobExplanation.Blocker? in
                guard let position = blocker(of: entry, chain, holders),
                    let other = entries.first(where: { $0.job.position == position })?.job
                else { return nil }
                return JobExplanation.Blocker(id: other.id, state: other.state, key: chain.key)
            }
            let hold = lanes[entry.lane].flatMap { holds[$0.key.target] }.flatMap { $0 > now ? $0 : nil }
            return JobExplanation(
                job: job, isPaused: paused.contains(Bytes(job.queue)),
                workers: workers.values.count { isLeased($0) && Bytes($0.queue) == Bytes(job.queue) }, holdUntil: hold,
                blockers: blockers, worker: entry.worker, isStarted: entry.isStarted, now: now)
        }
    }

    func count(queue: String) -> [JobCount] {
        struct Group: Hashable {
            var state: DurableJob.State
            var kind: Bytes
            var destination: Bytes?
        }
        let groups = Dictionary(grouping: entries.lazy.map(\.job).filter { Bytes($0.queue) == Bytes(queue) }) { job in
            Group(state: job.state, kind: Bytes(job.kind), destination: job.destination.map(Bytes.init))
        }
        func key(_ group: Group) -> (String, Bytes, Bytes) {
            (group.state.rawValue, group.kind, group.destination ?? Bytes(""))
        }
        return groups.sorted { key($0.key) < key($1.key) }.compactMap { _, jobs in
            jobs.first.map { first in
                JobCount(
                    state: first.state, kind: first.kind, destination: first.destination, count: jobs.count,
                    oldest: jobs.map(\.created).min() ?? first.created)
            }
        }
    }
}
