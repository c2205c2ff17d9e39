public import ReachableJobs
public import ReachableRetry
internal import Synchronization

/// A process of a test that can be killed: only what it has stored remains.
///
/// Make its queue, and start its tasks with `start`:
///
/// ```swift
/// let first = world.launch()
/// let uploads = first.makeQueue()
/// uploads.registerJob(parameters: Upload.self) { upload, _ in try await server.put(upload.file) }
/// first.start { await uploads.run() }
/// try await uploads.push(Upload(file: "photo.jpg"))
/// await world.settle()
/// await first.kill()
/// ```
///
/// A later process continues from the machine's store as after a real restart: launch it, make a queue, and run it. Safe to use
/// from any thread.
public struct TestProcess: Sendable {
    /// A bus of the process alone: what it has learned about servers ends with it.
    public let bus: RetryBus
    private let world: TestWorld
    private let life: Life

    init(world: TestWorld, bus: RetryBus, life: Life) { (self.world, self.bus, self.life) = (world, bus, life) }

    /// The machine's store, as this process has it open.
    package var store: any JobStore { ProcessStore(disk: world.store, life: life) }

    /// Makes a queue of the process, on the machine's store and the process's bus.
    ///
    /// After the process has ended, reads still work, so that a test can look; changes throw `JobStoreError`.
    public func makeQueue(configuration: JobQueue.Configuration = .init()) -> JobQueue {
        JobQueue(store, bus: bus, configuration: configuration)
    }

    /// Starts a task of the process, which `TestWorld.settle()` waits for.
    ///
    /// It is cancelled when the process ends. A task of a process that has ended begins cancelled.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        let task = world.start(operation)
        life.add { task.cancel() }
        return task
    }

    /// Starts a task without errors, which `TestWorld.settle()` waits for.
    ///
    /// It is cancelled when the process ends. A task of a process that has ended begins cancelled.
    @discardableResult
    public func start<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
        let task = world.start(operation)
        life.add { task.cancel() }
        return task
    }

    /// Ends the process at once, as SIGKILL or a crash does.
    ///
    /// Attempts in progress count as crashes, and their jobs are available again. The tasks of the process are cancelled, and
    /// nothing that they still do reaches the store. Returns when they have ended or ignore the cancellation.
    public func kill() async {
        let (workers, ended) = (life.workers, life.end())
        for worker in workers { world.store.crash(worker) }
        for cancel in ended { cancel() }
        await world.settle()
    }
}

extension TestProcess {
    /// The part of a process that ends.
    final class Life: Sendable {
        private struct State {
            var isEnded = false
            var workers: Set<WorkerID> = []
            var cancellations: [@Sendable () -> Void] = []
        }

        private let disk: MemoryStore
        private let state = Mutex(State())

        init(_ disk: MemoryStore) { self.disk = disk }

        var isEnded: Bool { state.withLock { $0.isEnded } }
        var workers: Set<WorkerID> { state.withLock { $0.workers } }

        /// Adds a task, which is cancelled at the end.
        func add(_ cancel: @escaping @Sendable () -> Void) {
            let isEnded = state.withLock { state in
                if !state.isEnded { state.cancellations.append(cancel) }
                return state.isEnded
            }
            if isEnded { cancel() }
        }

        /// Adds a worker; one of a process that has ended meanwhile crashes.
        func add(_ worker: WorkerID) {
            let isEnded = state.withLock { state in
                state.workers.insert(worker)
                return state.isEnded
            }
            if isEnded { disk.crash(worker) }
        }

        func remove(_ worker: WorkerID) { state.withLock { _ = $0.workers.remove(worker) } }

        /// Ends the process; returns the cancellations of its tasks.
        func end() -> [@Sendable () -> Void] {
            state.withLock { state in
                defer { state.cancellations = [] }
                state.isEnded = true
                return state.cancellations
            }
        }
    }
}

/// A store as one process has it open.
private struct ProcessStore: JobStore {
    let disk: MemoryStore
    let life: TestProcess.Life

    private func check() throws(JobStoreError) {
        guard life.isEnded else { return }
        throw JobStoreError(.unavailable, "the test has ended this process", next: "launch another one")
    }

    /// The error with which a worker ends: its lease is not valid any more.
    private func check(_ worker: WorkerID) throws(JobStoreError) {
        guard life.isEnded else { return }
        throw JobStoreError(.unknownWorker, "the process of worker \(worker.rawValue) has ended", next: "launch another one")
    }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try check()
        return try await disk.push(jobs, limit: limit)
    }

    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try check()
        let worker = try await disk.register(queue: queue, node: node)
        life.add(worker)
        return worker
    }

    func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try check(worker)
        try await disk.unregister(worker)
        life.remove(worker)
    }

    func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        try check(worker)
        return try await disk.extend(worker)
    }

    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        try check(request.worker)
        return try await disk.claim(request)
    }

    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        try check()
        return try await disk.expire(queue: queue, limit: limit)
    }

    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try check(worker)
        return try await disk.start(tickets, by: worker)
    }

    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try check(worker)
        return try await disk.finish(results, by: worker)
    }

    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        try check()
        return try await disk.cancel(ids)
    }

    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try check()
        return try await disk.retry(ids, limit: limit)
    }

    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        try check()
        return try await disk.endBackoff(ids)
    }

    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try check()
        try await disk.setPaused(isPaused, queue: queue)
    }

    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        try check()
        return try await disk.prune(retention, limit: limit)
    }

    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] { try await disk.find(filter) }

    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] { try await disk.explain(ids) }

    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] { try await disk.workers(of: queue) }

    func count(queue: String) async throws(JobStoreError) -> [JobCount] { try await disk.count(queue: queue) }

    func changes() -> AsyncStream<Void> { disk.changes() }

    var nodeTime: Int64 { disk.nodeTime }
}
