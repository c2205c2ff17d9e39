internal import Logging
public import Reachability
internal import Synchronization

/// Repeats work until it succeeds: waits for the network without spending attempts, and starts the instant it is back.
///
/// ```swift
/// let bus = RetryBus()
/// let receipt = try await bus.retry { attempt in
///     try await upload(photo)
/// }
/// ```
///
/// A bus follows a monitor's verdicts and backs off between failures, with one timer for all of its jobs and none while they only
/// wait for the network. Keep one for everything that shares a network; all of its members can be used from any thread. Its jobs
/// live in memory: they end with the program.
///
/// ## Topics
/// ### Making a bus
/// - ``init(_:configuration:clock:generator:)``
/// - ``Configuration``
/// - ``shared``
/// ### Repeating
/// - ``retry(_:to:options:isolation:operation:)``
/// - ``retry(_:to:options:joining:operation:)``
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
    /// Everybody in the program may use it: do not shut it down.
    public static let shared = RetryBus()

    /// How long jobs wait for the first word of a monitor that is starting.
    static let startupLimit = Duration.seconds(2)
    /// How late a timer may be before the bus asks the kernel whether the world is still the same.
    static let suspiciousLateness = Duration.milliseconds(500)

    struct State {
        var core: RetryBusCore
        var table = JobTable()
        var followed = FollowedConditions()
        var broadcaster = EventBroadcaster()
        /// Tests that wait for a job to wait.
        var parkedWaiters: [ParkedWaiter] = []
        var nextWaiter: UInt64 = 0
        /// Whether the log was told that the monitor does not run.
        var hasWarned = false
        /// Tests that wait until the bus is quiet.
        var quietWaiters: [UnsafeContinuation<Void, Never>] = []
        /// Counts the changes, so that the alarm clock knows the latest.
        var revision: UInt64 = 0
        /// The jobs that several callers share.
        var sharedJobs: [JobID: AnySharedJob] = [:]
        /// Callers that wait until no job is left.
        var ends: [UnsafeContinuation<Void, Never>] = []
        /// The jobs that had not ended when the shutdown began, and that it has ended or still may.
        var unfinished: [JobKey: (number: Int, job: PendingJob)] = [:]
        /// The number of ended jobs whose handlers have not returned yet.
        var runningEndHandlers = 0
        /// The latest time that was read: two threads may come here in another order than they looked at the clock.
        fileprivate var latest = BusTime.past

        /// The time of a change: never before that of the change before.
        mutating func time(_ reading: BusTime) -> BusTime {
            latest = max(latest, reading)
            return latest
        }

        /// Whether no job is left, and all handlers were told.
        var isOver: Bool { core.count == 0 && table.unclaimedEnds == 0 && runningEndHandlers == 0 }

        /// The callers that have waited for the end, if it has come.
        mutating func takeEnds() -> [UnsafeContinuation<Void, Never>] {
            guard !ends.isEmpty, isOver else { return [] }
            defer { ends = [] }
            return ends
        }
    }

    let monitor: ReachabilityMonitor
    let configuration: Configuration
    let instruments: BusInstruments?
    let clock: BusClock
    let state: Mutex<State>
    let alarm: BusTimer
    private let lookups = RecentLookups()
    let random: Mutex<any RandomNumberGenerator & Sendable>

    /// Makes a bus.
    ///
    /// - Parameters:
    ///   - monitor: tells about the network. The bus does not run it. While it does not run, jobs start at once and all failures
    ///     are charged; the first such job logs a warning, to ``Configuration/logger`` or, without one, to a logger of swift-log
    ///     with the label `ReachableRetry`.
    ///   - configuration: how jobs are let go, and what is kept.
    ///   - clock: measures delays and deadlines. `ContinuousClock` counts the time that the machine is suspended.
    ///   - generator: where jitter comes from. The bus asks it for one number at a time, and holds a lock meanwhile.
    public init(
        _ monitor: ReachabilityMonitor = .shared, configuration: Configuration = .init(),
        clock: some Clock<Duration> = ContinuousClock(),
        generator: some RandomNumberGenerator & Sendable = SystemRandomNumberGenerator()
    ) {
        self.monitor = monitor
        self.configuration = configuration
        instruments = BusInstruments(configuration)
        self.clock = BusClock(clock)
        var generator = generator
        // Drawn only if it matters: a generator of the caller's may be made for the delays.
        let seed = configuration.releasePolicy.rules.isRandom ? generator.next() : 0
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
    }

    deinit {
        for condition in state.withLock({ $0.followed.removeAll() }) { condition.close() }
        state.withLock { $0.broadcaster.close() }
        publish()
    }

    // MARK: - Deciding

    /// Ends backoff delays, so that jobs that only back off start at once.
    ///
    /// Delays ordered by a server still apply by default. For a button, or a hint that things have changed. Jobs that
    /// wait for the network or another condition go on waiting. If an attempt is running and fails, the next one follows without
    /// a delay. The attempts that this starts are charged as usual. Returns at once.
    ///
    /// - Parameters:
    ///   - scope: Selects the jobs to this scope; `nil` selects all jobs.
    ///   - ignoringServerDelays: Also ends delays ordered by servers, those of single jobs and those of whole destinations. For a
    ///     person who insists. An interval of ``Job/repeating(every:)`` is not cut short.
    public func retryNow(_ scope: Scope? = nil, ignoringServerDelays: Bool = false) {
        change { state, now in
            guard let scope else { return state.core.retryNow(nil, ignoringServerDelays: ignoringServerDelays, at: now) }
            guard let index = state.followed.index(of: scope) else { return [] }
            return state.core.retryNow(index, ignoringServerDelays: ignoringServerDelays, at: now)
        }
    }

    /// Cancels a job: its caller gets `CancellationError`, after a running attempt was cancelled and has ended.
    ///
    /// If that attempt succeeds all the same, the caller gets its value. Returns at once, and does nothing if there is no such
    /// job. The same happens when the task that called `retry` is cancelled.
    public func cancel(_ id: JobID) {
        change { state, now in state.table.key(of: id).map { state.cancel($0, at: now) } ?? [] }
    }

    /// Cancels a job whose caller no longer wants it.
    func cancel(_ handle: JobHandle) {
        change { state, now in state.cancel(handle.key, at: now) }
    }

    /// Lets a job start no attempt until ``resume(_:)``.
    ///
    /// A running attempt goes on; if it fails the job waits. ``RetryPolicy/giveUpAfter(elapsed:)`` counts on. Returns at once, and
    /// does nothing if there is no such job, or if it is paused.
    public func pause(_ id: JobID) {
        change { state, now in state.table.key(of: id).map { state.core.pause($0, at: now) } ?? [] }
    }

    /// Lets a paused job go on.
    ///
    /// Its delays have passed meanwhile, and a reconnect that came ends them as if it came now. Returns at once, and does nothing
    /// if there is no such job, or if it is not paused.
    public func resume(_ id: JobID) {
        change { state, now in state.table.key(of: id).map { state.core.resume($0, at: now) } ?? [] }
    }

    /// Replaces the conditions that a job needs besides its scope, and looks at once whether it may start.
    ///
    /// For a setting that is changed while jobs wait, such as "only by night". A running attempt goes on, unless
    /// ``RetryPolicy/interruptsAttempt(_:)`` says otherwise. Returns at once, and does nothing if there is no
    /// such job.
    public func setConditions(_ conditions: [Condition], of id: JobID) {
        change { state, now in
            guard let key = state.table.key(of: id) else { return [] }
            let indices = conditions.map { state.index(of: $0, self, at: now) }
            let refreshed = indices.flatMap { state.refresh($0, at: now) }
            return refreshed + state.core.setConditions(indices, of: key, at: now)
        }
    }

    /// Ends the bus: no attempt starts any more, and jobs that wait are cancelled.
    ///
    /// Returns when no job is left and the jobs' handlers have been told of all ends, also if the calling task is cancelled. Then
    /// ``events`` finish. Later submissions throw ``RetryError/shutDown``. It may be called more than once: the shortest `drain`
    /// counts, and each call returns the same jobs. An operation or a handler of this bus must not wait for it.
    ///
    /// - Parameter drain: How long running attempts may take; then they are cancelled and awaited. `nil` sets no limit. An attempt
    ///   that fails meanwhile is not repeated: its caller gets the operation's error.
    /// - Returns: The jobs that the shutdown ended unfinished, as they were when it began, by priority and age: those that
    ///   waited, and those whose last attempt failed or was cut at the end of the drain. Not the jobs that were cancelled by name
    ///   or by their callers.
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

    /// Lets no attempt start any more.
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

    /// Changes the state, and does what follows from it: wakes tasks first, then sets the timer, then calls what may block.
    func change(_ body: (inout State, BusTime) -> [Effect]) {
        let reading = clock.now()
        let (runner, next, revision) = state.withLock { state in
            let now = state.time(reading)
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
        // Time that passed in a suspended machine does not tell what became of the network.
        if clock.now() - time > Self.suspiciousLateness { lookAgain() }
        change { state, now in state.core.tick(at: now) }
    }

    /// Asks the kernel about the scopes of the jobs that are about to start.
    private func lookAgain() {
        let reading = clock.now()
        let scopes = state.withLock { state in
            state.core.dueScopes(at: state.time(reading)).compactMap { index in state.followed[index]?.scope }
        }
        for scope in scopes { _ = isGone(scope) }
    }

    /// Returns whether the kernel says that a scope cannot be reached; `false` if it cannot be asked.
    ///
    /// A scope that is gone counts as unsatisfied from now on, until the evaluation that this requests: no attempt starts.
    func isGone(_ scope: Scope) -> Bool {
        guard lookups.isGone(scope, monitor, at: clock.now()) else { return false }
        change { state, now in state.followed.index(of: scope).map { state.core.lose($0, at: now) } ?? [] }
        // After the loss was noted: what this evaluation finds ends it.
        monitor.reevaluate(scope)
        return true
    }
}

