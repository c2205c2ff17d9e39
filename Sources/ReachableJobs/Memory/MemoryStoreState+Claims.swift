internal import HeapModule

/// Claiming jobs, and the results of claims.
extension MemoryStoreState {
    /// A lane of a request.
    private struct Opened {
        var lane: Int32
        var remaining: Int
        var edge: StoreInstant?
        var node: String
        var worker: WorkerID
    }

    /// Claims jobs; `nil` if the worker's lease has ended.
    mutating func claim(_ request: ClaimRequest) -> Claims? {
        guard let worker = workers[request.worker] else { return nil }
        let queue = worker.queue
        var claims = Claims(
            jobs: [], newLanes: newLanes(of: queue, after: request.lastKnownLane), isPaused: queues[Int(queue)].isPaused,
            hasMore: false, nextDue: nil, now: now)
        var opened = claims.isPaused ? [] : openedLanes(request, queue, node: worker.node, &claims.goneLanes)
        openLanes(opened.map(\.lane), of: request.worker, at: now)
        var candidates = Heap<MemoryLane.Candidate>()
        // The place of each candidate's lane in the request.
        var places: [Int32: Int] = [:]
        for (place, open) in opened.enumerated() {
            lanes[Int(open.lane)].refresh(&jobs, now)
            guard !isHeld(open.lane), let first = first(of: open) else { continue }
            if open.remaining > 0 { candidates.insert(first) } else { claims.hasMore = true }
            places[open.lane] = place
        }
        while claims.jobs.count < request.limit, let next = candidates.popMin(), let place = places[next.lane] {
            claims.jobs.append(take(next.position, for: request.worker))
            opened[place].remaining -= 1
            guard let first = first(of: opened[place]) else { continue }
            if opened[place].remaining > 0 { candidates.insert(first) } else { claims.hasMore = true }
        }
        claims.hasMore = claims.hasMore || !candidates.isEmpty
        claims.nextDue = opened.compactMap { nextDue(of: $0) }.min()
        return claims
    }

    private func newLanes(of queue: Int32, after last: Lane.ID) -> [Lane] {
        let numbers = queues[Int(queue)].lanes
        // Most requests know all lanes but the last few.
        let known = numbers.lastIndex { lanes[Int($0)].lane.id <= last }.map { $0 + 1 } ?? 0
        return numbers[known...].map { lanes[Int($0)].lane }
    }

    /// Returns the lanes of a request that are the queue's, each once.
    private mutating func openedLanes(
        _ request: ClaimRequest, _ queue: Int32, node: String, _ gone: inout Set<Lane.ID>
    ) -> [Opened] {
        lastRequest += 1
        var opened: [Opened] = []
        for open in request.lanes {
            guard let index = laneNumbers.index(of: open.lane), lanes[Int(index)].queue == queue else {
                gone.insert(open.lane)
                continue
            }
            guard lanes[Int(index)].lastRequest != lastRequest else { continue }
            lanes[Int(index)].lastRequest = lastRequest
            opened.append(Opened(lane: index, remaining: open.limit, edge: open.edge, node: node, worker: request.worker))
        }
        return opened
    }

    private func isHeld(_ lane: Int32) -> Bool { holds[Int(lanes[Int(lane)].hold)].until > now }

    private mutating func first(of open: Opened) -> MemoryLane.Candidate? {
        lanes[Int(open.lane)].first(edge: open.edge, node: open.node, worker: open.worker, index: open.lane, jobs)
    }

    /// Returns the time at which a lane's next job may run that may not run now.
    private mutating func nextDue(of open: Opened) -> StoreInstant? {
        let due = lanes[Int(open.lane)].nextDue(jobs)
        guard isHeld(open.lane) else { return due }
        let until = holds[Int(lanes[Int(open.lane)].hold)].until
        return first(of: open) != nil ? until : due.map { max($0, until) }
    }

    private mutating func take(_ position: Int64, for worker: WorkerID) -> Claims.Claimed {
        lastClaim += 1
        jobs[position].claim = lastClaim
        jobs[position].worker = worker.rawValue
        addClaim(position, to: worker)
        setState(position, .running)
        return Claims.Claimed(job: durable(jobs[position]), claim: lastClaim)
    }

