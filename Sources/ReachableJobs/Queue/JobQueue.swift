public import FoundationEssentials
public import Reachability
public import ReachableRetry
internal import Synchronization

/// A queue of jobs that survive the process and the reboot.
///
/// ```swift
/// let queue = JobQueue(try SQLiteStore(path: "jobs.db"), bus: bus)
/// queue.registerJob(parameters: Upload.self) { upload, attempt in
///     try await client.put(upload.file, key: attempt.idempotencyKey)
/// }
/// try await queue.push(Upload(file: "photo.jpg"))
/// await queue.run()
/// ```
///
/// When ``push(_:unique:)`` has returned, the job is kept. It runs at least once, and one attempt at a time, in this process or in
/// another one that works on the same store. While its scope is unreachable nothing is claimed, attempted or charged; a reconnect
/// starts it within milliseconds, under the gate of the `RetryBus`. Thread-safe.
///
/// ## Topics
/// ### Adding jobs
/// - ``push(_:unique:)``
/// - ``push(_:uniqueBy:)``
/// ### Running jobs
/// - ``registerJob(parameters:policy:conditions:maxConcurrent:upgrading:jobPolicy:handler:)``
/// - ``run()``
/// - ``runUntilEmpty()``
/// - ``shutdown(drain:)``
/// ### Managing jobs
/// - ``jobs(matching:)``
/// - ``jobs(ids:)``
/// - ``job(_:)``
/// - ``pending(_:)``
/// - ``waitingFor(_:)``
/// - ``counts``
/// - ``workers``
/// - ``cancel(_:)-(DurableJobID)``
/// - ``cancel(_:)-([DurableJobID])``
/// - ``retry(_:)-(DurableJobID)``
/// - ``retry(_:)-([DurableJobID])``
/// - ``retryNow()``
/// - ``pause()``
/// - ``resume()``
/// - ``events``
public final class JobQueue: Sendable {
    /// The name and the limits of a queue.
    public struct Configuration: Sendable {
        /// The name of the queue in its store.
        public var name = "default"
        /// The name of this machine in a store that several machines share.
        public var node: String
        /// The most unfinished jobs of the queue; `nil` sets no limit.
        public var maxJobs: Int?
        /// The most claimed jobs in memory.
        public var window = 1000
        /// The time for which ended jobs are kept.
        public var retention = Retention()
        /// The number of events that a slow listener keeps; it loses the oldest beyond that.
        public var bufferedEvents = 1024
        /// Returns the wall-clock time, for the age of the oldest job.
        package var date: @Sendable () -> Date = { Date() }

        /// Creates a configuration.
        public init() { node = Machine.node }
    }

    private enum Stage {
        case idle
        case running(JobWorker, Task<[DurableJobID], Never>)
        case ended
    }

    private struct State {
        var kinds: [String: JobKind] = [:]
        var stage = Stage.idle
    }

    package let store: any JobStore
    private let bus: RetryBus
    let configuration: Configuration
    private let instruments: QueueInstruments?
    private let listeners = Listeners<JobQueueEvent>()
    private let state = Mutex(State())

    /// Creates a queue in memory; ``run()`` makes this process a worker.
    ///
    /// The queue writes to the logger and the metrics of the bus's configuration.
    public convenience init(_ store: MemoryStore, bus: RetryBus, configuration: Configuration = .init()) {
        self.init(store as any JobStore, bus: bus, configuration: configuration)
    }

    package init(_ store: any JobStore, bus: RetryBus, configuration: Configuration = .init()) {
        (self.store, self.bus, self.configuration) = (store, bus, configuration)
        instruments = QueueInstruments(bus.configuration, queue: configuration.name)
    }

    // MARK: - Kinds