extension RetryBus.State {
    /// Cancels a job that its owner no longer wants: the shutdown has not ended it.
    mutating func cancel(_ key: JobKey, at now: BusTime) -> [Effect] {
        unfinished[key] = nil
        return core.cancel(key, at: now)
    }
}

extension RetryBus {
    /// Runs an operation until it succeeds, and returns its value.
    ///
    /// The operation runs in the caller's isolation: it may use the state of the caller's actor, and the value need not be
    /// Sendable. It runs in a task of its own, with the caller's priority and task-local values, so that it can be cancelled
    /// without its caller: when the job's time is over, when an attempt takes too long, by ``cancel(_:)``. Its end is awaited
    /// always, so that there is one attempt at a time; a value that it returns though cancelled is returned.
    ///
    /// While the network is away, no attempt starts and none is charged, unless the policy says otherwise. An error counts as the
    /// network's, and is not charged, if the path changed or was gone during the attempt, or if ``RetryPolicy/errno(for:)``
    /// or ``RetryPolicy/classify(_:)`` say so. If the monitor sees nothing, because nobody runs it, because it has ended, or
    /// because it has not looked within two seconds, attempts start all the same and are charged.
    ///
    /// - Parameters:
    ///   - policy: when to try again, and when to give up.
    ///   - scope: what has to be reached.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - isolation: where the operation runs; by default the caller's actor.
    ///   - operation: the work. It should end soon when its task is cancelled.
    /// - Returns: What the operation returned.
    /// - Throws: The operation's last error if the job gave up after it; ``RetryError`` if there was no attempt, or if time cut it,
    ///   or if the bus does not take the job (``RetryError/duplicateID``, ``RetryError/shutDown``); `CancellationError` if the task
    ///   or the job was cancelled.
    public func retry<Value>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let request = JobRequest(policy: policy, scope: scope, options: options)
        let driver = JobDriver(bus: self, handle: try submit(request), policy: policy)
        return try await driver.cancellable(isolation: isolation) {
            while true {
                switch await driver.next() {
                case .start(let attempt):
                    if case .succeeded(let value) = await driver.run(attempt, isolation: isolation, operation) { return value }
                case .ended(let end):
                    defer { noteEndHandled() }
                    throw driver.conclude(end).error
                case .waiting, .left: continue
                }
            }
        }
    }

    /// A random number for a delay.
    func draw() -> Double { Backoff.random(random.withLock { $0.next() }) }
}

