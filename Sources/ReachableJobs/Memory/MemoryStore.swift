public import FoundationEssentials
internal import Glibc
internal import Synchronization

/// A job store in memory, for tests and previews: its jobs end with the process.
///
/// It keeps all rules of stores. Several queues and workers of a process share one store as processes share a file. A test
/// can end a worker with ``crash(_:)``, and all workers with ``reboot()``. To kill a whole process of your program, use the store
/// of a `TestWorld` of ReachabilityTesting and launch a `TestProcess`.
///
/// A call takes time in proportion to the number of stored jobs: it is made for some 10 000. Safe to use from any thread.
public final class MemoryStore: JobStore {
    private let state = Mutex(MemoryStoreState())
    private let listeners = Listeners<Void>()
    private let readClock: @Sendable () -> StoreInstant
    private let readLeaseClock: @Sendable () -> StoreInstant
    private let readDate: @Sendable () -> Date

    /// Creates an empty store.
    ///
    /// - Parameters:
    ///   - clock: The clock of delays, leases and retention. The store's time is zero when it is created.
    ///   - date: Returns the wall-clock time, which the store keeps for people.
    public init(clock: some Clock<Duration> = ContinuousClock(), date: @escaping @Sendable () -> Date = { Date() }) {
        let start = clock.now
        readClock = { StoreInstant(nanoseconds: start.duration(to: clock.now).nanoseconds) }
        (readLeaseClock, readDate) = (readClock, date)
    }

    /// Creates an empty store on a machine that can be suspended.
    ///
    /// - Parameters:
    ///   - uptime: Returns the time since the store's creation, suspension included.
    ///   - activeTime: Returns the same without suspension: the time of leases.
    ///   - wallTime: Returns the time since 1970.
    package init(
        uptime: @escaping @Sendable () -> Duration, activeTime: @escaping @Sendable () -> Duration,
        wallTime: @escaping @Sendable () -> Duration
    ) {
        readClock = { StoreInstant(nanoseconds: uptime().nanoseconds) }
        readLeaseClock = { StoreInstant(nanoseconds: activeTime().nanoseconds) }
        readDate = { Date(timeIntervalSince1970: wallTime() / .seconds(1)) }
    }

    package func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try change { (state) throws(JobStoreError) in try state.push(jobs, limit: limit) }
    }

    package func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        change { $0.register(queue: queue, node: node) }
    }

    package func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        change { $0.end(worker, .unregistered) }
    }

    package func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        guard let cancelled = change({ $0.extend(worker) }) else { throw .unknown(worker) }
        return cancelled
    }

    package func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        guard let claims = change({ $0.claim(request) }) else { throw .unknown(request.worker) }
        return claims
    }

    package func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        change { $0.expire(queue: queue, limit: limit) }
    }

    package func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        change { state in tickets.map { state.start($0, by: worker) } }
    }

    package func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        change { state in results.map { state.finish($0, by: worker) } }
    }

    package func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        change { state in ids.map { state.cancel($0) } }
    }

    package func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try change { (state) throws(JobStoreError) in try state.retry(ids, limit: limit) }
    }

    package func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        change { state in ids.map { state.endBackoff($0) } }
    }

    package func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        change { $0.setPaused(isPaused, queue: queue) }
    }

    package func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        change { $0.find(filter) }
    }

    package func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        change { $0.explain(ids) }
    }

    package func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        change { $0.registeredWorkers(of: queue) }.map { worker in
            var worker = worker
            (worker.host, worker.process) = (Machine.hostName, Int(getpid()))
            return worker
        }
    }

    package func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        change { $0.count(queue: queue) }
    }

    package func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        change { $0.prune(retention, limit: limit) }
    }

    package func changes() -> AsyncStream<Void> { listeners.stream(keeping: 1) }

    // MARK: - For tests

    /// Ends a worker as if its process had crashed: its jobs are available again, and each started attempt counts as a crash.
    public func crash(_ worker: WorkerID) {
        change { $0.end(worker, .crashed) }
    }

    /// Ends all workers as if the machine had restarted: their jobs are available again, and no attempt counts as a crash.
    public func reboot() {
        change { $0.reboot() }
    }

    /// The time since the store's creation, which its workers have in common.
    package var nodeTime: Int64 { readClock().nanoseconds }

    package var now: StoreInstant { readClock() }

    private func change<Value: Sendable, Failure: Error>(
        _ body: (inout MemoryStoreState) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let (now, leaseTime, date) = (readClock(), readLeaseClock(), readDate())
        var needsHint = false
        // Without the lock: the listeners are others'.
        defer { if needsHint { listeners.yield(()) } }
        return try state.withLock { (state) throws(Failure) in
            defer { (needsHint, state.hint) = (state.hint, false) }
            state.advance(to: now, leaseTime: leaseTime, nodeTime: now.nanoseconds, date: date)
            return try body(&state)
        }
    }
}
