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
/// - ``push(_:)``
/// ### Running jobs
/// - ``registerJob(parameters:policy:conditions:maxConcurrent:upgrading:handler:)``
/// - ``run()``
/// - ``shutdown(drain:)``
/// ### Managing jobs
/// - ``jobs(matching:)``
/// - ``counts``
/// - ``cancel(_:)``
/// - ``retry(_:)``
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

        /// Creates a configuration.
        public init() { node = NodeName.default }
    }

    private enum Stage {
        case idle
        case running(JobWorker)
        case ended
    }

    private struct State {
        var kinds: [String: JobKind] = [:]
        var stage = Stage.idle
        var listeners: [Int: AsyncStream<JobQueueEvent>.Continuation] = [:]
        var nextListener = 0
    }

    /// The store.
    public let store: any JobStore
    private let bus: RetryBus
    let configuration: Configuration
    private let state = Mutex(State())

    /// Creates a queue; ``run()`` makes this process a worker.
    public init(_ store: any JobStore, bus: RetryBus, configuration: Configuration = .init()) {
        (self.store, self.bus, self.configuration) = (store, bus, configuration)
    }

    deinit {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.finish() }
    }

    // MARK: - Kinds

    /// Registers the handler of a kind of jobs.
    ///
    /// A worker runs only kinds and versions that were registered before ``run()``. Jobs of other kinds wait. So do jobs whose
    /// payload cannot be decoded; ``DurableJob/lastError`` says so.
    ///
    /// - Parameters:
    ///   - parameters: The type of the parameters.
    ///   - policy: Delays and limits. Its `giveUpAfter(elapsed:)` has no effect: ``DurableOptions/timeLimit`` sets the deadline.
    ///   - conditions: Conditions besides the scope.
    ///   - maxConcurrent: The most jobs of the kind that this worker holds at a time; `nil` sets no limit.
    ///   - upgrading: Decoders of older versions' payloads.
    ///   - handler: The work of an attempt. It should end soon after its task is cancelled.
    public func registerJob<Parameters: JobParameters>(
        parameters: Parameters.Type, policy: RetryPolicy = .default, conditions: [Condition] = [], maxConcurrent: Int? = nil,
        upgrading: [Int: @Sendable (Data) throws -> Parameters] = [:],
        handler: @escaping @Sendable (Parameters, DurableAttempt) async throws -> Void
    ) {
        let kind = JobKind(
            parameters, policy: policy, conditions: conditions, maxConcurrent: maxConcurrent, upgrading: upgrading,
            handler: handler)
        // Released outside of the lock: the handler may own anything.
        _ = state.withLock { $0.kinds.updateValue(kind, forKey: kind.name) }
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
    public func push(_ parameters: some JobParameters, unique: NewJob.Unique? = nil) async throws -> PushReceipt {
        try await push([makeJob(parameters, unique: unique)])[0]
    }

    /// Adds jobs of one kind in this order, all or none.
    @discardableResult
    public func push(_ parameters: [some JobParameters]) async throws -> [PushReceipt] {
        try await push(parameters.map { try makeJob($0, unique: nil) })
    }

    private func push(_ jobs: [NewJob]) async throws(JobStoreError) -> [PushReceipt] {
        let receipts = try await store.push(jobs, limit: configuration.maxJobs)
        for receipt in receipts { publish(JobQueueEvent(.pushed(receipt.outcome), receipt.id)) }
        return receipts
    }

    /// Encodes a job.
    func makeJob<Parameters: JobParameters>(_ parameters: Parameters, unique: NewJob.Unique?) throws -> NewJob {
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
    /// A cancelled task cancels running attempts, which run again later and are not charged. A queue runs once.
    public func run() async {
        let worker = state.withLock { state -> JobWorker? in
            guard case .idle = state.stage else { return nil }
            let worker = JobWorker(store, bus, configuration, state.kinds) { [weak self] in self?.publish($0) }
            state.stage = .running(worker)
            return worker
        }
        #if ServiceLifecycle
        await withGracefulShutdownHandler {
            await worker?.run()
        } onGracefulShutdown: {
            worker?.shutDown(drain: nil)
        }
        #else
        await worker?.run()
        #endif
        state.withLock { $0.stage = .ended }
    }

    /// Ends ``run()``: starts no more attempts, and waits for running ones.
    ///
    /// - Parameter drain: The time after which running attempts are cancelled, uncharged; `nil` waits for as long as they take.
    public func shutdown(drain: Duration? = nil) {
        let worker = state.withLock { state -> JobWorker? in
            guard case .running(let worker) = state.stage else {
                state.stage = .ended
                return nil
            }
            return worker
        }
        worker?.shutDown(drain: drain)
    }

    // MARK: - Managing jobs

    /// Returns jobs of the queue by position.
    public func jobs(matching filter: JobFilter = JobFilter()) async throws(JobStoreError) -> [DurableJob] {
        var filter = filter
        filter.queue = configuration.name
        return try await store.find(filter)
    }

    /// The number of jobs per state, kind and destination.
    public var counts: [JobCount] {
        get async throws(JobStoreError) { try await store.count(queue: configuration.name) }
    }

    /// Cancels a job: at once if it waits, otherwise its worker ends the running attempt.
    @discardableResult
    public func cancel(_ id: DurableJobID) async throws(JobStoreError) -> CancelOutcome { try await store.cancel([id])[0] }

    /// Makes a failed or cancelled job available again, with its old position and fresh counters.
    ///
    /// - Returns: False if the job has not ended, succeeded, or is unknown.
    @discardableResult
    public func retry(_ id: DurableJobID) async throws(JobStoreError) -> Bool { try await store.retry([id])[0] }

    /// Pauses the queue for all workers, until ``resume()``; running attempts go on.
    public func pause() async throws(JobStoreError) { try await store.setPaused(true, queue: configuration.name) }

    /// Resumes the queue.
    public func resume() async throws(JobStoreError) { try await store.setPaused(false, queue: configuration.name) }

    /// The changes that this process makes or sees; each access is an independent listener.
    public var events: AsyncStream<JobQueueEvent> {
        let (stream, listener) = AsyncStream.makeStream(
            of: JobQueueEvent.self, bufferingPolicy: .bufferingNewest(configuration.bufferedEvents))
        let number = state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = listener
            return state.nextListener
        }
        listener.onTermination = { [weak self] _ in _ = self?.state.withLock { $0.listeners.removeValue(forKey: number) } }
        return stream
    }

    func publish(_ event: JobQueueEvent) {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield(event) }
    }
}

#if ServiceLifecycle
public import ServiceLifecycle

/// Available with the package's trait `ServiceLifecycle`.
///
/// List the queue after its bus: a group shuts its last service down first, and running attempts still need the bus. On a graceful
/// shutdown the queue starts no more attempts and waits for running ones.
extension JobQueue: Service {}
#endif
