internal import Reachability
internal import Synchronization

/// The lives of a cold job, one after the other, for one who asks what happens next.
///
/// Nothing happens that nobody asked for: between two questions of a reader the job is paused. Used by one task at a time; who
/// drops it has no job any more.
final class JobLife<Value: Sendable> {
    private enum Stage {
        /// Nobody has asked yet, or the life before has ended; when the next one begins.
        case unborn(notBefore: BusTime)
        case living(JobHandle)
        /// An attempt may run, as was told.
        case starting(JobHandle, Attempt)
        /// It has a value that was told as an attempt's, and not yet as the job's.
        case done(Value)
        case over
    }

    private let definition: JobDefinition<Value>
    /// Whether it goes on only when it is asked.
    private let isPulled: Bool
    /// Whether it ends when there is nothing to do, and leaves the job to the bus.
    private let mayLeave: Bool
    private var stage: Stage
    private var instance: JobInstance<Value>
    /// Whether the delay after the last failure was told.
    private var hasToldOfDelay = true
    /// Whether the bus waits until the end was told.
    private var isAwaited = false

    init(_ definition: JobDefinition<Value>, isPulled: Bool) {
        self.definition = definition
        self.isPulled = isPulled
        mayLeave = false
        stage = .unborn(notBefore: .past)
        instance = definition.makeInstance()
    }

    /// A life of a job that was submitted, which goes on by itself.
    init(_ definition: JobDefinition<Value>, _ handle: JobHandle, mayLeave: Bool) {
        self.definition = definition
        isPulled = false
        self.mayLeave = mayLeave
        stage = .living(handle)
        instance = definition.makeInstance()
    }

    deinit {
        switch stage {
        case .living(let handle), .starting(let handle, _):
            definition.bus.abandon(handle)
            definition.tell(.cancelled)
        case .done(let value): definition.tell(.succeeded(value))
        case .unborn, .over: break
        }
    }

    /// What happens next; `nil` if nothing does any more, or if the calling task was cancelled before a life began.
    func next(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        guard let event = await nextEvent(isolation: isolation) else {
            stage = .over
            return nil
        }
        definition.tell(event)
        switch event {
        case .succeeded, .gaveUp, .cancelled:
            if isAwaited { definition.bus.noteTold() }
            isAwaited = false
        case .waiting, .attemptStarted, .attemptSucceeded, .attemptFailed, .backingOff: break
        }
        return event
    }

    private func nextEvent(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch stage {
        case .over: return nil
        case .done(let value):
            stage = definition.interval.map { .unborn(notBefore: definition.bus.clock.now() + $0) } ?? .over
            if definition.interval != nil { instance = definition.makeInstance() }
            return .succeeded(value)
        case .unborn(let notBefore):
            if Task.isCancelled { return nil }
            do {
                let handle = try begin(notBefore)
                return await cancellable(handle, isolation: isolation) { await step(handle, isolation: isolation) }
            } catch {
                stage = .over
                return .gaveUp(error, nil)
            }
        case .living(let handle):
            let delay = definition.bus.goOn(handle, isPulled: isPulled)
            let isNews = !hasToldOfDelay
            hasToldOfDelay = true
            if isNews, let delay {
                if isPulled { definition.bus.pauseForReader(handle) }
                return .backingOff(delay)
            }
            return await cancellable(handle, isolation: isolation) { await step(handle, isolation: isolation) }
        case .starting(let handle, let attempt):
            stage = .living(handle)
            return await cancellable(handle, isolation: isolation) { await run(attempt, handle, isolation: isolation) }
        }
    }

    private func begin(_ notBefore: BusTime) throws(RetryError) -> JobHandle {
        var request = definition.request
        (request.notBefore, request.wantsWaits, request.isPulled) = (notBefore, true, isPulled)
        let handle = try definition.bus.submit(request)
        (stage, hasToldOfDelay) = (.living(handle), true)
        return handle
    }

    /// Cancels the job with the calling task.
    private func cancellable(
        _ handle: JobHandle, isolation: isolated (any Actor)?, _ body: () async -> JobEvent<Value>?
    ) async -> JobEvent<Value>? {
        let bus = definition.bus
        return await withTaskCancellationHandler(operation: body, onCancel: { bus.cancel(handle) }, isolation: isolation)
    }

