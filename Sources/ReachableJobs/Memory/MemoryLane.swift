internal import ReachableRetry

/// The waiting jobs of a lane: those that may run by priority and position, the delayed ones by time.
///
/// A claim looks at the first entries only, however many jobs wait. Jobs that other jobs block are not in here.
struct MemoryLane: Sendable {
    /// The runnable time after which a bulk job counts as a normal one, in nanoseconds.
    static let ageing: Int64 = 3_600_000_000_000

    /// A job that may run.
    struct Candidate: Comparable, Sendable {
        var priority: JobPriority
        var position: Int64
        /// The lane.
        var lane: Int32

        static func < (left: Candidate, right: Candidate) -> Bool {
            (right.priority, left.position) < (left.priority, right.position)
        }
    }

    /// The workers that do not claim a job.
    private struct Binding: Hashable, Sendable {
        /// The nodes that a network delay binds.
        enum Nodes: Hashable {
            case all
            case one(String)
        }

        /// Until the network delay ends.
        var nodes: Nodes?
        /// The workers that could not decode it.
        var workers: Set<WorkerID>

        /// Returns the time before which failures do not bind a worker; `nil` if the binding does not end.
        func end(edge: StoreInstant?, node: String, worker: WorkerID) -> StoreInstant? {
            if workers.contains(worker) { return nil }
            // A failure of another node's network says nothing about this one's.
            return nodes == .all || nodes == .one(node) ? edge : StoreInstant(nanoseconds: .max)
        }
    }

    /// Jobs that bind the same workers.
    private struct Outage: Sendable {
        /// The jobs by priority and position.
        var voidable = LazyHeap()
        /// Those that had failed after the edge of a claim, by their failures; not in ``voidable``.
        var recent = LazyHeap()

        mutating func insert(_ position: Int64, stamp: UInt32, _ jobs: StoredJobTable) {
            let job = jobs[position]
            let priority = MemoryLane.effective(job.priority, runnable: job.runnable)
            voidable.insert(MemoryLane.key(priority, position), position, stamp: stamp, jobs)
        }

        /// Makes jobs voidable again that failed before an edge.
        mutating func refresh(edge: StoreInstant, _ jobs: StoredJobTable) {
            while let entry = recent.popFirst(through: edge.advanced(by: .nanoseconds(-1)).nanoseconds, jobs) {
                insert(entry.position, stamp: entry.stamp, jobs)
            }
        }

        /// Returns the first job whose delay a reconnect has ended; puts aside those that failed after it.
        mutating func first(before edge: StoreInstant, _ jobs: StoredJobTable) -> LazyHeap.Entry? {
            while let entry = voidable.first(jobs) {
                guard let since = jobs[entry.position].history.softDelay?.since, since >= edge else { return entry }
                _ = voidable.popFirst(through: entry.key, jobs)
                recent.insert(since.nanoseconds, entry.position, stamp: entry.stamp, jobs)
            }
            return nil
        }
    }

    let lane: Lane
    let queue: Int32
    /// The index of its destination's hold.
    let hold: Int32
    var clock = LaneClock()
    /// The number of its jobs, ended ones included.
    var jobs = 0
    /// The number of the last claim that named the lane.
    var lastRequest: Int64 = 0

    /// Jobs that may run, for each priority by position.
    private var ready = [LazyHeap](repeating: LazyHeap(), count: JobPriority.allCases.count)
    /// Ready bulk jobs by the reading of the clock at which their runnable time began.
    private var ageing = LazyHeap()
    /// Jobs by the end of a delay that nothing voids.
    private var delayed = LazyHeap()
    /// Jobs with a delay that a reconnect voids, by its end.
    private var network = LazyHeap()
    /// The same jobs, and those that some workers cannot decode, by the workers that they bind.
    private var outages: [Binding: Outage] = [:]

    init(_ lane: Lane, queue: Int32, hold: Int32) { (self.lane, self.queue, self.hold) = (lane, queue, hold) }

