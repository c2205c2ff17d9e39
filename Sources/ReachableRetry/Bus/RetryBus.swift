internal import Logging
public import Reachability
internal import Synchronization

/// Repeats work until it succeeds: waits for the network without spending attempts, and starts on the reconnect.
///
/// ```swift
/// let bus = RetryBus()
/// let receipt = try await bus.retry { attempt in
///     try await upload(photo)
/// }
/// ```
///
/// A bus follows a monitor and backs off between failures. It has one timer for all of its jobs, and none while they only wait
/// for the network. Keep one bus for everything that shares a network. All members are thread-safe. Its jobs live in memory and
/// end with the program.
///
/// ## Topics
/// ### Making a bus
/// - ``init(_:configuration:clock:generator:)``
/// - ``Configuration``
/// - ``shared``
/// ### Repeating
/// - ``retry(_:to:options:isolation:operation:)``
/// - ``retry(_:to:options:joining:operation:)``
/// - ``sequence(_:to:options:resetsAfterElement:make:)``
/// ### Looking
/// - ``pending``
/// - ``events``
/// ### Deciding
/// - ``retryNow(_:ignoringServerDelays:)``
/// - ``cancel(_:)``
/// - ``pause(_:)``
/// - ``resume(_:)``
/// - ``setConditions(_:of:)``
/// - ``shutdown(drain:)``
public final class RetryBus: Sendable {
    /// The bus of `ReachabilityMonitor.shared`, for work that needs no bus of its own.
    ///
    /// The whole program shares it: do not shut it down.
    public static let shared = RetryBus()

    /// The longest wait of jobs for the first verdict of a monitor that is starting.
    static let startupLimit = Duration.seconds(2)
    /// The lateness of a timer after which the bus checks the paths before it starts jobs: the machine may have been suspended.
    static let suspiciousLateness = Duration.milliseconds(500)

    struct State {
        var core: RetryBusCore
        /// The jobs that their callers named.
        var names: [JobID: JobKey] = [:]
        /// The number of ends that drivers have not read yet and no reader has to ask for.
        fileprivate(set) var unclaimedEnds = 0
        var followed = FollowedConditions()
        var broadcaster = EventBroadcaster()
        /// The callers of ``RetryBus/untilParked(_:)``.
        var parkedWaiters: [ParkedWaiter] = []
        var nextWaiter: UInt64 = 0
        /// True after the warning that the monitor does not run.
        var hasWarned = false
        /// The callers of ``RetryBus/untilQuiet()``.
        var quietWaiters: [UnsafeContinuation<Void, Never>] = []
        /// Called once, outside of the lock, when the room for stored jobs may have changed; by the owner of the jobs.
        var roomWatchers: [ObjectIdentifier: @Sendable () -> Void] = [:]
        /// The number of changes, so that the timer knows the latest.
        var revision: UInt64 = 0
        /// The shared jobs, by name.
        var sharedJobs: [JobID: AnySharedJob] = [:]
        /// The callers of a shutdown that wait until no job is left.
        var ends: [UnsafeContinuation<Void, Never>] = []
        /// The jobs that had not ended when the shutdown began, without those that ended otherwise since.
        var unfinished: [JobKey: (number: Int, job: PendingJob)] = [:]
        /// The number of ended jobs whose handlers have not returned yet.
        var runningEndHandlers = 0
        /// The latest time of a change: two threads may take the lock in another order than they read the clock.
        fileprivate var latest = BusTime.past

        /// Returns the time of a change, which is never before that of the previous one.
        mutating func time(_ reading: BusTime) -> BusTime {
            latest = max(latest, reading)
            return latest
        }

        /// True if no job is left and all handlers of ends have returned.
        var isOver: Bool { core.count == 0 && unclaimedEnds == 0 && runningEndHandlers == 0 }

        /// Removes and returns the callers that wait for the end, if it has come.
        mutating func takeEnds() -> [UnsafeContinuation<Void, Never>] {
            guard !ends.isEmpty, isOver else { return [] }
            defer { ends = [] }
            return ends
        }
    }