    private func step(_ handle: JobHandle, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch await definition.bus.nextStep(handle, isPulled: isPulled, leaving: mayLeave ? definition : nil) {
        case .left:
            stage = .over
            return nil
        case .waiting(let unmet): return .waiting(for: unmet)
        case .start(let attempt):
            stage = .starting(handle, attempt)
            return .attemptStarted(attempt.number)
        case .end(let end):
            (stage, isAwaited) = (.over, !end.isPulled)
            let (error, report) = definition.bus.conclude(end, handle, instance.policy)
            return report.map { .gaveUp(error, $0) } ?? .cancelled
        }
    }

    private func run(_ attempt: Attempt, _ handle: JobHandle, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        let bus = definition.bus
        switch await bus.perform(attempt, handle, isolation: isolation, instance.operation) {
        case .success(let value):
            bus.change { state, now in
                // A shutdown waits until the end was told.
                if !isPulled { state.untold += 1 }
                return state.core.succeed(handle.key, at: now)
            }
            (stage, isAwaited) = (.done(value), !isPulled)
            return .attemptSucceeded(value)
        case .failure(let error):
            let failure = bus.failed(handle, instance.policy, error, isPaused: isPulled)
            hasToldOfDelay = false
            // Without a verdict it was cancelled, and that is all that is left to hear.
            guard let failure else { return await step(handle, isolation: isolation) }
            return .attemptFailed(failure)
        }
    }
}

extension RetryBus {
    /// Somebody asks for what comes next; returns for how long the job only waits for a time.
    fileprivate func goOn(_ handle: JobHandle, isPulled: Bool) -> Duration? {
        var delay: Duration?
        change { state, now in
            let effects = isPulled ? state.core.resume(handle.key, by: .reader, at: now) : []
            delay = state.core.delay(of: handle.key, at: now)
            return effects
        }
        return delay
    }

    fileprivate func pauseForReader(_ handle: JobHandle) {
        change { state, now in state.core.pause(handle.key, by: .reader, at: now) }
    }

    /// Nobody will ask for a job any more: it ends, and nothing of it is left.
    func abandon(_ handle: JobHandle) {
        change { state, now in
            let cancelled = state.cancel(handle.key, at: now)
            // It may have been let go without anybody starting it.
            let (_, failed) = state.core.fail(
                handle.key, FailureReport(.unclassified), interruption: .cancelled, isGone: false, at: now)
            return cancelled + failed
        }
        // Its error is released outside of the lock.
        _ = state.withLock { $0.table.takeEnd(of: handle.key) }
    }
}

extension RetryBus {
    /// What a job's driver does next.
    enum Step {
        case start(Attempt)
        case end(JobEnd)
        /// The job waits for the network or another condition; only if its driver wants to know.
        case waiting([RetryEvent.Unmet])
        /// Nothing: the bus launches another driver when there is something to do.
        case left
    }

    /// Suspends until the job may start an attempt or is over; not at all if that is so already.
    ///
    /// - Parameters:
    ///   - isPulled: Pauses the job before its reader is told that it waits.
    ///   - plan: Returns ``Step/left`` instead of suspending; this plan makes the next driver.
    func nextStep(_ handle: JobHandle, isPulled: Bool = false, leaving definition: AnyJobDefinition? = nil) async -> Step {
        while true {
            if let step = takeStep(handle, isPulled: isPulled) {
                if case .start = step { watchSources(handle) }
                return step
            }
            if let definition {
                if leave(handle, definition) { return .left }
            } else {
                await suspend(handle)
            }
        }
    }

    private func takeStep(_ handle: JobHandle, isPulled: Bool) -> Step? {
        var step: Step?
        guard isPulled else {
            let reading = clock.now()
            let (step, parkedWaiters) = state.withLock { state in
                (state.takeStep(handle, self, at: state.time(reading)), state.takeQuietWaiters())
            }
            for waiter in parkedWaiters { waiter.resume() }
            return step
        }
        change { state, now in
            step = state.takeStep(handle, self, at: now)
            if case .waiting = step { return state.core.pause(handle.key, by: .reader, at: now) }
            return []
        }
        return step
    }

    /// Whether the running attempt was cut by the bus.
    func isInterrupted(_ handle: JobHandle) -> Bool { state.withLock { $0.table[handle.key]?.interruption != nil } }

    /// Has an attempt be cancellable that is about to run; returns `false` if it was cut already.
    func attemptBegins(_ handle: JobHandle, _ task: AttemptTask) -> Bool {
        let (isInterrupted, _) = state.withLock { state in
            let old = state.table[handle.key]?.record.attempt
            state.table[handle.key]?.record.attempt = task
            // The old one is released outside of the lock.
            return (state.table[handle.key]?.interruption != nil, old)
        }
        return !isInterrupted
    }