    /// Registers the handler of a kind of jobs.
    ///
    /// A worker runs only kinds and versions that were registered before ``run()``; the log has a warning for later ones. Jobs of
    /// other kinds wait. A job whose payload this worker cannot decode waits for another one, such as that of the next release, for
    /// a minute, doubling to an hour, and ``DurableJob/lastError`` tells.
    ///
    /// - Parameters:
    ///   - parameters: The type of the parameters.
    ///   - policy: Delays and limits. Its `giveUpAfter(elapsed:)` has no effect: ``DurableOptions/timeLimit`` sets the deadline.
    ///   - conditions: Conditions besides the scope.
    ///   - maxConcurrent: The most jobs of the kind that this worker holds at a time; `nil` sets no limit.
    ///   - upgrading: Decoders of older versions' payloads.
    ///   - jobPolicy: Returns the policy of one job instead of `policy`. The behaviour while offline is that of `policy`: a worker
    ///     claims jobs by it before it reads them. So is the number of crashes after which a job fails.
    ///   - handler: The work of an attempt. It should end soon after its task is cancelled.
    public func registerJob<Parameters: JobParameters>(
        parameters: Parameters.Type, policy: RetryPolicy = .default, conditions: [Condition] = [], maxConcurrent: Int? = nil,
        upgrading: [Int: @Sendable (Data) throws -> Parameters] = [:], jobPolicy: (@Sendable (Parameters) -> RetryPolicy)? = nil,
        handler: @escaping @Sendable (Parameters, DurableAttempt) async throws -> Void
    ) {
        let kind = JobKind(
            parameters, policy: policy, conditions: conditions, maxConcurrent: maxConcurrent, upgrading: upgrading,
            jobPolicy: jobPolicy, handler: handler)
        // Released outside of the lock: the handler may own anything.
        let (isLate, old) = state.withLock { state in
            if case .idle = state.stage { (false, state.kinds.updateValue(kind, forKey: kind.name)) } else { (true, nil) }
        }
        withExtendedLifetime(old) {}
        instruments?.registered(kind: kind.name, isLate: isLate)
    }

    // MARK: - Adding jobs

    /// Adds a job.
    ///
    /// - Parameters:
    ///   - parameters: The job.
    ///   - unique: The rule if an unfinished job of the same kind has the key already.
    /// - Returns: The job that is there now.
    /// - Throws: ``JobStoreError/Code/full`` or ``JobStoreError/Code/tooLarge``; errors of the store; the encoder's error.
    @discardableResult
    public func push(_ parameters: some JobParameters, unique: JobQueue.Unique? = nil) async throws -> PushReceipt {
        try await push([makeJob(parameters, unique: unique)])[0]
    }

    /// Adds jobs of one kind in this order and in one transaction, all or none.
    ///
    /// ```swift
    /// try await queue.push(uploads, uniqueBy: { .replace($0.file) })
    /// ```
    ///
    /// - Parameters:
    ///   - parameters: The jobs.
    ///   - unique: Returns the rule for each job if an unfinished job of the same kind has the key already, also an earlier one of
    ///     this call; `nil` allows duplicates.
    /// - Returns: For each job, in this order, the one that is there now and what happened.
    /// - Throws: The errors of ``push(_:unique:)``, for the first job that has one.
    @discardableResult
    public func push<Parameters: JobParameters>(
        _ parameters: [Parameters], uniqueBy unique: @Sendable (Parameters) -> JobQueue.Unique? = { _ in nil }
    ) async throws -> [PushReceipt] {
        try await push(parameters.map { try makeJob($0, unique: unique($0)) })
    }

    private func push(_ jobs: [NewJob]) async throws(JobStoreError) -> [PushReceipt] {
        let receipts = try await store.push(jobs, limit: configuration.maxJobs)
        notePushes(receipts)
        return receipts
    }

    func notePushes(_ receipts: [PushReceipt]) {
        for receipt in receipts {
            instruments?.pushed(receipt.outcome)
            listeners.yield(JobQueueEvent(.pushed(receipt.outcome), receipt.id))
        }
    }

    func makeJob<Parameters: JobParameters>(_ parameters: Parameters, unique: JobQueue.Unique?) throws -> NewJob {
        let options = parameters.options
        var job = NewJob(
            queue: configuration.name, kind: Parameters.jobName, version: Parameters.jobVersion,
            payload: try JSONEncoder().encode(parameters))
        (job.scope, job.destination, job.priority) = (ScopeText.text(of: options.scope), options.destination, options.priority)
        (job.delay, job.timeLimit, job.serialKey) = (options.delay, options.timeLimit, options.serialKey)
        (job.continuesAfterFailure, job.isRepeatable) = (options.continuesAfterFailure, options.isRepeatable)
        (job.unique, job.traceContext) = (unique, TraceContext.current(bus))
        return job
    }

