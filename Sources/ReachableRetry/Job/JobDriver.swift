internal import Logging
internal import Reachability
internal import Synchronization

/// Drives one life of a job: waits until an attempt may start, runs it and reports its result to the bus.
///
/// `RetryBus.retry`, cold jobs and retried sequences all run their attempts here.
// A class, so that the frames of suspended tasks hold a pointer to it.
final class JobDriver: Sendable {
    /// The way in which a job's user follows it.
    enum Reader: Sendable {
        /// The driver continues by itself.
        case none
        /// The driver continues when its reader asks for the next event; the job is paused in between.
        case ofEvents
        /// The driver continues when its reader asks for the next element; the job is not paused in between.
        case ofElements
    }

    /// The next step of a job.
    // Indirect: its parts would be in the frames of tasks that wait, several times (`bench crowd`).
    indirect enum Step {
        case start(Attempt)
        /// An attempt with this number starts when the reader of events asks for the next one.
        case announced(Int)
        case ended(JobEnd)
        /// The job waits for the network or other conditions. Only for jobs that were submitted with `wantsWaits`.
        case waiting([RetryEvent.Unmet])
        /// The bus makes another driver when there is something to do.
        case left
    }

    /// The result of an attempt that has ended.
    enum AttemptResult<Value> {
        case succeeded(Value)
        /// The failure as the bus sees it; `nil` if the job was cancelled.
        case failed(RetryEvent.Failure?)
    }

    let bus: RetryBus
    let handle: JobHandle
    let policy: RetryPolicy
    let reader: Reader
    /// True for cold jobs, whose end is reported to their handlers.
    let hasEventHandlers: Bool

    init(bus: RetryBus, handle: JobHandle, policy: RetryPolicy, reader: Reader = .none, hasEventHandlers: Bool = false) {
        self.bus = bus
        self.handle = handle
        self.policy = policy
        self.reader = reader
        self.hasEventHandlers = hasEventHandlers
    }

    private var key: JobKey { handle.key }

    /// Cancels the job while `body` runs if the calling task is cancelled.
    private func cancellable<Output>(isolation: isolated (any Actor)?, _ body: () async -> Output) async -> Output {
        await withTaskCancellationHandler(
            operation: body, onCancel: { [bus, handle] in bus.cancel(handle) }, isolation: isolation)
    }

    // MARK: - Steps

    /// Suspends until the job may start an attempt or has ended; returns at once if that is already so.
    ///
    /// - Parameter definition: Makes the next driver. If given, this one returns ``Step/left`` instead of suspending.
    func next(leavingJobTo definition: AnyJobDefinition? = nil) async -> Step {
        while true {
            if let step = takeStep() { return step }
            if let definition {
                if sleep(.definition(definition)) { return .left }
            } else {
                await sleep()
            }
        }
    }