    package let monitor: ReachabilityMonitor
    package let configuration: Configuration
    let instruments: BusInstruments?
    package let clock: BusClock
    let state: Mutex<State>
    let alarm: BusTimer
    private let lookups = RecentLookups()
    let random: Mutex<any RandomNumberGenerator & Sendable>

    /// Creates a bus.
    ///
    /// - Parameters:
    ///   - monitor: The monitor of the network. The bus does not run it. While it does not run, jobs start at once and all failures
    ///     are charged. The first such job logs a warning to ``Configuration/logger`` or, without one, to a logger of swift-log
    ///     with the label `ReachableRetry`.
    ///   - configuration: The release policy, limits and instruments.
    ///   - clock: The clock of delays and deadlines. `nil` uses the clock of a simulated network, and otherwise `ContinuousClock`,
    ///     which counts the time that the machine is suspended. Another clock over a simulated network logs a warning.
    ///   - generator: The source of jitter. The bus draws one number at a time, under a lock.
    public init(
        _ monitor: ReachabilityMonitor = .shared, configuration: Configuration = .init(),
        clock: (any Clock<Duration>)? = nil,
        generator: some RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    ) {
        self.monitor = monitor
        self.configuration = configuration
        instruments = BusInstruments(configuration)
        let time: any Clock<Duration> = clock ?? monitor.clock ?? ContinuousClock()
        self.clock = BusClock(time)
        var generator = generator
        // Drawn only if it is used: a test's generator may be made for the delays alone.
        let seed = configuration.releasePolicy.rules.isRandom || configuration.fleetSize != nil ? generator.next() : 0
        state = Mutex(
            State(
                core: RetryBusCore(
                    release: configuration.releasePolicy, maxConcurrent: configuration.maxConcurrent,
                    maxConcurrentPerDestination: configuration.maxConcurrentPerDestination, seed: seed),
                broadcaster: EventBroadcaster(
                    listenerLimit: configuration.bufferedEvents, isMeasured: configuration.metrics != nil,
                    isLogged: configuration.logger != nil)))
        alarm = BusTimer(self.clock)
        random = Mutex(generator)
        if let clock, let other = monitor.clock { warnOfTwoClocks(clock, other) }
    }

    deinit {
        for condition in state.withLock({ $0.followed.removeAll() }) { condition.close() }
        state.withLock { $0.broadcaster.close() }
        publish()
    }

    // MARK: - Deciding

    /// Ends backoff delays, so that jobs that only back off start at once.
    ///
    /// For a button, or a hint that something changed. Delays ordered by a server still apply by default. Jobs that wait for the
    /// network or another condition continue to wait. If a running attempt fails, the next one follows without a delay. The
    /// attempts are charged as usual. Returns at once.
    ///
    /// - Parameters:
    ///   - scope: Selects the jobs to this scope; `nil` selects all jobs.
    ///   - ignoringServerDelays: Also ends delays ordered by servers, of single jobs and of destinations. Intervals of
    ///     ``Job/repeating(every:)`` still apply.
    public func retryNow(_ scope: Scope? = nil, ignoringServerDelays: Bool = false) {
        change { state, now in
            guard let scope else { return state.core.retryNow(nil, ignoringServerDelays: ignoringServerDelays, at: now) }
            guard let index = state.followed.index(of: scope) else { return [] }
            return state.core.retryNow(index, ignoringServerDelays: ignoringServerDelays, at: now)
        }
    }

    /// Cancels a job: its caller gets `CancellationError` after a running attempt was cancelled and has ended.
    ///
    /// If that attempt succeeds nevertheless, the caller gets its value. Returns at once, and does nothing if there is no such
    /// job. Cancelling the task that called `retry` has the same effect.
    public func cancel(_ id: JobID) {
        change { state, now in state.key(of: id).map { state.cancel($0, at: now) } ?? [] }
    }

    /// Cancels a job for its caller.
    func cancel(_ handle: JobHandle) {
        change { state, now in state.cancel(handle.key, at: now) }
    }