    /// Follows the addresses that a new attempt's connections will come from, if its policy heeds them.
    private func watchSources(_ handle: JobHandle) {
        guard let scope = state.withLock({ $0.scopeOfSources(handle.key) }) else { return }
        // Not under the lock: the monitor has its own. A verdict may be older than the addresses: one that is gone is no source.
        let sources = monitor.sources(to: scope).map(monitor.condition(holding:)).filter(\.state.isSatisfied)
        guard !sources.isEmpty else { return }
        change { state, now in
            let indices = sources.map { state.index(of: $0, self, at: now) }
            let effects = state.core.setSources(indices, of: handle.key, at: now)
            return effects + indices.flatMap { state.refresh($0, at: now) }
        }
    }

    private func suspend(_ handle: JobHandle) async {
        await withUnsafeContinuation { continuation in
            if !sleep(handle, .task(continuation)) { continuation.resume() }
        }
    }

    private func leave(_ handle: JobHandle, _ definition: AnyJobDefinition) -> Bool { sleep(handle, .definition(definition)) }

    /// Leaves what wakes a job, unless there is something to do.
    private func sleep(_ handle: JobHandle, _ waiter: JobTable.Waiter) -> Bool {
        let reading = clock.now()
        let (isAsleep, parked, parkedWaiters) = state.withLock { state in
            // One that has ended is not there any more.
            guard let entry = state.table[handle.key], !entry.mayStart, !entry.hasUnreadWait else {
                return (false, [(ParkedWaiter, PendingJob)](), [UnsafeContinuation<Void, Never>]())
            }
            state.table[handle.key]?.waiter = waiter
            let parked = state.parkedWaiters.isEmpty ? [] : state.takeParkedWaiters(at: state.time(reading))
            return (true, parked, state.takeQuietWaiters())
        }
        for waiter in parkedWaiters { waiter.resume() }
        for (waiter, job) in parked { waiter.continuation.resume(returning: job) }
        return isAsleep
    }

    /// An attempt reports that it gets somewhere.
    ///
    /// - Parameters:
    ///   - forgives: Forgets the failures before: charged attempts and the growth of delays.
    ///   - leavesLimits: Counts no more for the limits of the bus.
    func noteProgress(_ handle: JobHandle, of attempt: Int, forgives: Bool = false, leavesLimits: Bool = false) {
        change { state, now in
            if forgives { state.core.forgive(handle.key) }
            let freed = leavesLimits ? state.core.leaveLimits(handle.key, at: now) : []
            return freed + state.core.noteProgress(handle.key, of: attempt, at: now)
        }
    }

    /// The handlers of an ended life have been called.
    func noteTold() {
        let ends = state.withLock { state in
            state.untold -= 1
            return state.takeEnds()
        }
        for end in ends { end.resume() }
    }
}

extension RetryBus.State {
    fileprivate mutating func takeStep(_ handle: JobHandle, _ bus: RetryBus, at now: BusTime) -> RetryBus.Step? {
        let key = handle.key
        if let end = table.takeEnd(of: key) {
            if !end.isPulled { untold += 1 }
            return .end(end)
        }
        if table[key]?.hasUnreadWait == true {
            table[key]?.hasUnreadWait = false
            // A wait that is over already is not told of.
            let unmet = table[key]?.mayStart == false ? self.unmet(of: key) : []
            if !unmet.isEmpty { return .waiting(unmet) }
        }
        guard table[key]?.mayStart == true, let start = core.currentStart(of: key, at: now) else { return nil }
        table[key]?.mayStart = false
        var attempt = Attempt(
            number: start.number, previousFailure: table[key]?.record.lastError, timeLimit: start.limit, epoch: start.epoch)
        attempt.progress = { [weak bus] in bus?.noteProgress(handle, of: start.number) }
        return .start(attempt)
    }

    /// The scope whose path's source addresses the job's attempt depends on; `nil` if its policy does not heed them.
    fileprivate func scopeOfSources(_ key: JobKey) -> Scope? {
        guard let job = core[key], job.rules.interruption?.heedsSource == true else { return nil }
        return followed[job.scope]?.scope
    }

    /// What a job waits for.
    func unmet(of key: JobKey) -> [RetryEvent.Unmet] { core.unmetConditions(of: key).compactMap { unmet($0) } }

    /// What a condition is to a listener.
    func unmet(_ index: ConditionIndex) -> RetryEvent.Unmet? {
        followed[index].map { entry in entry.scope.map { .network($0) } ?? .condition(entry.condition.name) }
    }
}