    // MARK: - Results

    /// Records that an attempt starts; returns false if it may not.
    mutating func start(_ ticket: JobTicket, by worker: WorkerID) -> Bool {
        guard let position = position(of: ticket, by: worker), !jobs[position].isCancelRequested else { return false }
        if !jobs[position].isStarted { jobs[position].history.counters.started += 1 }
        jobs[position].isStarted = true
        return true
    }

    /// Records a result, and tells if a request to cancel has decided.
    mutating func outcome(of result: AttemptResult, by worker: WorkerID) -> FinishOutcome {
        guard finish(result, by: worker) else { return .refused }
        return switch result.outcome {
        case .succeeded, .failed, .cancelled: .recorded
        case .again, .undecodable: state(of: result.ticket) == .cancelled ? .cancelled : .recorded
        }
    }

    private func state(of ticket: JobTicket) -> DurableJob.State? { positions[ticket.id].map { jobs[$0].state } }

    /// Records a result; returns false if the claim was not valid.
    mutating func finish(_ result: AttemptResult, by worker: WorkerID) -> Bool {
        guard let position = position(of: result.ticket, by: worker) else { return false }
        var history = jobs[position].history
        let crashes = history.counters.crashes
        let node = workers[worker]?.node
        // A second node that fails within the delay of the first one shows that it is not the first one's network.
        let isSecondNode = history.softDelay.map { $0.isNetwork && $0.until > now } ?? false && history.boundNode != node
        history.counters = result.counters
        history.counters.crashes = crashes
        if let error = result.storedError { history.lastError = error }
        (history.softDelay, history.boundNode, history.hardUntil) = (nil, nil, nil)
        if let duration = result.holdsDestination { hold(position, for: duration) }
        switch result.outcome {
        case .succeeded: end(position, .succeeded, history)
        case .cancelled: end(position, .cancelled, history)
        case .failed(let reason):
            history.failureReason = reason
            end(position, .failed, history)
        case .again where jobs[position].isCancelRequested, .undecodable where jobs[position].isCancelRequested:
            end(position, .cancelled, history)
        case .again(let soft, let isNetwork, let hard):
            let time = min(result.time ?? now, now)
            if soft > .zero { history.softDelay = .init(until: time.advanced(by: soft), since: time, isNetwork: isNetwork) }
            if isNetwork, !isSecondNode { history.boundNode = node }
            history.hardUntil = hard.map { time.advanced(by: $0) }
            makeAvailable(position, history)
        case .undecodable:
            history.undecodableBy = history.undecodableBy.filter { workers[$0] != nil }.union([worker])
            makeAvailable(position, history)
        }
        return true
    }

    private mutating func makeAvailable(_ position: Int64, _ history: StoredJob.History) {
        jobs[position].history = history
        setState(position, .available)
        hint = true
    }

    /// Makes a claimed job available again.
    @discardableResult
    mutating func giveBack(_ ticket: JobTicket, by worker: WorkerID) -> FinishOutcome {
        guard let position = position(of: ticket, by: worker) else { return .refused }
        release(position)
        return jobs[position].state == .cancelled ? .cancelled : .recorded
    }

    private mutating func end(_ position: Int64, _ state: DurableJob.State, _ history: StoredJob.History) {
        jobs[position].history = history
        setState(position, state)
        // A follower may run now.
        if jobs[position].serialKey != nil || jobs[position].uniqueKey != nil { hint = true }
    }

    /// Holds the destination of a job for all jobs of its queue.
    private mutating func hold(_ position: Int64, for duration: Duration) {
        let hold = Int(lanes[Int(jobs[position].lane)].hold)
        let until = max(holds[hold].until, now.advanced(by: duration))
        holds[hold].until = until
        for lane in holds[hold].lanes { lanes[Int(lane)].clock.hold(until: until, now) }
    }

    /// Returns the job of a claim that is still valid.
    private func position(of ticket: JobTicket, by worker: WorkerID) -> Int64? {
        guard let position = positions[ticket.id] else { return nil }
        let job = jobs[position]
        let isValid = job.state == .running && job.claim == ticket.claim && job.worker == worker.rawValue
        return isValid ? position : nil
    }
}
