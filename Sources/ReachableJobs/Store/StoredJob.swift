internal import FoundationEssentials

/// A job with what only its store knows of it, for stores whose rules are in Swift.
///
/// The methods are the rules of ``JobStore`` for one job. The store writes it back, and sees to the jobs that wait for it.
protocol StoredJob {
    var job: DurableJob { get set }
    var worker: WorkerID? { get set }
    /// True if the attempt of the present claim has started.
    var isStarted: Bool { get set }
    var ended: StoreInstant? { get set }
}

struct StoreMoment: Sendable {
    var now: StoreInstant
    var bootID: String
    /// The machine's boot clock in nanoseconds.
    var boot: Int64
    var date: Date
}

/// The reason why a worker ends.
enum WorkerEnd {
    /// In good order.
    case unregistered
    /// The process ended while the machine stayed up: attempts that had started have crashed.
    case crashed
    /// The lease ended, or the machine rebooted: nothing is counted.
    case leaseEnded
}

extension StoredJob {
    /// True if a replacement has to come behind it.
    var hasStarted: Bool { isStarted || job.counters.started > 0 }

    /// Records a result of its claim.
    ///
    /// - Parameter node: The node of its worker.
    mutating func finish(_ result: AttemptResult, node: String, at moment: StoreMoment) -> FinishOutcome {
        if result.outcome == .givenBack { return release(at: moment) }
        let crashes = job.counters.crashes
        job.counters = result.counters
        job.counters.crashes = crashes
        job.lastError = result.storedError ?? job.lastError
        (job.softDelay, job.avoidance, job.hardUntil) = (nil, nil, nil)
        switch result.outcome {
        case .succeeded: setState(.succeeded, at: moment)
        case .cancelled: setState(.cancelled, at: moment)
        case .failed(let reason): fail(reason, at: moment)
        case .again(let soft, let isNetwork, let hard):
            if job.isCancelRequested { return release(at: moment) }
            delay(soft, isNetwork: isNetwork, hard, node: node, since: result.time, at: moment)
            setState(.available, at: moment)
        case .givenBack: break
        }
        return .recorded
    }

    private mutating func delay(
        _ soft: Duration, isNetwork: Bool, _ hard: Duration?, node: String, since: StoreInstant?, at moment: StoreMoment
    ) {
        let time = min(since ?? moment.now, moment.now)
        job.hardUntil = hard.map { time.advanced(by: $0) }
        guard soft > .zero else { return }
        job.softDelay = .init(until: time.advanced(by: soft), since: time, isNetwork: isNetwork)
        guard isNetwork else { return }
        let since = moment.boot - time.duration(to: moment.now).nanoseconds
        let until = StoreInstant(nanoseconds: since).advanced(by: soft).nanoseconds
        job.avoidance = .init(node: node, bootID: moment.bootID, since: since, until: until)
    }

    mutating func fail(_ reason: String, at moment: StoreMoment) {
        job.failureReason = reason
        setState(.failed, at: moment)
    }

    mutating func release(at moment: StoreMoment) -> FinishOutcome {
        let isCancelled = job.isCancelRequested
        setState(isCancelled ? .cancelled : .available, at: moment)
        return isCancelled ? .cancelled : .recorded
    }

    mutating func release(_ end: WorkerEnd, at moment: StoreMoment) {
        if isStarted && end != .unregistered {
            if end == .crashed { job.counters.crashes += 1 }
            job.hasUnknownOutcome = true
        }
        _ = release(at: moment)
    }

    /// Cancels it if it waits or keeps others waiting, or requests its cancellation if it is running.
    mutating func cancel(at moment: StoreMoment) -> CancelOutcome {
        switch job.state {
        case .running:
            job.isCancelRequested = true
            return .requested
        case .failed where job.holds(.serial), .available:
            setState(.cancelled, at: moment)
            return .cancelled
        case .succeeded, .failed, .cancelled: return .ended
        }
    }

    mutating func retry(at moment: StoreMoment) {
        (job.counters, job.hasUnknownOutcome) = (.init(), false)
        (job.softDelay, job.avoidance, job.hardUntil, job.failureReason, job.finished) = (nil, nil, nil, nil, nil)
        if let deadline = job.deadline, deadline <= moment.now { job.deadline = nil }
        ended = nil
        setState(.available, at: moment)
    }

    /// Ends its backoff; returns false if it has none.
    mutating func endBackoff(at moment: StoreMoment) -> Bool {
        guard job.state == .available, let delay = job.softDelay, delay.until > moment.now else { return false }
        (job.softDelay, job.avoidance) = (nil, nil)
        return true
    }

    private mutating func setState(_ state: DurableJob.State, at moment: StoreMoment) {
        (job.state, worker, isStarted) = (state, nil, false)
        guard state.isFinal else { return }
        job.isCancelRequested = false
        (job.finished, ended) = (moment.date, moment.now)
    }
}

extension DurableJob {
    /// True if it has a key, and keeps the jobs behind it with the same one waiting.
    func holds(_ key: JobExplanation.Blocker.Key) -> Bool {
        switch key {
        case .serial: serialKey != nil && (!state.isFinal || state == .failed && !continuesAfterFailure)
        case .unique: uniqueKey != nil && !state.isFinal
        }
    }

    /// The end of the delays that hold it back on all nodes; `nil` if it has none.
    var heldUntil: StoreInstant? {
        let firm = softDelay.flatMap { $0.isNetwork ? nil : $0.until }
        return [notBefore, hardUntil, firm].compactMap(\.self).max()
    }

    /// Returns the job with all that a replacement changes.
    func replaced(by job: NewJob, now: StoreInstant) -> DurableJob {
        var new = DurableJob(job, position: position, now: now, created: created)
        (new.id, new.priority, new.pushed) = (id, priority, pushed)
        return new
    }
}