    /// Puts a job where its delays say.
    mutating func insert(_ position: Int64, _ jobs: inout StoredJobTable, _ now: StoreInstant) {
        let job = jobs[position]
        let history = job.history
        let soft = history.softDelay
        let networkUntil = soft.flatMap { $0.isNetwork ? $0.until : nil }
        let otherUntil = soft.flatMap { $0.isNetwork ? nil : $0.until }
        let due = [job.notBefore, history.hardUntil, otherUntil].compactMap(\.self).max()
        let stamp = job.stamp &+ 1
        jobs[position].stamp = stamp
        if let due, due > now {
            jobs[position].place = .delayed
            delayed.insert(due.nanoseconds, position, stamp: stamp, jobs)
        } else if let networkUntil, networkUntil > now {
            jobs[position].place = .network
            network.insert(networkUntil.nanoseconds, position, stamp: stamp, jobs)
            let binding = Binding(nodes: history.boundNode.map(Binding.Nodes.one) ?? .all, workers: history.undecodableBy)
            outages[binding, default: Outage()].insert(position, stamp: stamp, jobs)
        } else if !history.undecodableBy.isEmpty {
            jobs[position].place = .withheld
            let binding = Binding(workers: history.undecodableBy)
            outages[binding, default: Outage()].insert(position, stamp: stamp, jobs)
        } else {
            let reading = clock.reading(now)
            let priority = Self.effective(job.priority, runnable: job.runnable)
            jobs[position].place = .ready
            jobs[position].runnable = reading - job.runnable
            ready[priority.rawValue].insert(position, position, stamp: stamp, jobs)
            if priority == .bulk { ageing.insert(jobs[position].runnable, position, stamp: stamp, jobs) }
        }
    }

    /// Removes a job, and remembers its runnable time.
    mutating func remove(_ position: Int64, _ jobs: inout StoredJobTable, _ now: StoreInstant) {
        if jobs[position].place == .ready { jobs[position].runnable = clock.reading(now) - jobs[position].runnable }
        jobs[position].place = .nowhere
        jobs[position].stamp &+= 1
    }

    /// Moves jobs whose delay has ended, or that have waited for long.
    mutating func refresh(_ jobs: inout StoredJobTable, _ now: StoreInstant) {
        while let entry = delayed.popFirst(through: now.nanoseconds, jobs) { insert(entry.position, &jobs, now) }
        while let entry = network.popFirst(through: now.nanoseconds, jobs) { insert(entry.position, &jobs, now) }
        while let entry = ageing.popFirst(through: clock.reading(now) - Self.ageing, jobs) {
            jobs[entry.position].stamp &+= 1
            ready[JobPriority.normal.rawValue].insert(
                entry.position, entry.position, stamp: jobs[entry.position].stamp, jobs)
        }
    }

    /// Returns the job to claim next.
    ///
    /// - Parameters:
    ///   - edge: The node's last reconnect.
    ///   - node: The node that claims.
    ///   - worker: The worker that claims.
    mutating func first(edge: StoreInstant?, node: String, worker: WorkerID, index: Int32, _ jobs: StoredJobTable) -> Candidate? {
        var best: Candidate?
        for priority in JobPriority.allCases.reversed() where best == nil {
            guard let entry = ready[priority.rawValue].first(jobs) else { continue }
            best = Candidate(priority: priority, position: entry.position, lane: index)
        }
        for binding in outages.keys {
            guard let end = binding.end(edge: edge, node: node, worker: worker) else { continue }
            outages[binding]?.refresh(edge: end, jobs)
            guard let entry = outages[binding]?.first(before: end, jobs) else {
                // Unlike nodes, workers come and go.
                if binding.nodes == nil { outages[binding] = nil }
                continue
            }
            let candidate = Candidate(priority: Self.priority(ofKey: entry.key), position: entry.position, lane: index)
            best = min(best ?? candidate, candidate)
        }
        return best
    }

    /// Returns the end of the first delay; jobs whose delay is void count only if they have not all been claimed.
    mutating func nextDue(_ jobs: StoredJobTable) -> StoreInstant? {
        [delayed.first(jobs), network.first(jobs)].compactMap { $0.map { StoreInstant(nanoseconds: $0.key) } }.min()
    }

    fileprivate static func effective(_ priority: JobPriority, runnable: Int64) -> JobPriority {
        priority == .bulk && runnable >= ageing ? .normal : priority
    }

    /// Orders by priority, then by position, which needs less than 60 bits.
    fileprivate static func key(_ priority: JobPriority, _ position: Int64) -> Int64 {
        Int64(JobPriority.interactive.rawValue - priority.rawValue) << 60 | position
    }

    private static func priority(ofKey key: Int64) -> JobPriority {
        JobPriority(rawValue: JobPriority.interactive.rawValue - Int(key >> 60)) ?? .normal
    }
}
