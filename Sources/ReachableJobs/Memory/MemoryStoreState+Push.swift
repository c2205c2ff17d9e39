/// Adding jobs, and the rules of unique keys.
extension MemoryStoreState {
    /// Adds jobs, all or none.
    mutating func push(_ pushed: [NewJob], limit: Int?) throws(JobStoreError) -> [PushReceipt] {
        if let large = pushed.first(where: { $0.payload.count > largestPayload }) {
            throw JobStoreError(
                .tooLarge, "a payload of kind \(large.kind) has \(large.payload.count) bytes, more than \(largestPayload)",
                next: "store the data elsewhere, and push its place")
        }
        if let limit { try checkRoom(pushed, limit) }
        return pushed.map { push($0) }
    }

    /// Throws if a push would leave a queue with too many unfinished jobs.
    private func checkRoom(_ pushed: [NewJob], _ limit: Int) throws(JobStoreError) {
        var added: [String: Int] = [:]
        var addedKeys: Set<[String]> = []
        var addedIDs: Set<DurableJobID> = []
        for job in pushed where positions[job.id] == nil && !addedIDs.contains(job.id) {
            let key = job.unique.map { [job.queue, job.kind, $0.key] }
            let isKeyAdded = key.map { addedKeys.contains($0) } ?? false
            let isAdded =
                switch job.unique {
                case .keep: !isKeyAdded && lastUnfinished(job) == nil
                case .replace: !isKeyAdded && lastUnfinished(job).map { jobs[$0].hasStarted } ?? true
                case .append, nil: true
                }
            guard isAdded else { continue }
            added[job.queue, default: 0] += 1
            addedIDs.insert(job.id)
            if let key { addedKeys.insert(key) }
        }
        for (queue, count) in added {
            let unfinished = existingNumber(ofQueue: queue).map { queues[Int($0)].unfinished } ?? 0
            guard unfinished + count > limit else { continue }
            throw JobStoreError(
                .full, "queue \(queue) has \(unfinished) unfinished jobs and no room for \(count) more",
                next: "push again when jobs have ended, or raise the limit of \(limit)")
        }
    }

    private mutating func push(_ job: NewJob) -> PushReceipt {
        guard positions[job.id] == nil else { return PushReceipt(id: job.id, outcome: .kept) }
        let last = lastUnfinished(job)
        switch (job.unique, last) {
        case (.keep, let last?):
            return PushReceipt(id: jobs[last].id, outcome: .kept)
        case (.replace, let last?) where !jobs[last].hasStarted:
            replace(last, by: job)
            return PushReceipt(id: jobs[last].id, outcome: .replaced)
        default:
            add(job)
            return PushReceipt(id: job.id, outcome: last == nil ? .added : .appended)
        }
    }

    private mutating func add(_ job: NewJob) {
        let position = jobs.lastPosition + 1
        let lane = lane(of: job)
        jobs.append(StoredJob(job, position: position, lane: lane, now: now, created: date))
        positions[job.id] = position
        queues[Int(lanes[Int(lane)].queue)].unfinished += 1
        addJobs(1, lane: lane)
        noteDeadline(of: position)
        updateChains(of: position)
        hint = true
    }

    private mutating func replace(_ position: Int64, by job: NewJob) {
        takeOut(position)
        released.append(jobs[position].payload)
        let (old, new) = (jobs[position].lane, lane(of: job))
        jobs[position].replace(by: job, lane: new, now: now)
        addJobs(1, lane: new)
        addJobs(-1, lane: old)
        noteDeadline(of: position)
        settle(position)
        hint = true
    }

    /// Returns the last unfinished job with the unique key of a new one.
    private func lastUnfinished(_ job: NewJob) -> Int64? {
        guard let key = job.unique?.key, let queue = existingNumber(ofQueue: job.queue) else { return nil }
        return chains[ChainKey(queue: queue, kind: job.kind, key: key)]?.last
    }
}
