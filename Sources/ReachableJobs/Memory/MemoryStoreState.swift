internal import DequeModule
internal import FoundationEssentials

/// The jobs, lanes and workers of a ``MemoryStore``, and the rules of ``JobStore``.
///
/// Pure: ``advance(to:leaseTime:date:)`` takes the times of the operations that follow it. What the shell has to do after an
/// operation is in ``hint`` and ``released``. An operation that throws has changed nothing.
struct MemoryStoreState: Sendable {
    /// A registered worker whose lease has not ended.
    struct Worker: Sendable {
        let queue: Int32
        let node: String
        /// The end of its lease, on the clock of the leases.
        var leaseEnd: StoreInstant
        /// The store's time of its last heartbeat.
        var seen: StoreInstant
        /// The positions of the jobs that it has claimed.
        var claims: Set<Int64> = []
        /// The lanes that its last claim named.
        var openLanes: [Int32] = []
    }

    struct Queue: Sendable {
        let name: String
        var isPaused = false
        var unfinished = 0
        var deadlines = DeadlineQueue()
        /// Its lanes by number.
        var lanes: [Int32] = []
    }

    /// A server or resource that one server's order holds.
    struct Hold: Sendable {
        struct Key: Hashable, Sendable {
            var queue: Int32
            var scope: String
            var destination: String?
        }

        var until = StoreInstant(nanoseconds: .min)
        var lanes: [Int32] = []
    }

    struct LaneKey: Hashable, Sendable {
        var queue: Int32
        var kind: String
        var version: Int
        var scope: String
        var destination: String?
    }

    /// A job that has ended.
    struct Ended: Sendable {
        var position: Int64
        var time: StoreInstant
    }

    var jobs = StoredJobTable()
    var positions: [DurableJobID: Int64] = [:]
    var queues: [Queue] = []
    var queueNumbers: [String: Int32] = [:]
    /// The lanes by their index, which a later lane takes over.
    var lanes: [MemoryLane] = []
    var laneNumbers = LaneNumbers()
    var holds: [Hold] = []
    var holdNumbers: [Hold.Key: Int32] = [:]
    /// The indexes of deleted holds.
    var freeHolds: [Int32] = []
    var chains: [ChainKey: KeyChain] = [:]
    private(set) var workers: [WorkerID: Worker] = [:]
    private var lastWorker: Int64 = 0
    /// The end of the first lease, or earlier, on the clock of the leases.
    private var nextLeaseEnd = StoreInstant(nanoseconds: .max)
    /// The number of the last claim of a job, and of the last call of ``claim(_:_:)``.
    var lastClaim: Int64 = 0
    var lastRequest: Int64 = 0
    /// Jobs by the time of their end; retried ones stay until they come first.
    var succeeded: Deque<Ended> = []
    var unsuccessful: Deque<Ended> = []
    /// Failed jobs that are due to be pruned but block others.
    var retained: Deque<Ended> = []
    /// The store's time.
    private(set) var now = StoreInstant(nanoseconds: 0)
    /// The time of the leases, which stands still while the machine is suspended.
    private var leaseTime = StoreInstant(nanoseconds: 0)
    /// The wall-clock time, for people.
    private(set) var date = Date.distantPast

    /// True if listeners need a hint.
    var hint = false
    /// Payloads that are not used any more; the shell frees them without its lock.
    var released: [Data] = []

    init() {}

    // MARK: - Time and workers

    /// Moves the time, and frees the claims of workers whose lease has ended.
    mutating func advance(to time: StoreInstant, leaseTime: StoreInstant, date: Date) {
        now = max(now, time)
        self.leaseTime = max(self.leaseTime, leaseTime)
        self.date = date
        guard nextLeaseEnd <= self.leaseTime else { return }
        for (id, worker) in workers where worker.leaseEnd <= self.leaseTime { end(id, .leaseEnded) }
        nextLeaseEnd = workers.values.map(\.leaseEnd).min() ?? StoreInstant(nanoseconds: .max)
    }

    /// Adds a worker.
    mutating func register(queue: String, node: String) -> WorkerID {
        lastWorker += 1
        let id = WorkerID(rawValue: lastWorker)
        let leaseEnd = leaseTime.advanced(by: StoreLease.duration)
        workers[id] = Worker(queue: number(ofQueue: queue), node: node, leaseEnd: leaseEnd, seen: now)
        nextLeaseEnd = min(nextLeaseEnd, leaseEnd)
        return id
    }

    /// Extends a lease; `nil` if it has ended.
    mutating func extend(_ id: WorkerID) -> WorkerStatus? {
        workers[id]?.leaseEnd = leaseTime.advanced(by: StoreLease.duration)
        workers[id]?.seen = now
        return status(of: id)
    }

    /// Returns the state of a worker; `nil` if its lease has ended.
    func status(of id: WorkerID) -> WorkerStatus? {
        guard let worker = workers[id] else { return nil }
        let cancelled = worker.claims.sorted().map { jobs[$0] }.filter(\.isCancelRequested)
        return WorkerStatus(cancelled: cancelled.map { JobTicket(id: $0.id, claim: $0.claim) })
    }