    /// Pauses a job: it starts no attempt until ``resume(_:)``.
    ///
    /// A running attempt continues. If it fails, the job waits. ``RetryPolicy/giveUpAfter(elapsed:)`` still applies. Returns at
    /// once, and does nothing if there is no such job or if it is paused.
    public func pause(_ id: JobID) {
        change { state, now in state.key(of: id).map { state.core.pause($0, at: now) } ?? [] }
    }

    /// Resumes a paused job.
    ///
    /// Its delays ran meanwhile, and a reconnect during the pause ends them now. Returns at once, and does nothing if there is no
    /// such job or if it is not paused.
    public func resume(_ id: JobID) {
        change { state, now in state.key(of: id).map { state.core.resume($0, at: now) } ?? [] }
    }

    /// Replaces the conditions that a job needs besides its scope, and starts it if it may start now.
    ///
    /// For a setting that changes while jobs wait, such as "only by night". A running attempt continues unless
    /// ``RetryPolicy/interruptsAttempt(_:)`` cancels it. Returns at once, and does nothing if there is no such job.
    public func setConditions(_ conditions: [Condition], of id: JobID) {
        change { state, now in
            guard let key = state.key(of: id) else { return [] }
            let indices = conditions.map { state.index(of: $0, self, at: now) }
            let refreshed = indices.flatMap { state.refresh($0, at: now) }
            return refreshed + state.core.setConditions(indices, of: key, at: now)
        }
    }

    /// Ends the bus: starts no more attempts and cancels the jobs that wait.
    ///
    /// Returns when no job is left and the handlers of all ends have returned, also if the calling task is cancelled. Then
    /// ``events`` finish. Later submissions throw ``RetryError/shutDown``. Further calls are allowed: the shortest `drain` applies,
    /// and each call returns the same jobs. An operation or handler of this bus must not wait for it.
    ///
    /// - Parameter drain: The time that running attempts have before they are cancelled and awaited; `nil` sets no limit. An
    ///   attempt that fails meanwhile is not repeated: its caller gets the operation's error.
    /// - Returns: The jobs that the shutdown ended unfinished, as they were when it began, by priority and age: jobs that waited,
    ///   and jobs whose last attempt failed or was cut at the end of the drain. Jobs that were cancelled by name or by their
    ///   callers are not included.
    @discardableResult
    public func shutdown(drain: Duration?) async -> [PendingJob] {
        beginShutdown(drain: drain)
        await withUnsafeContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.isOver { state.ends.append(continuation) }
                return state.isOver
            }
            if isOver { continuation.resume() }
        }
        let jobs = state.withLock { state in
            state.broadcaster.close()
            return state.unfinished.values.sorted { $0.number < $1.number }.map(\.job)
        }
        publish()
        return withMissing(jobs)
    }

    /// Begins the shutdown: no further attempt starts.
    func beginShutdown(drain: Duration?) {
        change { state, now in
            if !state.core.isShutDown {
                for (number, key) in state.core.liveKeys.enumerated() {
                    state.unfinished[key] = state.pendingJob(key, at: now).map { (number, $0) }
                }
            }
            return state.core.shutDown(drainEnd: drain.map { now + max(.zero, $0) } ?? .never, at: now)
        }
    }

    // MARK: - Changing

    /// Changes the state and runs the effects: first wakes tasks, then sets the timer, then calls code that may block.
    func change(_ body: (inout State, BusTime) -> [Effect]) {
        let reading = clock.now()
        let (runner, next, revision) = state.withLock { state in
            let now = state.time(reading)
            if let size = configuration.fleetSize { state.core.fleetSize = size.count }
            let effects = body(&state, now)
            let runner = EffectRunner(effects, now, &state)
            state.revision += 1
            return (runner, state.core.nextTime(), state.revision)
        }
        runner.wake()
        alarm.set(to: next, revision: revision) { [weak self] in self?.timeCame($0) }
        runner.perform()
        if runner.hasShortage {
            configuration.logger?.warning(
                "this machine has run out of descriptors, memory or ports: fewer attempts run at a time until there are more")
        }
        if runner.hasEvents { publish() }
    }

    private func timeCame(_ time: BusTime) {
        // After a suspension the network may have changed.
        if clock.now() - time > Self.suspiciousLateness { lookAgain() }
        change { state, now in state.core.tick(at: now) }
    }

    /// Looks up the scopes of the jobs that are about to start.
    ///
    /// One without a path counts as unsatisfied until the evaluation that this requests, so that no attempt starts.
    private func lookAgain() {
        let reading = clock.now()
        let scopes = state.withLock { state in
            state.core.dueScopes(at: state.time(reading)).compactMap { index in state.followed[index]?.scope }
        }
        for scope in scopes where isGone(scope) {
            change { state, now in state.followed.index(of: scope).map { state.core.lose($0, at: now) } ?? [] }
            // After the loss was recorded, because the evaluation ends it.
            monitor.reevaluate(scope)
        }
    }

    /// Returns true if the kernel has no path to a scope; `false` also if the lookup failed.
    func isGone(_ scope: Scope) -> Bool { lookups.isGone(scope, monitor, at: clock.now()) }
}

