internal import Reachability
internal import Synchronization

extension RetryBus {
    /// The jobs that have not ended, by priority and age, and why each is not running.
    ///
    /// A snapshot, at a cost that grows with the number of jobs.
    public var pending: [PendingJob] {
        let reading = clock.now()
        let jobs = state.withLock { state in
            let now = state.time(reading)
            return state.core.liveKeys.compactMap { state.pendingJob($0, at: now) }
        }
        return withMissing(jobs)
    }

    /// Adds to jobs that wait for the network what is missing there.
    func withMissing(_ jobs: [PendingJob]) -> [PendingJob] {
        var jobs = jobs
        var missing: [Scope: String?] = [:]
        for index in jobs.indices where jobs[index].isScopeUnmet {
            let scope = jobs[index].scope
            let words = missing[scope] ?? monitor.missing(for: scope)
            missing[scope] = .some(words)
            jobs[index].missing = words
        }
        return jobs
    }

    /// What is kept, for tests that look for leaks: jobs, what their tasks have to pick up, conditions, listeners, timers.
    package var usage: [Int] {
        state.withLock { state in
            [
                state.core.count, state.table.count, state.followed.count(where: { $0.scope != .internet }),
                state.broadcaster.listenerCount, state.core.timerCount,
            ]
        }
    }

    /// When the bus wakes up by itself, on its clock; `nil` if it does not.
    package var nextWakeUp: Duration? {
        let time = alarm.time
        return time.isNever ? nil : time.duration
    }
}

extension RetryBus.State {
    func pendingJob(_ key: JobKey, at now: BusTime) -> PendingJob? {
        guard let job = core[key], let record = table[key]?.record, let description = core.description(of: key, at: now) else {
            return nil
        }
        let unmet = description.unmet.compactMap { index in
            followed[index].map { entry in entry.scope.map { "\($0)" } ?? entry.condition.name }
        }
        return PendingJob(
            id: JobHandle(key: key, number: job.number, name: record.name).id, state: description.state,
            scope: followed[job.scope]?.scope ?? .internet,
            destination: description.destination, priority: job.priority, unmet: unmet, softDelay: description.softDelay,
            hardDelay: description.hardDelay, timeLeft: description.timeLeft, attempts: Int(job.history.started),
            charged: Int(job.history.charged), networkFailures: Int(job.history.networkFailures),
            lastError: record.lastError, isScopeUnmet: description.unmet.first == job.scope, queueReason: description.queueReason,
            queueDelay: description.queueDelay, errnoReaders: job.rules.classification.errnoReaders)
    }
}

/// Somebody who waits for a job to wait.
struct ParkedWaiter: Sendable {
    let number: UInt64
    let id: JobID
    let continuation: CheckedContinuation<PendingJob, any Error>
}

extension RetryBus {
    /// Suspends until a job waits for a condition or a time and its task sleeps, or it has none.
    ///
    /// The way for tests to meet a job that no timer tells of. Also waits for the job to be submitted.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    package func untilParked(_ id: JobID) async throws -> PendingJob {
        try Task.checkCancellation()
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        var job = try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let reading = clock.now()
                let parked = state.withLock { state in
                    state.parkedWaiters.append(ParkedWaiter(number: number, id: id, continuation: continuation))
                    return state.takeParkedWaiters(at: state.time(reading))
                }
                for (waiter, job) in parked { waiter.continuation.resume(returning: job) }
                if Task.isCancelled { cancelParkedWaiter(number) }
            }
        } onCancel: {
            cancelParkedWaiter(number)
        }
        if job.isScopeUnmet { job.missing = monitor.missing(for: job.scope) }
        return job
    }

    /// Whether the tasks of all jobs sleep, run an attempt, or look at an event.
    package var isQuiet: Bool { state.withLock { $0.isQuiet } }

    /// Suspends until the bus is quiet.
    package func untilQuiet() async {
        await withUnsafeContinuation { continuation in
            let isQuiet = state.withLock { state in
                if !state.isQuiet { state.quietWaiters.append(continuation) }
                return state.isQuiet
            }
            if isQuiet { continuation.resume() }
        }
    }

    private func cancelParkedWaiter(_ number: UInt64) {
        let waiter = state.withLock { state in
            state.parkedWaiters.firstIndex { $0.number == number }.map { state.parkedWaiters.remove(at: $0) }
        }
        waiter?.continuation.resume(throwing: CancellationError())
    }
}

extension RetryBus.State {
    fileprivate var isQuiet: Bool {
        table.isQuiet { key in core[key].map { $0.phase == .running || $0.pausers.contains(.reader) } ?? false }
    }

    /// The tasks that waited until the bus is quiet, if it is.
    mutating func takeQuietWaiters() -> [UnsafeContinuation<Void, Never>] {
        guard !quietWaiters.isEmpty, isQuiet else { return [] }
        defer { quietWaiters = [] }
        return quietWaiters
    }

    /// The witnesses whose jobs wait now.
    mutating func takeParkedWaiters(at now: BusTime) -> [(ParkedWaiter, PendingJob)] {
        var taken: [(ParkedWaiter, PendingJob)] = []
        var rest: [ParkedWaiter] = []
        for waiter in parkedWaiters {
            if let key = table.key(of: waiter.id), table[key]?.isAwake == false, let job = pendingJob(key, at: now),
                job.state != .running
            {
                taken.append((waiter, job))
            } else {
                rest.append(waiter)
            }
        }
        parkedWaiters = rest
        return taken
    }
}
