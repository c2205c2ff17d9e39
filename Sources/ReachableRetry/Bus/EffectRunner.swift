internal import Reachability

/// Runs the effects of a change outside of the bus's lock.
struct EffectRunner {
    private var continuations: [UnsafeContinuation<Void, Never>] = []
    private var launches: [(AnyJobDefinition, JobHandle, TaskPriority)] = []
    private var cancelled: [AttemptTask] = []
    private var unfollowed: [FollowedCondition] = []
    private var parked: [(ParkedWaiter, PendingJob)] = []
    private var traced: [(trace: JobTrace, id: JobID, ending: Ending?)] = []
    private var handedBack: [JobTrace] = []
    private(set) var hasEvents = false
    private var roomWatchers: [@Sendable () -> Void] = []
    /// True if this machine ran out of descriptors, memory or ports.
    private(set) var hasShortage = false
    /// Values that are released outside of the lock, because they hold errors and closures of callers.
    private var released: [JobState] = []
    private var dropped: [RetryEvent] = []

    /// Records effects in the tables, under the lock.
    init(_ effects: [Effect], _ now: BusTime, _ state: inout RetryBus.State) {
        for effect in effects { take(effect, now, &state) }
        state.broadcaster.note(jobs: state.core.count)
        hasEvents = state.broadcaster.hasEvents
        for index in state.core.takeIdleConditions() where state.followed[index]?.scope != .internet {
            if state.core.removeCondition(index), let followed = state.followed.remove(index) { unfollowed.append(followed) }
        }
        continuations += state.takeEnds()
        if !state.parkedWaiters.isEmpty { parked = state.takeParkedWaiters(at: now) }
        continuations += state.takeQuietWaiters()
        if state.core.takeRoomNews(), !state.roomWatchers.isEmpty {
            roomWatchers = Array(state.roomWatchers.values)
            state.roomWatchers = [:]
        }
    }

    private mutating func take(_ effect: Effect, _ now: BusTime, _ state: inout RetryBus.State) {
        switch effect {
        case .start(let key):
            tell(key, .mayStart, &state)
        case .announce(let key):
            tell(key, .isAnnounced, &state)
        case .interrupt(let key, _):
            if let attempt = state.core.job(key)?.driver.record.attempt { cancelled.append(attempt) }
        case .end(let key, _): noteEnd(of: key, &state)
        case .handBack(let key, _):
            if let trace = state.core.job(key)?.driver.record.trace { handedBack.append(trace) }
            noteEnd(of: key, &state)
        case .warnOfShortage: hasShortage = true
        case .publish(let job, let change):
            trace(job, change, now, &state)
            if state.broadcaster.hasReaders, let record = state.core.job(job.key)?.driver.record {
                let old = state.broadcaster.append(state.event(job, record, change, at: now))
                if let old { dropped.append(old) }
            }
            noteUnfinished(job.key, change, &state)
            switch change {
            case .waiting: reportWaiting(job.key, &state)
            // Its task has the result and does not come back.
            case .succeeded: noteEnd(of: job.key, &state)
            case .ended: wake(job.key, &state)
            case .started, .failed, .backingOff, .warned: break
            }
        }
    }

    /// Records a change for the job's span, if it has one.
    private mutating func trace(_ job: ChangedJob, _ change: JobChange, _ now: BusTime, _ state: inout RetryBus.State) {
        let key = job.key
        guard let record = state.core.job(key)?.driver.record, let trace = record.trace else { return }
        let id = JobHandle(key: key, number: job.number, name: record.name).id
        switch change {
        case .started(_, let startReason): state.core.update(key) { $0.record.trace?.noteStart(startReason.trigger, at: now) }
        case .failed: state.core.update(key) { $0.record.trace?.noteFailure(at: now) }
        case .succeeded: traced.append((trace, id, nil))
        case .ended(let ending): traced.append((trace, id, ending))
        case .waiting, .backingOff, .warned: break
        }
    }

    private mutating func noteEnd(of key: JobKey, _ state: inout RetryBus.State) {
        if let job = state.noteEnd(of: key) { released.append(job) }
    }