    /// The reason why a worker ends.
    enum WorkerEnd {
        /// In good order.
        case unregistered
        /// The process ended while the machine stayed up: attempts that had started have crashed.
        case crashed
        /// Its lease ended, or the machine rebooted: nothing is counted.
        case leaseEnded
    }

    /// Removes a worker; its jobs are available again.
    mutating func end(_ id: WorkerID, _ reason: WorkerEnd) {
        guard let leaseEnd = workers[id]?.leaseEnd else { return }
        // The lease may have ended a while ago.
        openLanes([], of: id, at: now.advanced(by: min(.zero, leaseTime.duration(to: leaseEnd))))
        guard let worker = workers.removeValue(forKey: id) else { return }
        for position in worker.claims.sorted() {
            if jobs[position].isStarted && reason != .unregistered {
                if reason == .crashed { jobs[position].history.counters.crashes += 1 }
                jobs[position].history.hasUnknownOutcome = true
            }
            release(position)
        }
    }

    /// Removes all workers, as a reboot does.
    mutating func endAllWorkers() {
        for id in workers.keys { end(id, .leaseEnded) }
    }

    /// Ends a claim without a result.
    mutating func release(_ position: Int64) {
        setState(position, jobs[position].isCancelRequested ? .cancelled : .available)
        hint = true
    }

    /// Replaces the lanes that a worker's last claim named.
    mutating func openLanes(_ opened: [Int32], of id: WorkerID, at time: StoreInstant) {
        guard let closed = workers[id]?.openLanes, closed != opened else { return }
        for lane in opened { lanes[Int(lane)].clock.open(time) }
        for lane in closed { lanes[Int(lane)].clock.close(time) }
        workers[id]?.openLanes = opened
    }

    /// Makes all workers forget deleted lanes.
    mutating func forgetLanes(_ removed: Set<Int32>) {
        for (id, worker) in workers where worker.openLanes.contains(where: removed.contains) {
            workers[id]?.openLanes.removeAll(where: removed.contains)
        }
    }

    mutating func addClaim(_ position: Int64, to id: WorkerID) { workers[id]?.claims.insert(position) }

    // MARK: - Jobs

    /// Changes the state of a job, and what depends on it.
    ///
    /// The caller sets what else changes before it calls this.
    mutating func setState(_ position: Int64, _ state: DurableJob.State) {
        let before = jobs[position].state
        takeOut(position)
        jobs[position].state = state
        let queue = Int(lanes[Int(jobs[position].lane)].queue)
        queues[queue].unfinished += (state.isFinal ? 0 : 1) - (before.isFinal ? 0 : 1)
        if before == .running, state != .running {
            workers[WorkerID(rawValue: jobs[position].worker)]?.claims.remove(position)
            (jobs[position].worker, jobs[position].isStarted) = (0, false)
        }
        if state.isFinal {
            jobs[position].isCancelRequested = false
            jobs[position].history.finished = date
            jobs[position].history.ended = now
            let ended = Ended(position: position, time: now)
            if state == .succeeded { succeeded.append(ended) } else { unsuccessful.append(ended) }
        }
        if state == .available { noteDeadline(of: position) }
        updateChains(of: position)
    }

    /// Puts a job into its lane's heaps, or takes it out of them if it may not run.
    mutating func settle(_ position: Int64) {
        takeOut(position)
        guard let job = jobs.job(at: position), job.state == .available, !isBlocked(job) else { return }
        lanes[Int(job.lane)].insert(position, &jobs, now)
    }

    /// Takes a job out of its lane's heaps.
    mutating func takeOut(_ position: Int64) {
        guard let job = jobs.job(at: position), job.place != .nowhere else { return }
        lanes[Int(job.lane)].remove(position, &jobs, now)
    }

    /// True if a job waits for another one with one of its keys.
    func isBlocked(_ job: StoredJob) -> Bool {
        keys(of: job).contains { chains[$0].map { !$0.admits(job.position) } ?? false }
    }

    /// Takes note of a job's state in its chains; settles it and the first jobs of the chains.
    mutating func updateChains(of position: Int64) {
        var affected: Set = [position]
        for key in keys(of: jobs[position]) {
            affected.formUnion(chains[key]?.first.map { [$0] } ?? [])
            chains[key, default: KeyChain()].update(position, key, jobs)
            if let first = chains[key]?.first { affected.insert(first) } else { chains[key] = nil }
        }
        for position in affected { settle(position) }
    }

    func keys(of job: StoredJob) -> [ChainKey] {
        guard job.serialKey != nil || job.uniqueKey != nil else { return [] }
        let lane = lanes[Int(job.lane)]
        var keys: [ChainKey] = []
        if let key = job.serialKey { keys.append(ChainKey(queue: lane.queue, kind: nil, key: key)) }
        if let key = job.uniqueKey { keys.append(ChainKey(queue: lane.queue, kind: lane.lane.kind, key: key)) }
        return keys
    }

    /// The public form of a job.
    func durable(_ job: StoredJob) -> DurableJob {
        let lane = lanes[Int(job.lane)]
        return DurableJob(
            job, in: lane.lane, queue: queues[Int(lane.queue)].name, isBlocked: job.state == .available && isBlocked(job))
    }
}
