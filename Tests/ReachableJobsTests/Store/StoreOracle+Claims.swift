import ReachableJobs
import ReachableRetry

/// The oracle's view of claims: it takes over the answer, and says what is wrong with it.
extension StoreOracle {
    private struct Open {
        var remaining: Int
        var edge: StoreInstant?
    }

    private static let ageing = Duration.seconds(3600)

    /// Checks and takes over the answer to a claim; returns what is wrong.
    mutating func claim(_ request: ClaimRequest, _ answer: Claims?) -> String? {
        guard let worker = workers[request.worker] else {
            return answer == nil ? nil : "an unknown worker's claim has an answer"
        }
        let (queue, node) = (worker.queue, worker.node)
        guard let answer else { return "a worker's claim has no answer" }
        let isPaused = paused.contains(queue)
        if answer.isPaused != isPaused { return "isPaused is \(answer.isPaused)" }
        let new = lanes.filter { $0.queue == queue && $0.lane.id > request.lastKnownLane }.map(\.lane)
        if answer.newLanes != new { return "new lanes are \(answer.newLanes), not \(new)" }
        let gone =
            isPaused ? [] : request.lanes.map(\.lane).filter { id in !lanes.contains { $0.queue == queue && $0.lane.id == id } }
        if answer.goneLanes != Set(gone) { return "gone lanes are \(answer.goneLanes), not \(gone)" }
        var open: [Lane.ID: Open] = [:]
        for lane in request.lanes where !isPaused && open[lane.lane] == nil {
            guard lanes.contains(where: { $0.lane.id == lane.lane && $0.queue == queue }) else { continue }
            open[lane.lane] = Open(remaining: lane.limit, edge: lane.edge)
        }
        workers[request.worker]?.lanes = Set(open.keys)
        for index in jobs.indices where open[lane(of: jobs[index].job)] != nil && !jobs[index].isSeen {
            jobs[index].isSeen = mayRun(index, edge: nil)
        }
        for claimed in answer.jobs {
            if let flaw = take(claimed, request.worker, &open) { return flaw }
        }
        if answer.jobs.count > request.limit { return "\(answer.jobs.count) jobs exceed the limit" }
        let left = jobs.indices.filter { index in
            guard let lane = open[lane(of: jobs[index].job)] else { return false }
            return hold(jobs[index].job) <= now && mayRun(index, edge: lane.edge, node: node, worker: request.worker)
        }
        let claimable = left.filter { (open[lane(of: jobs[$0].job)]?.remaining ?? 0) > 0 }
        if answer.jobs.count < request.limit, !claimable.isEmpty { return "\(claimable.count) more jobs could be claimed" }
        let mayBeLate = mayTellEarly && jobs.indices.contains { isBlocked($0) && open[lane(of: jobs[$0].job)] != nil }
        if answer.hasMore == left.isEmpty, !(answer.hasMore && mayBeLate) {
            return "hasMore is \(answer.hasMore), \(left.count) jobs are left"
        }
        return checkNextDue(answer, open, node, request.worker)
    }

    /// Returns true if a job is available, and nothing but a server's hold delays it, on a node and worker or on all.
    private func mayRun(_ index: Int, edge: StoreInstant?, node: String? = nil, worker: WorkerID? = nil) -> Bool {
        jobs[index].job.state == .available && due(index, edge: edge, node: node) <= now && !isBlocked(index)
            && !isWithheld(index, from: worker)
    }

    /// Returns true if a worker could not decode a job; `nil` for any worker.
    private func isWithheld(_ index: Int, from worker: WorkerID?) -> Bool {
        worker.map(jobs[index].undecodableBy.contains) ?? !jobs[index].undecodableBy.isEmpty
    }

    private mutating func take(
        _ claimed: Claims.Claimed, _ worker: WorkerID, _ open: inout [Lane.ID: Open]
    ) -> String? {
        guard let index = jobs.firstIndex(where: { $0.job.id == claimed.job.id }) else { return "an unknown job was claimed" }
        let job = jobs[index].job
        let (place, node) = (lane(of: job), workers[worker]?.node)
        guard let lane = open[place], lane.remaining > 0 else { return "\(job.position) is of a closed lane" }
        guard mayRun(index, edge: lane.edge, node: node, worker: worker), hold(job) <= now else {
            return "\(job.position) may not run"
        }
        guard claimed.claim > jobs[index].claim else { return "\(job.position) has an old number" }
        let better = jobs.indices.first { other in
            guard other != index, let lane = open[self.lane(of: jobs[other].job)], lane.remaining > 0 else { return false }
            return isCertainlyBefore(other, index) && mayRun(other, edge: lane.edge, node: node, worker: worker)
                && hold(jobs[other].job) <= now
        }
        if let better { return "\(job.position) was claimed before \(jobs[better].job.position)" }
        open[place]?.remaining -= 1
        jobs[index].job.state = .running
        (jobs[index].claim, jobs[index].worker, jobs[index].isSeen) = (claimed.claim, worker, false)
        return claimed.job == jobs[index].job ? nil : "\(claimed.job) is not \(jobs[index].job)"
    }

    private func isCertainlyBefore(_ left: Int, _ right: Int) -> Bool {
        let (low, high) = (priority(left, jobs[left].least), priority(right, jobs[right].most))
        return low == high ? jobs[left].job.position < jobs[right].job.position : low > high
    }

    private func priority(_ index: Int, _ runnable: Duration) -> JobPriority {
        let priority = jobs[index].job.priority
        return priority == .bulk && runnable >= Self.ageing ? .normal : priority
    }

    private func checkNextDue(_ answer: Claims, _ open: [Lane.ID: Open], _ node: String, _ worker: WorkerID) -> String? {
        let times = jobs.indices.compactMap { index -> StoreInstant? in
            let job = jobs[index].job
            guard job.state == .available, !isBlocked(index), let lane = open[lane(of: job)] else { return nil }
            if isWithheld(index, from: worker) { return nil }
            let time = max(due(index, edge: lane.edge, node: node), hold(job))
            return time > now ? time : nil
        }
        let wanted = times.min()
        // Told too early: a server's order together with a network failure, and the latter's delay if this worker cannot decode it.
        if answer.nextDue == wanted { return nil }
        let mayBeLate =
            mayTellEarly
            && jobs.indices.contains { index in
                open[lane(of: jobs[index].job)] != nil && (isBlocked(index) || isWithheld(index, from: worker))
            }
        if let found = answer.nextDue, found > now, answer.hasMore || hasTwoDelays(open) || mayBeLate {
            return wanted.map { found <= $0 } ?? true ? nil : "nextDue is \(found), not \(wanted as Any)"
        }
        return "nextDue is \(answer.nextDue as Any), not \(wanted as Any)"
    }

    private func hasTwoDelays(_ open: [Lane.ID: Open]) -> Bool {
        jobs.contains { entry in
            let isDouble = entry.job.hardUntil != nil || !entry.undecodableBy.isEmpty
            return entry.job.softDelay?.isNetwork == true && isDouble && open[lane(of: entry.job)] != nil
        }
    }
}
