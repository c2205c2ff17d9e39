internal import Reachability
internal import Synchronization

extension RetryBus {
    /// The jobs that have not ended, by priority and age, with the reason why each is not running.
    ///
    /// A snapshot. Its cost grows with the number of jobs.
    public var pending: [PendingJob] {
        let reading = clock.now()
        let jobs = state.withLock { state in
            let now = state.time(reading)
            return state.core.liveKeys.compactMap { state.pendingJob($0, at: now) }
        }
        return withMissing(jobs)
    }

    /// Adds the missing layer to jobs that wait for the network.
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

    /// The number of jobs, table entries, conditions, listeners and timers, for tests that look for leaks.
    package var usage: [Int] {
        state.withLock { state in
            [
                state.core.count, state.table.count, state.followed.count(where: { $0.scope != .internet }),
                state.broadcaster.listenerCount, state.core.timerCount,
            ]
        }
    }

    /// The time of the next wake-up by timer, on the bus's clock; `nil` if there is none.
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
            queueDelay: description.queueDelay, isDue: description.isDue, errnoReaders: job.rules.classification.errnoReaders)
    }
}

/// A caller of ``RetryBus/untilParked(_:)``.
struct ParkedWaiter: Sendable {
    let number: UInt64
    let id: JobID
    let continuation: CheckedContinuation<PendingJob, any Error>
}

extension RetryBus {
    /// Waits until a job is submitted and waits for a condition or a time, and its task sleeps.
    ///
    /// For tests of jobs that have no timer.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    package func untilParked(_ id: JobID) async throws -> PendingJob {
        try Task.checkCancellation()
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        var job = try await withCancellableContinuation { continuation in
            let reading = clock.now()
            let parked = state.withLock { state in
                state.parkedWaiters.append(ParkedWaiter(number: number, id: id, continuation: continuation))
                return state.takeParkedWaiters(at: state.time(reading))
            }
            for (waiter, job) in parked { waiter.continuation.resume(returning: job) }
        } onCancel: {
            let waiter = state.withLock { state in
                state.parkedWaiters.firstIndex { $0.number == number }.map { state.parkedWaiters.remove(at: $0) }
            }
            waiter?.continuation.resume(throwing: CancellationError())
        }
        if job.isScopeUnmet { job.missing = monitor.missing(for: job.scope) }
        return job
    }

    /// True if the task of every job sleeps, runs an attempt or handles an event.
    package var isQuiet: Bool { state.withLock { $0.isQuiet } }

    /// Waits until the bus is quiet.
    package func untilQuiet() async {
        await withUnsafeContinuation { continuation in
            let isQuiet = state.withLock { state in
                if !state.isQuiet { state.quietWaiters.append(continuation) }
                return state.isQuiet
            }
            if isQuiet { continuation.resume() }
        }
    }
}

extension RetryBus.State {
    fileprivate var isQuiet: Bool {
        table.isQuiet { key in core[key].map { $0.phase == .running || $0.pausers.contains(.reader) } ?? false }
    }

    /// Removes and returns the tasks that wait for a quiet bus, if it is quiet.
    mutating func takeQuietWaiters() -> [UnsafeContinuation<Void, Never>] {
        guard !quietWaiters.isEmpty, isQuiet else { return [] }
        defer { quietWaiters = [] }
        return quietWaiters
    }

    /// Removes and returns the waiters whose jobs wait now.
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
