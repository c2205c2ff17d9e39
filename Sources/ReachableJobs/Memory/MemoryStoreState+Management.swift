internal import DequeModule
internal import FoundationEssentials

/// The operations of people and programs that look after the jobs.
extension MemoryStoreState {
    /// Cancels a waiting job or a failed head, or requests the cancellation of a running one.
    mutating func cancel(_ id: DurableJobID) -> CancelOutcome {
        guard let position = positions[id] else { return .unknown }
        let job = jobs[position]
        switch job.state {
        case .running:
            jobs[position].isCancelRequested = true
            hint = true
            return .requested
        case .failed where job.serialKey != nil && job.blocksSerially, .available:
            setState(position, .cancelled)
            hint = true
            return .cancelled
        case .succeeded, .failed, .cancelled: return .ended
        }
    }

    /// Makes a failed or cancelled job available again; returns false if it is neither.
    mutating func retry(_ id: DurableJobID) -> Bool {
        guard let position = positions[id], [.failed, .cancelled].contains(jobs[position].state) else { return false }
        var history = StoredJob.History()
        history.lastError = jobs[position].history.lastError
        jobs[position].history = history
        if let deadline = jobs[position].deadline, deadline <= now { jobs[position].deadline = nil }
        setState(position, .available)
        hint = true
        return true
    }

    /// Ends the backoff of a waiting job; returns false if it has none.
    mutating func endBackoff(_ id: DurableJobID) -> Bool {
        guard let position = positions[id], jobs[position].state == .available,
            let delay = jobs[position].history.softDelay, delay.until > now
        else { return false }
        takeOut(position)
        (jobs[position].history.softDelay, jobs[position].history.boundNode) = (nil, nil)
        settle(position)
        hint = true
        return true
    }

    /// Pauses or resumes a queue.
    mutating func setPaused(_ isPaused: Bool, queue name: String) {
        let queue = number(ofQueue: name)
        if queues[Int(queue)].isPaused, !isPaused { hint = true }
        queues[Int(queue)].isPaused = isPaused
        guard isPaused else { return }
        for (id, worker) in workers where worker.queue == queue { openLanes([], of: id, at: now) }
    }

    /// Returns jobs by position.
    func find(_ filter: JobFilter) -> [DurableJob] {
        let limit = filter.limit ?? .max
        var found: [DurableJob] = []
        guard limit > 0 else { return found }
        let prefix = filter.idPrefix?.lowercased()
        if let id = prefix.flatMap({ DurableJobID($0) }) {
            guard let position = positions[id], position > filter.after ?? .min, matches(jobs[position], filter, nil) else {
                return found
            }
            return [durable(jobs[position])]
        }
        jobs.forEach(after: filter.after ?? .min) { job in
            if matches(job, filter, prefix) { found.append(durable(job)) }
            return found.count < limit
        }
        return found
    }

    private func matches(_ job: StoredJob, _ filter: JobFilter, _ idPrefix: String?) -> Bool {
        if let states = filter.states, !states.contains(job.state) { return false }
        let lane = lanes[Int(job.lane)]
        if let kinds = filter.kinds, !kinds.contains(lane.lane.kind) { return false }
        if let queue = filter.queue, queues[Int(lane.queue)].name != queue { return false }
        if let key = filter.uniqueKey, job.uniqueKey != key { return false }
        if let key = filter.serialKey, job.serialKey != key { return false }
        if let destination = filter.destination, lane.lane.destination != destination { return false }
        return idPrefix.map { job.id.description.hasPrefix($0) } ?? true
    }

    /// Returns the number of jobs per state, kind and destination, in this order.
    func count(queue name: String) -> [JobCount] {
        struct Key: Hashable {
            var state: DurableJob.State
            var lane: Int32
        }
        guard let queue = existingNumber(ofQueue: name) else { return [] }
        var perLane: [Key: (count: Int, oldest: Date)] = [:]
        jobs.forEach(after: .min) { job in
            guard lanes[Int(job.lane)].queue == queue else { return true }
            let key = Key(state: job.state, lane: job.lane)
            let before = perLane[key] ?? (0, job.created)
            perLane[key] = (before.count + 1, min(before.oldest, job.created))
            return true
        }
        var counts: [[String?]: JobCount] = [:]
        for (key, value) in perLane {
            let lane = lanes[Int(key.lane)].lane
            let place = [key.state.rawValue, lane.kind, lane.destination]
            let none = JobCount(state: key.state, kind: lane.kind, destination: lane.destination, count: 0, oldest: value.oldest)
            var count = counts[place] ?? none
            count.count += value.count
            count.oldest = min(count.oldest, value.oldest)
            counts[place] = count
        }
        return counts.values.sorted {
            ($0.state.rawValue, $0.kind, $0.destination ?? "") < ($1.state.rawValue, $1.kind, $1.destination ?? "")
        }
    }

    // MARK: - Pruning

    /// The most retained jobs that one call examines: it holds the lock.
    private static let mostExamined = 1000

    /// Deletes jobs that ended long ago and lanes without jobs, and returns the number of jobs.
    mutating func prune(_ retention: Retention, limit: Int) -> Int {
        var deleted = 0
        for _ in 0..<min(retained.count, Self.mostExamined) {
            guard let ended = retained.popFirst(), isCurrent(ended) else { continue }
            if blocksFollowers(ended.position) {
                retained.append(ended)
            } else {
                unsuccessful.insert(ended, at: unsuccessful.firstIndex { $0.time >= ended.time } ?? unsuccessful.endIndex)
            }
        }
        while deleted < limit, let ended = succeeded.first, ended.time.advanced(by: retention.succeeded) <= now {
            succeeded.removeFirst()
            if isCurrent(ended) {
                delete(ended.position)
                deleted += 1
            }
        }
        while deleted < limit, let ended = unsuccessful.first, ended.time.advanced(by: retention.failed) <= now {
            unsuccessful.removeFirst()
            guard isCurrent(ended) else { continue }
            if blocksFollowers(ended.position) {
                retained.append(ended)
            } else {
                delete(ended.position)
                deleted += 1
            }
        }
        if limit > 0 { pruneLanes() }
        return deleted
    }

    /// True unless the job was retried or deleted meanwhile.
    private func isCurrent(_ ended: Ended) -> Bool {
        guard let job = jobs.job(at: ended.position), job.state.isFinal else { return false }
        return job.history.ended == ended.time
    }

    private func blocksFollowers(_ position: Int64) -> Bool {
        let job = jobs[position]
        guard job.state == .failed, job.serialKey != nil, job.blocksSerially else { return false }
        return keys(of: job).contains { $0.kind == nil && chains[$0]?.hasFollowers(of: position, jobs) == true }
    }

    private mutating func delete(_ position: Int64) {
        let job = jobs[position]
        positions[job.id] = nil
        released.append(job.payload)
        let keys = keys(of: job)
        jobs.remove(position)
        addJobs(-1, lane: job.lane)
        for key in keys {
            chains[key]?.update(position, key, jobs)
            if chains[key]?.first == nil { chains[key] = nil }
        }
    }
}