    // MARK: - Running

    /// Runs jobs until the task is cancelled or ``shutdown(drain:)`` is called, then returns.
    ///
    /// A cancelled task cancels running attempts, which run again later and are not charged. A queue runs once: another call
    /// returns at once. ``events`` finish at the end.
    public func run() async { _ = await work(endsWhenIdle: false) }

    /// Runs jobs until none is left that this worker can run, then returns.
    ///
    /// It waits for backoff, for the begin of a job's life, for delays that a server ordered, and for jobs of the registered kinds
    /// that other workers run. It does not wait for blocked jobs: those without a network, with an unmet condition, of a paused
    /// queue, of a kind or version that is not registered here, with a payload that this worker cannot decode, and those behind a
    /// blocked or failed job with the same key. When only blocked jobs are left it returns them.
    ///
    /// The end of a job of another worker is noticed within 10 s. As ``run()``, it also ends on cancellation
    /// and on ``shutdown(drain:)``, and a queue runs once.
    ///
    /// - Returns: The jobs that are left.
    public func runUntilEmpty() async -> QueueRest { await work(endsWhenIdle: true) }

    private func work(endsWhenIdle: Bool) async -> QueueRest {
        let running = state.withLock { state -> (JobWorker, Task<[DurableJobID], Never>)? in
            guard case .idle = state.stage else { return nil }
            let worker = JobWorker(store, bus, configuration, state.kinds, instruments, endsWhenIdle: endsWhenIdle) { [listeners] in
                listeners.yield($0)
            }
            let loop = worker.start()
            state.stage = .running(worker, loop)
            return (worker, loop)
        }
        // A second call must not end what the first one does.
        guard let (worker, loop) = running else { return .stopped }
        await withTaskCancellationHandler {
            #if ServiceLifecycle
            await withGracefulShutdownHandler {
                _ = await loop.value
            } onGracefulShutdown: {
                worker.shutDown(drain: nil)
            }
            #else
            _ = await loop.value
            #endif
        } onCancel: {
            worker.shutDown(drain: .zero)
        }
        state.withLock { $0.stage = .ended }
        listeners.finish()
        return worker.rest
    }

    /// Ends ``run()``: starts no more attempts, and returns when running ones have ended.
    ///
    /// Claimed jobs that have not started are given back at once. Further calls are allowed: the shortest `drain` applies. Returns
    /// also if the calling task is cancelled. A handler of this queue must not wait for it.
    ///
    /// - Parameter drain: The time after which running attempts are cancelled, uncharged; `nil` waits for as long as they take.
    /// - Returns: The jobs whose attempts were cut at the end of the drain. They are available again; those that must not be
    ///   repeated have failed.
    @discardableResult
    public func shutdown(drain: Duration? = nil) async -> [DurableJobID] {
        let running = state.withLock { state -> (JobWorker, Task<[DurableJobID], Never>)? in
            guard case .running(let worker, let loop) = state.stage else {
                state.stage = .ended
                return nil
            }
            return (worker, loop)
        }
        guard let (worker, loop) = running else { return [] }
        worker.shutDown(drain: drain)
        return await loop.value
    }

    // MARK: - Managing jobs

    /// Returns jobs of the queue by position.
    public func jobs(matching filter: JobFilter = JobFilter()) async throws(JobStoreError) -> [DurableJob] {
        var filter = filter
        filter.queue = configuration.name
        return try await store.find(filter)
    }

    /// The number of jobs per state, kind and destination; also sets the gauges of the metrics.
    public var counts: [JobCount] {
        get async throws(JobStoreError) {
            let counts = try await store.count(queue: configuration.name)
            instruments?.record(counts, at: configuration.date())
            return counts
        }
    }