extension RetryBus.State {
    /// Returns the job with a name.
    func key(of id: JobID) -> JobKey? {
        guard case .numbered(_, let key) = id.name else { return names[id] }
        // Another bus may have given the same place to another job.
        return core[key] == nil ? nil : key
    }

    /// Records that a job has ended; returns it if its driver knows that already, to be released outside of the lock.
    mutating func noteEnd(of key: JobKey) -> JobState? {
        guard let job = core.job(key), case .ended(let end) = job.phase else { return nil }
        if let name = job.driver.record.name { names[name] = nil }
        if end == nil { return core.takeEnded(key) }
        if !job.driver.flags.contains(.hasReader) { unclaimedEnds += 1 }
        return nil
    }

    /// Removes and returns the end of a job for its driver.
    ///
    /// The job is to be released outside of the lock: it holds errors and closures of its caller.
    mutating func takeEnd(of key: JobKey) -> (JobEnd, JobState)? {
        guard let job = core.takeEnded(key), case .ended(var end?) = job.phase else { return nil }
        (end.lastError, end.hasReader) = (job.driver.record.lastError, job.driver.flags.contains(.hasReader))
        if !end.hasReader { unclaimedEnds -= 1 }
        return (end, job)
    }

    /// Cancels a job for its owner, so that it does not count as ended by the shutdown.
    mutating func cancel(_ key: JobKey, at now: BusTime) -> [Effect] {
        unfinished[key] = nil
        return core.cancel(key, at: now)
    }
}

extension RetryBus {
    /// Runs an operation until it succeeds, and returns its value.
    ///
    /// The operation runs in the caller's isolation: it may use the state of the caller's actor, and its value need not be
    /// Sendable. It runs in a task of its own with the caller's priority and task-local values, so that it can be cancelled without
    /// its caller: at a deadline or timeout, or by ``cancel(_:)``. The bus awaits its end, so that one attempt runs at a time. A
    /// value that a cancelled operation returns is returned.
    ///
    /// While offline no attempt starts and none is charged, unless the policy says otherwise. An error is a network failure, and
    /// not charged, if the path changed or was lost during the attempt, or if ``RetryPolicy/errno(for:)`` or
    /// ``RetryPolicy/classify(_:)`` report one. If the monitor does not run, has ended, or has no verdict within 2 s, attempts
    /// start nevertheless and are charged.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - isolation: The isolation of the operation; by default the caller's actor.
    ///   - operation: The work. It should end soon after its task is cancelled.
    /// - Returns: The operation's value.
    /// - Throws: The operation's last error if the job gave up after it; ``RetryError`` if there was no attempt, if time cut it, or
    ///   if the bus rejected the job (``RetryError/duplicateID``, ``RetryError/shutDown``); `CancellationError` if the task or the
    ///   job was cancelled.
    public func retry<Value>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let driver = try driver(policy, scope, options)
        while true {
            if let value = try await driver.proceed(isolation: isolation, operation) { return value }
            await driver.sleep()
        }
    }

    /// Submits a job and makes its driver.
    // Not inlined: the frame of the job's task would keep the request.
    @inline(never)
    private func driver(_ policy: RetryPolicy, _ scope: Scope, _ options: JobOptions) throws(RetryError) -> JobDriver {
        JobDriver(bus: self, handle: try submit(JobRequest(policy: policy, scope: scope, options: options)), policy: policy)
    }

    /// Begins a task on the executor of the bus.
    ///
    /// Without one the task has no preference: `nil` would be one, too, which the runtime looks up at each switch.
    package func task(_ operation: sending @escaping @isolated(any) () async -> Void) -> Task<Void, Never> {
        guard let executor = configuration.executor else { return Task(operation: operation) }
        return Task(executorPreference: executor, operation: operation)
    }

    /// A random number for a delay.
    func draw() -> Double { Backoff.random(random.withLock { $0.next() }) }
}