    /// Runs attempts as long as the job may start one; returns the value, or `nil` if the job has to ``sleep()``.
    ///
    /// - Throws: The error for the caller of a job that has ended.
    // Not inlined: its frame would be part of the frame of each job that waits, and most of it (`bench crowd`: 1300 bytes a
    // job instead of 5200).
    @inline(never)
    func proceed<Value>(
        isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async throws -> Value? {
        while let step = takeStep() {
            switch step {
            case .start(let attempt):
                if case .succeeded(let value) = await run(attempt, isolation: isolation, operation) { return value }
            case .ended(let end): throw finalError(end)
            case .waiting, .announced, .left: break
            }
        }
        return nil
    }

    /// Suspends until there may be something to do; returns at once if there is already.
    func sleep() async {
        await cancellable(isolation: #isolation) {
            await withUnsafeContinuation { continuation in
                if !sleep(.task(continuation)) { continuation.resume() }
            }
        }
    }

    /// Takes the next step of the job; returns `nil` if there is nothing to do.
    // Not inlined, like `proceed`: its temporaries would be part of the frames of its callers.
    @inline(never)
    private func takeStep() -> Step? {
        let (step, scope) = takeStepFromTable()
        if let scope { watchSources(to: scope) }
        return step
    }

    /// Returns the next step, and for a start the scope whose source addresses the attempt depends on.
    private func takeStepFromTable() -> (Step?, Scope?) {
        guard reader == .ofEvents else {
            let reading = bus.clock.now()
            let (taken, waiters) = bus.state.withLock { state in
                (state.takeStep(self, at: state.time(reading)), state.takeQuietWaiters())
            }
            for waiter in waiters { waiter.resume() }
            return (taken.step, taken.scope)
        }
        // What was taken is released outside of the lock.
        var (step, scope, ended): (Step?, Scope?, JobState?)
        defer { withExtendedLifetime(ended) {} }
        bus.change { state, now in
            (step, scope, ended) = state.takeStep(self, at: now)
            guard case .waiting = step else { return [] }
            state.core.withdrawAnnouncement(key)
            return state.core.pause(key, by: .reader, at: now)
        }
        return (step, scope)
    }

    /// Leaves `waiter` to be woken by the bus; returns `false` if there is something to do already.
    private func sleep(_ waiter: DriverState.Waiter) -> Bool {
        let reading = bus.clock.now()
        let (isAsleep, parked, quiet) = bus.state.withLock { state in
            guard let job = state.core[key], !job.driver.hasStep else {
                return (false, [(ParkedWaiter, PendingJob)](), [UnsafeContinuation<Void, Never>]())
            }
            state.core.update(key) { $0.waiter = waiter }
            let parked = state.parkedWaiters.isEmpty ? [] : state.takeParkedWaiters(at: state.time(reading))
            return (true, parked, state.takeQuietWaiters())
        }
        for waiter in quiet { waiter.resume() }
        for (waiter, job) in parked { waiter.continuation.resume(returning: job) }
        return isAsleep
    }

    /// Follows the source addresses of a new attempt's connections.
    private func watchSources(to scope: Scope) {
        // Outside of the lock: the monitor has its own. The path may be older than the addresses, so lost ones are left out.
        let sources = bus.monitor.sources(to: scope).map(bus.monitor.condition(holding:)).filter(\.state.isSatisfied)
        guard !sources.isEmpty else { return }
        bus.change { state, now in
            let indices = sources.map { state.index(of: $0, bus, at: now) }
            let effects = state.core.setSources(indices, of: key, at: now)
            return effects + indices.flatMap { state.refresh($0, at: now) }
        }
    }

    /// Resumes the job for a reader of events; returns its delay if it waits for nothing but a time.
    func resumeForReader() -> Duration? {
        var delay: Duration?
        bus.change { state, now in
            let effects = reader == .ofEvents ? state.core.resume(key, by: .reader, at: now) : []
            delay = state.core.delay(of: key, at: now)
            return effects
        }
        return delay
    }

    /// Pauses the job until its reader of events asks for the next one.
    func pauseForReader() {
        guard reader == .ofEvents else { return }
        bus.change { state, now in state.core.pause(key, by: .reader, at: now) }
    }

    // MARK: - Attempts

    /// Runs an attempt to its end and reports the result to the bus.
    func run<Value>(
        _ attempt: Attempt, isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async -> AttemptResult<Value> {
        switch await perform(attempt, isolation: isolation, operation) {
        case .success(let value):
            succeed()
            return .succeeded(value)
        case .failure(let error): return .failed(fail(error))
        }
    }

    /// Runs an operation of an attempt in a task of its own, so that it can be cancelled without its caller, and awaits it.
    ///
    /// Not a child task: a group resumes its parent through the executor even if all is done, which costs tens of microseconds
    /// on the main actor. The caller's cancellation arrives through the bus, its priority through a handler.
    func perform<Value>(
        _ attempt: Attempt, isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async -> Result<Value, any Error> {
        await cancellable(isolation: isolation) { await performUncancelled(attempt, isolation: isolation, operation) }
    }

    private func performUncancelled<Value>(
        _ attempt: Attempt, isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async -> Result<Value, any Error> {
        let attemptTask = AttemptTask()
        guard register(attemptTask) else { return .failure(CancellationError()) }
        let trace = bus.beginTrace(handle, attempt)
        if policy.rules.attemptTimeout != nil { bus.change { state, now in state.core.begin(key, at: now) } }
        let running = RunningAttempt(
            bus: ObjectIdentifier(bus), key: AttemptKey(key, attempt.number), name: handle.name, outer: RunningAttempt.stack)
        return await withoutActuallyEscaping(operation) { operation in
            let run = AttemptRun(operation)
            let priority = Task.currentPriority
            // Starts here and now: an operation that does not suspend costs no switch of tasks.
            let task = JobTrace.propagate(trace) {
                Task.immediate(executorPreference: Task.preferredExecutor ?? bus.configuration.executor) {
                    // Captured, so that the task is isolated like its caller.
                    _ = isolation
                    attemptTask.begin()
                    await RunningAttempt.$current.withValue(running) { await run.perform(attempt) }
                }
            }
            attemptTask.keep(task)
            await withTaskPriorityEscalationHandler {
                // The handler hears of no rise that came before it.
                if Task.currentPriority > priority { task.escalatePriority(to: Task.currentPriority) }
                await task.value
            } onPriorityEscalated: { _, priority in
                task.escalatePriority(to: priority)
            }
            return run.result ?? .failure(CancellationError())
        }
    }

    /// Makes an attempt that is about to run cancellable; returns `false` if the bus has cut it already.
    private func register(_ task: AttemptTask) -> Bool {
        let registered = bus.state.withLock { state in
            // The old one is released outside of the lock.
            let old = state.core.update(key) { driver in
                let old = driver.record.attempt
                driver.record.attempt = task
                return old
            }
            return (isInterrupted: state.core[key]?.attempt?.interruption != nil, old)
        }
        return !registered.isInterrupted
    }

    /// True if the bus has cut the running attempt.
    var isInterrupted: Bool { bus.state.withLock { $0.core[key]?.attempt?.interruption != nil } }

    /// Ends the job with its attempt's success.
    func succeed() {
        bus.change { state, now in
            // A shutdown waits until the handlers of a cold job have returned.
            if hasEventHandlers, reader == .none { state.runningEndHandlers += 1 }
            return state.core.succeed(key, at: now)
        }
    }

    /// Reports a failed attempt to the bus, which decides what follows; returns the failure, or `nil` if the job was cancelled.
    ///
    /// - Parameter isFinal: True if no other attempt can succeed, whatever the policy says.
    @discardableResult
    func fail(_ error: any Error, isFinal: Bool = false) -> RetryEvent.Failure? {
        let (context, scope) = bus.state.withLock { state in
            (state.core.failureContext(of: key), state.core[key].flatMap { state.followed[$0.scope]?.scope })
        }
        // The bus was told already.
        guard let context else { return nil }
        let interruption = context.attempt.interruption
        let cut: RetryError? =
            switch interruption {
            case .timeout: .attemptTimedOut
            case .loss: .attemptInterrupted
            case .deadline, .cancelled, nil: nil
            }
        let classified = error as? ClassifiedError
        let bare = classified?.error ?? error
        var report = policy.rules.classification.adding(classified).report(bare, cut: cut)
        if isFinal { report.mayRetry = false }
        let error: any Error = report.evidence.isAnswer ? bare : cut ?? bare
        // An attempt that the bus cut and repeats is not the reason that the caller gets later.
        let isForgotten = cut == .attemptInterrupted && !report.evidence.isAnswer && report.mayRetry
        context.job.driver.record.trace?.fail(error)
        // An error may outrun the event that explains it.
        let isGone = context.wouldCharge(report) && scope.map(bus.isGone) ?? false
        let delays = FailureDelays(context, random: policy.rules.backoff.isRandom ? bus.draw() : 0)
        var failure: RetryEvent.Failure?
        // Released outside of the lock.
        var old: (failure: (any Error)?, lastError: (any Error)?)
        bus.change { state, now in
            let refreshed = state.refresh(key, at: now)
            let paused = reader == .ofEvents ? state.core.pause(key, by: .reader, at: now) : []
            state.core.update(key) { driver in
                old = (driver.record.failure, driver.record.lastError)
                driver.record.failure = error
                if !isForgotten { driver.record.lastError = error }
            }
            let effects = state.core.fail(
                key, report, interruption: interruption, isGone: isGone, delays: delays, id: handle.id, at: now)
            failure = effects.lazy.compactMap { RetryEvent.Failure($0, error) }.first
            return refreshed + paused + effects
        }
        withExtendedLifetime(old) {}
        // After the loss was recorded, because the evaluation ends it.
        if isGone, let scope { bus.monitor.reevaluate(scope) }
        return failure
    }

    // MARK: - The end

    /// Calls the policy's handlers if the job gave up; returns the error that its caller gets.
    @inline(never)
    private func finalError(_ end: JobEnd) -> any Error {
        defer { bus.noteEndHandled() }
        return conclude(end).error
    }

    /// Calls the policy's handlers if the job gave up; returns the error that its caller gets, and the report if there is one.
    func conclude(_ end: JobEnd) -> (error: any Error, report: GiveUp?) {
        guard case .gaveUp(let reason, let counts, let isCut) = end.ending else { return (CancellationError(), nil) }
        let report = GiveUp(handle.id, reason, counts, end.lastError)
        for handler in policy.rules.giveUpHandlers { handler(report) }
        if policy.rules.throwsReport { return (report, report) }
        if !isCut, let lastError = report.lastError { return (lastError, report) }
        return (RetryError(RetryError.Code(rawValue: reason.rawValue)), report)
    }

    /// Ends a job whose driver is dropped.
    func abandon() {
        bus.change { state, now in
            let cancelled = state.cancel(key, at: now)
            // Its attempt may have been started by the bus and not by the driver.
            let failed = state.core.fail(
                key, FailureReport(.unclassified), interruption: .cancelled, isGone: false, delays: FailureDelays(.zero), at: now)
            return cancelled + failed
        }
        // Its error is released outside of the lock.
        _ = bus.state.withLock { $0.takeEnd(of: key) }
    }
}

extension RetryBus {
    /// Records that an attempt makes progress.
    ///
    /// - Parameters:
    ///   - forgives: Resets the charged attempts and the backoff.
    ///   - leavesLimits: Takes the attempt out of the limits of the bus.
    func noteProgress(_ handle: JobHandle, of attempt: Int, forgives: Bool = false, leavesLimits: Bool = false) {
        change { state, now in
            if forgives { state.core.forgive(handle.key) }
            let freed = leavesLimits ? state.core.leaveLimits(handle.key, at: now) : []
            return freed + state.core.noteProgress(handle.key, of: attempt, at: now)
        }
    }

    /// Records how much of a transfer is kept.
    fileprivate func noteKept(_ bytes: Int64, _ handle: JobHandle, of attempt: Int) {
        change { state, now in state.core.noteKept(bytes, handle.key, of: attempt, at: now) }
    }

    private static let warnings = Mutex<Set<String>>([])

    /// Publishes a warning about a job, and logs it if it is the first of its text in this process.
    fileprivate func warn(_ text: String, _ handle: JobHandle, of attempt: Int) {
        change { state, _ in state.core.warn(text, handle.key, of: attempt) }
        if Self.warnings.withLock({ $0.insert(text).inserted }) { logger.warning("\(text)") }
    }

    /// Records that the handlers of a job's end have returned.
    func noteEndHandled() {
        let ends = state.withLock { state in
            state.runningEndHandlers -= 1
            return state.takeEnds()
        }
        for end in ends { end.resume() }
    }
}

extension RetryBus.State {
    /// Returns the next step, for a start the scope whose source addresses the attempt depends on, and a job that has ended.
    fileprivate mutating func takeStep(
        _ driver: JobDriver, at now: BusTime
    ) -> (step: JobDriver.Step?, scope: Scope?, ended: JobState?) {
        let key = driver.handle.key
        if let (end, job) = takeEnd(of: key) {
            if !end.hasReader { runningEndHandlers += 1 }
            return (.ended(end), nil, job)
        }
        if take(.hasUnreadWait, of: key) {
            // A wait that is over already is not reported, and none to a cancelled task, which ends the job next.
            let mayStart = core[key]?.driver.flags.contains(.mayStart) == true
            let unmet = !mayStart && !Task.isCancelled ? self.unmet(of: key) : []
            if !unmet.isEmpty { return (.waiting(unmet), nil, nil) }
        }
        if take(.isAnnounced, of: key), let number = core.announcedAttempt(of: key) { return (.announced(number), nil, nil) }
        guard let job = core[key], let running = job.attempt, let start = core.currentStart(of: key, at: now),
            take(.mayStart, of: key)
        else { return (nil, nil, nil) }
        var attempt = Attempt(
            number: start.number, previousFailure: job.driver.record.lastError, timeLimit: start.limit, epoch: start.epoch)
        attempt.network = (.init(bus: ObjectIdentifier(driver.bus), scope: job.scope), running.scopeEpoch)
        attempt.cut = { [weak bus = driver.bus] in
            bus?.state.withLock { $0.core[key]?.attempt?.interruption?.isCut } == true
        }
        attempt.report = { [weak bus = driver.bus, handle = driver.handle] report in
            switch report {
            case .progress: bus?.noteProgress(handle, of: start.number)
            case .kept(let bytes): bus?.noteKept(bytes, handle, of: start.number)
            case .warning(let text): bus?.warn(text, handle, of: start.number)
            }
        }
        return (.start(attempt), scopeOfSources(key), nil)
    }

    /// Returns true if a driver has something to do that it has not taken yet.
    private mutating func take(_ step: DriverState.Flags, of key: JobKey) -> Bool {
        core.update(key) { $0.flags.remove(step) != nil } == true
    }

    /// The scope whose path's source addresses the job's attempt depends on; `nil` if the policy ignores them.
    fileprivate func scopeOfSources(_ key: JobKey) -> Scope? {
        guard let job = core[key], job.rules.interruption?.heedsSource == true else { return nil }
        return followed[job.scope]?.scope
    }

    /// The conditions that a job waits for.
    func unmet(of key: JobKey) -> [RetryEvent.Unmet] { core.unmetConditions(of: key).compactMap { unmet($0) } }

    /// A condition as listeners know it.
    func unmet(_ index: ConditionIndex) -> RetryEvent.Unmet? {
        followed[index].map { entry in entry.scope.map { .network($0) } ?? .condition(entry.condition.name) }
    }
}

extension RetryEvent.Failure {
    /// The failure that an effect publishes.
    fileprivate init?(_ effect: Effect, _ error: any Error) {
        guard case .publish(_, .failed(let failure, let isCharged)) = effect else { return nil }
        self.init(error: error, fault: failure.fault, mayRetry: failure.mayRetry, isCharged: isCharged)
    }
}

/// An attempt that a task runs in.
struct RunningAttempt: Sendable {
    @TaskLocal static var current: RunningAttempt?

    let bus: ObjectIdentifier
    let key: AttemptKey
    /// The name of its job, if the caller chose one.
    let name: JobID?
    /// The attempts around it.
    let outer: [RunningAttempt]

    /// The attempts that wait for what the current task does, the outermost first; some may have ended.
    static var stack: [RunningAttempt] { current.map { $0.outer + CollectionOfOne($0) } ?? [] }

    /// Returns the innermost attempt on a bus.
    static func current(on bus: RetryBus) -> RunningAttempt? {
        guard let current else { return nil }
        return current.bus == ObjectIdentifier(bus) ? current : current.outer.last { $0.bus == ObjectIdentifier(bus) }
    }
}

/// Cancels an attempt from any thread, from the operation's first instruction on.
///
/// An attempt begins on the thread that creates its task, before the task has a handle. Without this class an operation that never
/// suspends could not be cancelled.
final class AttemptTask: Sendable {
    private struct State {
        var isCancelled = false
        /// The task's own reference, until its creator has a handle.
        var current: Current?
        var task: Task<Void, Never>?
    }

    /// Sendable: only `cancel()` is called, which any thread may call as long as the task has not been released.
    private struct Current: @unchecked Sendable {
        let task: UnsafeCurrentTask
    }

    private let state = Mutex(State())

    /// Registers the task; called by the task before its operation.
    func begin() {
        let current = withUnsafeCurrentTask { $0.map(Current.init) }
        let isCancelled = state.withLock { state in
            if state.task == nil { state.current = current }
            return state.isCancelled
        }
        if isCancelled { cancel() }
    }

    /// Registers the handle; called by the task's creator, which holds the task until then.
    func keep(_ task: Task<Void, Never>) {
        state.withLock { state in
            (state.task, state.current) = (task, nil)
        }
    }

    /// Cancels the task, now or when it begins.
    func cancel() {
        let (task, current) = state.withLock { state in
            state.isCancelled = true
            return (state.task, state.current)
        }
        // Outside of the lock: cancellation handlers run here.
        if let task { task.cancel() } else { current?.task.cancel() }
        // The creator holds the task until `keep`, and this object holds it after that: it outlives the call.
        withExtendedLifetime(self) {}
    }
}

/// One attempt and its result.
///
/// Sendable although neither operation nor result need be: the task that uses them has its caller's isolation, and the caller
/// does nothing but wait from its start to its end. What the task wrote is read after it was awaited.
private final class AttemptRun<Value>: @unchecked Sendable {
    private let operation: (Attempt) async throws -> Value
    private(set) var result: Result<Value, any Error>?

    init(_ operation: @escaping (Attempt) async throws -> Value) { self.operation = operation }

    func perform(_ attempt: Attempt) async {
        do { result = .success(try await operation(attempt)) } catch { result = .failure(error) }
    }
}
