internal import Reachability

/// What is to be done after a change, outside the lock.
struct Consequences {
    private var continuations: [UnsafeContinuation<Void, Never>] = []
    private var launches: [(AnyJobPlan, Ticket, TaskPriority)] = []
    private var cancelled: [AttemptTask] = []
    private var unfollowed: [FollowedCondition] = []
    private var parked: [(ParkingWitness, PendingJob)] = []
    private var traced: [(trace: JobTrace, id: JobID, ending: Ending?)] = []
    private(set) var hasNews = false
    /// If true, this machine has run out of something.
    private(set) var hasShortage = false
    /// What is released outside of the lock, for with it go errors and closures of callers.
    private var released: [JobDesk.Entry] = []
    private var dropped: [RetryEvent] = []

    /// Lays down what the tasks and listeners are to get.
    init(_ effects: [Effect], _ now: BusTime, _ guarded: inout RetryBus.Guarded) {
        for effect in effects { take(effect, now, &guarded) }
        guarded.newsroom.note(jobs: guarded.core.count)
        hasNews = guarded.newsroom.hasNews
        for index in guarded.core.takeIdleConditions() where guarded.followed[index]?.scope != .internet {
            if guarded.core.removeCondition(index), let followed = guarded.followed.remove(index) { unfollowed.append(followed) }
        }
        continuations += guarded.takeEnds()
        if !guarded.witnesses.isEmpty { parked = guarded.takeWitnesses(at: now) }
        continuations += guarded.takeQuietWitnesses()
    }

    private mutating func take(_ effect: Effect, _ now: BusTime, _ guarded: inout RetryBus.Guarded) {
        switch effect {
        case .start(let key):
            guard guarded.desk[key] != nil else { return }
            guarded.desk[key]?.mayStart = true
            guarded.desk[key]?.interruption = nil
            wake(key, guarded.core[key]?.number, &guarded)
        case .interrupt(let key, let interruption):
            guarded.desk[key]?.interruption = interruption
            if let attempt = guarded.desk[key]?.record.attempt { cancelled.append(attempt) }
        case .end(let key, let ending):
            if let entry = guarded.desk.remove(key, ending) { released.append(entry) }
        case .warnOfShortage: hasShortage = true
        case .tell(let subject, let news):
            trace(subject, news, now, &guarded)
            if guarded.newsroom.hasReaders, let record = guarded.desk[subject.key]?.record {
                let old = guarded.newsroom.put(guarded.event(subject, record, news, at: now))
                if let old { dropped.append(old) }
            }
            noteUnfinished(subject.key, news, &guarded)
            switch news {
            case .waiting: tellOfWaiting(subject.key, &guarded)
            // Its task has its result, and asks no more.
            case .succeeded: if let entry = guarded.desk.remove(subject.key, nil) { released.append(entry) }
            // How it ended is laid down before anybody comes: that effect follows.
            case .ended: wake(subject.key, subject.number, &guarded)
            case .started, .failed, .backingOff: break
            }
        }
    }

    /// Notes what a job's span has to be told; only if it has one.
    private mutating func trace(_ subject: Subject, _ news: News, _ now: BusTime, _ guarded: inout RetryBus.Guarded) {
        let key = subject.key
        guard let record = guarded.desk[key]?.record, let trace = record.trace else { return }
        let id = Ticket(key: key, number: subject.number, name: record.name).id
        switch news {
        case .started(_, let departure): guarded.desk[key]?.record.trace?.noteStart(departure.trigger, at: now)
        case .failed: guarded.desk[key]?.record.trace?.noteFailure(at: now)
        case .succeeded: traced.append((trace, id, nil))
        case .ended(let ending): traced.append((trace, id, ending))
        case .waiting, .backingOff: break
        }
    }

    private mutating func wake(_ key: JobKey, _ number: UInt64?, _ guarded: inout RetryBus.Guarded) {
        guard let entry = guarded.desk[key] else { return }
        switch entry.waiter {
        case .nobody: return
        case .task(let continuation): continuations.append(continuation)
        case .plan(let plan):
            let ticket = Ticket(key: key, number: number ?? guarded.core[key]?.number ?? 0, name: entry.record.name)
            launches.append((plan, ticket, entry.taskPriority))
        }
        guarded.desk[key]?.waiter = .nobody
    }

    /// Has a job's own handlers and readers hear that it waits.
    private mutating func tellOfWaiting(_ key: JobKey, _ guarded: inout RetryBus.Guarded) {
        guard guarded.desk[key]?.wantsNews == true else { return }
        guarded.desk[key]?.hasNews = true
        wake(key, nil, &guarded)
    }

    /// Keeps account of what a shutdown ends.
    private func noteUnfinished(_ key: JobKey, _ news: News, _ guarded: inout RetryBus.Guarded) {
        guard guarded.core.isShutDown, guarded.unfinished[key] != nil else { return }
        switch news {
        case .succeeded: guarded.unfinished[key] = nil
        case .ended(.gaveUp(let reason, _, _)) where reason != .shutDown: guarded.unfinished[key] = nil
        case .ended: guarded.unfinished[key]?.job.lastError = guarded.desk[key]?.record.lastError
        case .waiting, .started, .failed, .backingOff: break
        }
    }

    /// A job that may start is worth more than anything else.
    func wake() {
        for continuation in continuations { continuation.resume() }
        for (plan, ticket, priority) in launches { plan.launch(ticket, priority) }
    }

    /// What runs code of callers, which may take its time.
    func perform() {
        for attempt in cancelled { attempt.cancel() }
        for end in traced { end.trace.end(end.id, end.ending) }
        for followed in unfollowed { followed.close() }
        for (witness, job) in parked { witness.continuation.resume(returning: job) }
    }
}

extension RetryBus.Guarded {
    /// What happened to a job, for those who listen.
    fileprivate func event(_ subject: Subject, _ record: JobRecord, _ news: News, at now: BusTime) -> RetryEvent {
        let id = Ticket(key: subject.key, number: subject.number, name: record.name).id
        var event = RetryEvent(
            kind: .succeeded, job: id, scope: followed[subject.scope]?.scope ?? .internet, destination: subject.destination,
            attempt: subject.started, waited: subject.waited, at: now.duration)
        switch news {
        case .waiting(let condition):
            event.kind = .waiting
            let unmet = self.unmet(of: subject.key)
            event.unmet = unmet.isEmpty ? [self.unmet(condition)].compactMap(\.self) : unmet
        case .started(_, let departure):
            event.kind = .attemptStarted
            (event.trigger, event.saved, event.sinceReconnect) = (departure.trigger, departure.saved, departure.sinceEdge)
        case .failed(let failure, let isCharged):
            event.kind = .attemptFailed
            if let error = record.failure {
                event.failure = RetryEvent.Failure(
                    error: error, fault: failure.fault, mayRetry: failure.mayRetry, isCharged: isCharged)
            }
        case .backingOff(let delay): (event.kind, event.delay) = (.backingOff, delay)
        case .succeeded: event.kind = .succeeded
        case .ended(.cancelled): event.kind = .cancelled
        case .ended(.gaveUp(let reason, let tally, _)):
            event.kind = .gaveUp
            event.report = GiveUp(id, reason, tally, record.lastError)
        }
        return event
    }
}

extension GiveUp {
    init(_ job: JobID, _ reason: Reason, _ tally: Tally, _ lastError: (any Error)?) {
        self.init(
            job: job, reason: reason, attempts: tally.started, charged: tally.charged,
            networkFailures: tally.networkFailures, waited: tally.waited, elapsed: tally.elapsed, lastError: lastError)
    }
}