    private mutating func tell(_ key: JobKey, _ step: DriverState.Flags, _ state: inout RetryBus.State) {
        state.core.update(key) { _ = $0.flags.insert(step) }
        wake(key, &state)
    }

    private mutating func wake(_ key: JobKey, _ state: inout RetryBus.State) {
        guard let job = state.core.job(key) else { return }
        switch job.driver.waiter {
        case .busy: return
        case .task(let continuation): continuations.append(continuation)
        case .definition(let definition): launches.append((definition, JobHandle(key, job), job.driver.taskPriority))
        }
        state.core.update(key) { $0.waiter = .busy }
    }

    /// Wakes the driver of a job whose handlers or reader want waits.
    private mutating func reportWaiting(_ key: JobKey, _ state: inout RetryBus.State) {
        if state.core.job(key)?.driver.flags.contains(.wantsWaits) == true { tell(key, .hasUnreadWait, &state) }
    }

    /// Updates the list of jobs that a shutdown ends unfinished.
    private func noteUnfinished(_ key: JobKey, _ change: JobChange, _ state: inout RetryBus.State) {
        guard state.core.isShutDown, state.unfinished[key] != nil else { return }
        switch change {
        case .succeeded: state.unfinished[key] = nil
        case .ended(.gaveUp(let reason, _, _)) where reason != .shutDown: state.unfinished[key] = nil
        case .ended: state.unfinished[key]?.job.lastError = state.core.job(key)?.driver.record.lastError
        case .waiting, .started, .failed, .backingOff, .warned: break
        }
    }

    /// Wakes tasks.
    ///
    /// Called first: jobs that may start come before everything else.
    func wake() {
        for continuation in continuations { continuation.resume() }
        for (definition, handle, priority) in launches { definition.launch(handle, priority) }
    }

    /// Runs effects that call code of callers, which may be slow.
    func perform() {
        for attempt in cancelled { attempt.cancel() }
        for end in traced { end.trace.end(end.id, end.ending) }
        for trace in handedBack { trace.handBack() }
        for followed in unfollowed { followed.close() }
        for (waiter, job) in parked { waiter.continuation.resume(returning: job) }
        for watcher in roomWatchers { watcher() }
    }
}

extension RetryBus.State {
    /// Returns the event of a change for listeners.
    fileprivate func event(_ job: ChangedJob, _ record: JobRecord, _ change: JobChange, at now: BusTime) -> RetryEvent {
        let id = JobHandle(key: job.key, number: job.number, name: record.name).id
        var event = RetryEvent(
            kind: .succeeded, job: id, scope: followed[job.scope]?.scope ?? .internet, destination: job.destination,
            attempt: job.started, waited: job.waited, at: now.duration)
        switch change {
        case .waiting(let condition):
            event.kind = .waiting
            let unmet = self.unmet(of: job.key)
            event.unmet = unmet.isEmpty ? [self.unmet(condition)].compactMap(\.self) : unmet
        case .started(_, let startReason):
            event.kind = .attemptStarted
            (event.trigger, event.saved, event.sinceReconnect) = (startReason.trigger, startReason.saved, startReason.sinceEdge)
        case .failed(let failure, let isCharged):
            event.kind = .attemptFailed
            if let error = record.failure {
                event.failure = RetryEvent.Failure(
                    error: error, fault: failure.fault, mayRetry: failure.mayRetry, isCharged: isCharged)
            }
        case .backingOff(let delay): (event.kind, event.delay) = (.backingOff, delay)
        case .warned(let text): (event.kind, event.warning) = (.warning, text)
        case .succeeded: event.kind = .succeeded
        case .ended(.cancelled): event.kind = .cancelled
        case .ended(.gaveUp(let reason, let counts, _)):
            event.kind = .gaveUp
            event.report = GiveUp(id, reason, counts, record.lastError)
        }
        return event
    }
}

extension GiveUp {
    init(_ job: JobID, _ reason: Reason, _ counts: JobCounts, _ lastError: (any Error)?) {
        self.init(
            job: job, reason: reason, attempts: counts.started, charged: counts.charged,
            networkFailures: counts.networkFailures, waited: counts.waited, elapsed: counts.elapsed, lastError: lastError)
    }
}