/// Runs an operation until it succeeds, for work that needs no bus of its own.
///
/// Works like ``RetryBus/retry(_:to:options:isolation:operation:)``. With `ReachabilityMonitor.shared` all calls use
/// ``RetryBus/shared``. With another monitor, which the caller has to run, each call has a bus of its own, on the monitor's clock.
///
/// - Parameters:
///   - policy: The delays and limits.
///   - monitor: The monitor of the network.
///   - isolation: The isolation of the operation; by default the caller's actor.
///   - operation: The work.
/// - Returns: The operation's value.
/// - Throws: The errors of `RetryBus.retry`.
public func withRetry<Value>(
    _ policy: RetryPolicy = .default, on monitor: ReachabilityMonitor = .shared,
    isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
) async throws -> Value {
    let bus = monitor === ReachabilityMonitor.shared ? RetryBus.shared : RetryBus(monitor)
    return try await bus.retry(policy, isolation: isolation, operation: operation)
}

#if ServiceLifecycle
public import ServiceLifecycle

/// Available with the package's trait `ServiceLifecycle`.
extension RetryBus: Service {
    /// Waits for the graceful shutdown and then ends the bus: cancels jobs that wait, and lets running attempts end.
    ///
    /// A group shuts its last service down first. List the bus after its monitor, and after the services that wait for their jobs:
    /// the bus ends those jobs, which may otherwise wait as long as the machine is offline. Services that only submit jobs may
    /// follow it. Jobs also run without this call.
    ///
    /// The group limits the time of running attempts (`maximumGracefulShutdownDuration`). When the task is cancelled, they are
    /// cancelled and awaited. Returns when no job is left.
    public func run() async {
        await untilShutdown()
        _ = await withTaskCancellationHandler {
            await shutdown(drain: nil)
        } onCancel: {
            beginShutdown(drain: .zero)
        }
    }
}
#endif

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
                state.core.count, state.core.usedPlaces, state.followed.count(where: { $0.scope != .internet }),
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
        guard let job = core[key], let description = core.description(of: key, at: now) else { return nil }
        let unmet = description.unmet.compactMap { index in
            followed[index].map { entry in entry.scope.map { "\($0)" } ?? entry.condition.name }
        }
        return PendingJob(
            id: JobHandle(key, job).id, state: description.state,
            scope: followed[job.scope]?.scope ?? .internet,
            destination: description.destination, priority: job.priority, unmet: unmet, softDelay: description.softDelay,
            hardDelay: description.hardDelay, timeLeft: description.timeLeft, attempts: Int(job.history.started),
            charged: Int(job.history.charged), networkFailures: Int(job.history.networkFailures),
            lastError: job.driver.record.lastError, isScopeUnmet: description.unmet.first == job.scope,
            queueReason: description.queueReason, queueDelay: description.queueDelay,
            errnoReaders: job.rules.classification.errnoReaders)
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
        core.jobs.indices.allSatisfy { index in
            // Field by field: a copy of the job would retain what it holds, and there may be many.
            guard let job = core.jobs[index]?.driver.isAwake, job, core.jobs[index]?.hasEnded == false else { return true }
            let isTold = core.jobs[index]?.driver.flags.isDisjoint(with: [.mayStart, .isAnnounced]) == false
            return !isTold && (core.jobs[index]?.isRunning == true || core.jobs[index]?.pausers.contains(.reader) == true)
        }
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
            if let key = key(of: waiter.id), core[key]?.driver.isAwake == false, let job = pendingJob(key, at: now),
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
