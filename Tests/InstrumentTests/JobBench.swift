import Foundation
import InMemoryLogging
import Logging
import MetricsTestKit
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport

/// A durable queue in a world with virtual time, with instruments that remember.
struct JobBench: Sendable {
    /// The parameters of the bench's jobs.
    struct Send: JobParameters {
        static let jobName = "send"
        var text: String
        var delay: Duration?
        var timeLimit: Duration?

        init(_ text: String, delay: Duration? = nil, timeLimit: Duration? = nil) {
            (self.text, self.delay, self.timeLimit) = (text, delay, timeLimit)
        }

        var options: DurableOptions { DurableOptions(delay: delay, timeLimit: timeLimit) }
    }

    let world: TestWorld
    let store: FlakyStore
    let queue: JobQueue
    let metrics: TestMetrics
    let log: InMemoryLogHandler

    /// Makes a queue whose handler fails for texts that begin with `fail`, and sleeps for an hour for `sleep`.
    static func run(
        online: Bool = true, configure: (inout RetryBus.Configuration) -> Void = { _ in },
        _ body: @escaping @Sendable (JobBench) async throws -> Void
    ) async throws {
        let (metrics, log) = (TestMetrics(), InMemoryLogHandler())
        var logger = Logger(label: "test") { _ in log }
        logger.logLevel = .trace
        var configuration = RetryBus.Configuration()
        (configuration.logger, configuration.metrics) = (logger, metrics)
        configuration.releasePolicy = .exact
        configure(&configuration)
        try await TestWorld(busConfiguration: configuration).run { world in
            if !online { try world.network.pull("eth0") }
            let start = world.clock.now
            let date: @Sendable () -> Date = { [clock = world.clock.manual] in
                Date(timeIntervalSince1970: 1_800_000_000 + start.duration(to: clock.now) / .seconds(1))
            }
            let store = FlakyStore(MemoryStore(clock: world.clock.manual, date: date))
            var configuration = JobQueue.Configuration()
            (configuration.name, configuration.date) = ("mail", date)
            let queue = JobQueue(store, bus: world.bus, configuration: configuration)
            queue.registerJob(parameters: Send.self, policy: .steady.giveUpAfter(maxAttempts: 1)) { [clock = world.clock] send, _ in
                if send.text.hasPrefix("fail") { throw Trouble.other }
                if send.text == "sleep" { try await clock.sleep(for: .seconds(3600)) }
            }
            try await body(JobBench(world: world, store: store, queue: queue, metrics: metrics, log: log))
        }
    }

    /// Runs the queue while the body looks.
    func working(_ body: () async throws -> Void) async throws {
        let running = world.start { [queue] in await queue.run() }
        await world.settle()
        try await body()
        await queue.shutdown(drain: .zero)
        await running.value
    }

    func count(_ label: String, _ dimensions: (String, String)...) throws -> Int64 {
        try metrics.expectCounter(label, dimensions).totalValue
    }

    func gauge(_ label: String) throws -> TestMeter { try metrics.expectMeter(label, [("queue", "mail")]) }

    /// The queue's log entries.
    var entries: [InMemoryLogHandler.Entry] { log.entries.filter { $0.metadata["jobs.queue"] == "mail" } }

    var messages: [String] { entries.map { "\($0.level) \($0.message)" } }
}

/// A store in memory that fails as long as a test wants, and counts the readings of its counts.
final class FlakyStore: JobStore {
    let store: MemoryStore
    private let failure = Mutex<JobStoreError?>(nil)
    private let readings = Counter()
    private let isSilent = Mutex(false)

    init(_ store: MemoryStore) { self.store = store }

    func fail(_ error: JobStoreError?) { failure.withLock { $0 = error } }

    /// Gives no more hints.
    func silence() { isSilent.withLock { $0 = true } }

    var countReadings: Int { readings.value }

    private func check() throws(JobStoreError) { if let error = failure.withLock({ $0 }) { throw error } }

    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        try check()
        return try await store.push(jobs, limit: limit)
    }

    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try check()
        return try await store.register(queue: queue, node: node)
    }

    func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        try check()
        try await store.unregister(worker)
    }

    func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        try check()
        return try await store.extend(worker)
    }

    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        try check()
        return try await store.claim(request)
    }

    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        try check()
        return try await store.expire(queue: queue, limit: limit)
    }

    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        try check()
        return try await store.start(tickets, by: worker)
    }

    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        try check()
        return try await store.finish(results, by: worker)
    }

    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] { try await store.cancel(ids) }

    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        try await store.retry(ids, limit: limit)
    }
    var nodeTime: Int64 { store.nodeTime }

    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] { try await store.endBackoff(ids) }

    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        try await store.setPaused(isPaused, queue: queue)
    }

    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] { try await store.find(filter) }

    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] { try await store.explain(ids) }

    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] { try await store.workers(of: queue) }

    func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        readings.add()
        return try await store.count(queue: queue)
    }

    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        try await store.prune(retention, limit: limit)
    }

    func changes() -> AsyncStream<Void> { isSilent.withLock { $0 } ? AsyncStream { _ in } : store.changes() }
}