/// Runs an operation until it succeeds, for work that needs no bus of its own.
///
/// It does what ``RetryBus/retry(_:to:options:isolation:operation:)`` does.
/// With `ReachabilityMonitor.shared` all such calls use ``RetryBus/shared``; with another monitor, which somebody has to run, each
/// has a bus of its own.
///
/// - Parameters:
///   - policy: when to try again, and when to give up.
///   - monitor: tells about the network.
///   - isolation: where the operation runs; by default the caller's actor.
///   - operation: the work.
/// - Returns: What the operation returned.
/// - Throws: As `RetryBus.retry` does.
public func withRetry<Value>(
    _ policy: RetryPolicy = .default, on monitor: ReachabilityMonitor = .shared,
    isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
) async throws -> Value {
    let bus = monitor === ReachabilityMonitor.shared ? RetryBus.shared : RetryBus(monitor)
    return try await bus.retry(policy, isolation: isolation, operation: operation)
}

#if ServiceLifecycle
public import ServiceLifecycle

/// Only with the package's trait `ServiceLifecycle`.
extension RetryBus: Service {
    /// Waits for the graceful shutdown, and then ends the bus: jobs that wait are cancelled, attempts that run may end.
    ///
    /// In a group it belongs behind its monitor, for the last is shut down first; and behind the services that wait for their jobs,
    /// which otherwise would wait for as long as the network is away: the bus ends those jobs. Services that only submit jobs may
    /// come after it. Jobs run without it, too.
    ///
    /// How long attempts may take at the end is the group's to say (`maximumGracefulShutdownDuration`); when the task is cancelled
    /// they are cancelled, and awaited. Returns when no job is left.
    public func run() async {
        do {
            try await gracefulShutdown()
        } catch {
            await shutdown(drain: .zero)
            return
        }
        _ = await withTaskCancellationHandler {
            await shutdown(drain: nil)
        } onCancel: {
            beginShutdown(drain: .zero)
        }
    }
}
#endif