    /// The workers of the queue with a valid lease, by number: those of all processes and machines.
    public var workers: [RegisteredWorker] {
        get async throws(JobStoreError) { try await store.workers(of: configuration.name) }
    }

    /// Returns a job; `nil` if the queue does not have it.
    public func job(_ id: DurableJobID) async throws(JobStoreError) -> DurableJob? { try await jobs(ids: [id]).first }

    /// Returns the jobs of the queue with these identities, by position.
    public func jobs(ids: Set<DurableJobID>) async throws(JobStoreError) -> [DurableJob] {
        try await jobs(matching: JobFilter(ids: ids))
    }

    /// Cancels jobs in one transaction: at once if they wait, otherwise their workers end the running attempts.
    ///
    /// - Returns: For each job, in this order, what happened.
    @discardableResult
    public func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        let outcomes = try await store.cancel(ids)
        let cancelled = zip(ids, outcomes).filter { $1 == .cancelled }.map(\.0)
        for id in cancelled { listeners.yield(JobQueueEvent(.cancelled, id)) }
        if let instruments, instruments.isMeasured, let jobs = try? await store.find(JobFilter(ids: Set(cancelled))) {
            for job in jobs { instruments.ended(job.id, kind: job.kind, .cancelled, reason: nil, job.counters) }
        }
        return outcomes
    }

    /// Cancels a job; see ``cancel(_:)-([DurableJobID])``.
    @discardableResult
    public func cancel(_ id: DurableJobID) async throws(JobStoreError) -> CancelOutcome { try await cancel([id])[0] }

    /// Makes failed and cancelled jobs available again, with their old positions and fresh counters, in one transaction.
    ///
    /// - Returns: For each job, in this order, what happened.
    /// - Throws: ``JobStoreError/Code/full`` if the queue has no room for all of them; errors of the store. No job is retried then.
    @discardableResult
    public func retry(_ ids: [DurableJobID]) async throws(JobStoreError) -> [RetryOutcome] {
        try await store.retry(ids, limit: configuration.maxJobs)
    }

    /// Makes a failed or cancelled job available again; see ``retry(_:)-([DurableJobID])``.
    @discardableResult
    public func retry(_ id: DurableJobID) async throws(JobStoreError) -> RetryOutcome { try await retry([id])[0] }

    /// Ends the backoff of all waiting jobs, for all workers, so that they start under the gates of these.
    ///
    /// As `RetryBus.retryNow(_:ignoringServerDelays:)` for a bus: delays ordered by a server still apply, and jobs that wait for
    /// the network or another condition continue to wait. Attempts are charged as usual.
    ///
    /// - Returns: The number of jobs that backed off.
    @discardableResult
    public func retryNow() async throws(JobStoreError) -> Int {
        let size = 1000
        var (count, filter) = (0, JobFilter(queue: configuration.name, states: [.available], limit: size))
        while true {
            let jobs = try await store.find(filter)
            let delayed = jobs.filter { $0.softDelay != nil }.map(\.id)
            if !delayed.isEmpty { count += try await store.endBackoff(delayed).count { $0 } }
            guard jobs.count == size, let last = jobs.last else { return count }
            filter.after = last.position
        }
    }

    /// Pauses the queue for all workers, until ``resume()``; running attempts go on.
    public func pause() async throws(JobStoreError) {
        try await store.setPaused(true, queue: configuration.name)
    }

    /// Resumes the queue.
    public func resume() async throws(JobStoreError) { try await store.setPaused(false, queue: configuration.name) }

    /// The changes that this process makes or sees, until ``run()`` has ended; each access is an independent listener.
    public var events: AsyncStream<JobQueueEvent> { listeners.stream(keeping: configuration.bufferedEvents) }

    var worker: JobWorker? { state.withLock { if case .running(let worker, _) = $0.stage { worker } else { nil } } }
}

#if ServiceLifecycle
public import ServiceLifecycle

/// Available with the package's trait `ServiceLifecycle`.
///
/// List the queue after its bus: a group shuts its last service down first, and running attempts still need the bus. On a graceful
/// shutdown the queue starts no more attempts and waits for running ones.
extension JobQueue: Service {}
#endif
