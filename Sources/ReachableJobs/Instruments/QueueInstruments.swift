internal import CoreMetrics
internal import FoundationEssentials
internal import Logging
internal import ReachableRetry
internal import Synchronization

/// Reports a queue's changes to the log and the metrics of its bus.
///
/// Calls foreign code: no method may be called under a lock. Nothing that it reports has a payload.
struct QueueInstruments: Sendable {
    private let log: QueueLog?
    private let metrics: QueueMetrics?

    /// Returns `nil` if the configuration has neither.
    init?(_ configuration: RetryBus.Configuration, queue: String) {
        log = configuration.logger.map { QueueLog($0, queue: queue) }
        metrics = configuration.metrics.map { QueueMetrics($0, queue: queue) }
        guard log != nil || metrics != nil else { return nil }
    }

    /// True if the gauges have a reader.
    var isMeasured: Bool { metrics != nil }

    func registered(kind: String, isLate: Bool) {
        if isLate { log?.registeredLate(kind) } else { metrics?.register(kind) }
    }

    func pushed(_ outcome: PushReceipt.Outcome) {
        if outcome == .added || outcome == .appended { metrics?.pushed.increment() }
    }

    /// Reports a job that ended.
    func ended(_ id: DurableJobID, kind: String, _ state: DurableJob.State, reason: String?, _ counters: DurableJob.Counters) {
        metrics?.finished(state, kind)
        if state == .failed { log?.gaveUp(id, kind, reason: reason, counters) }
    }

    func refused(_ id: DurableJobID) {
        metrics?.refused.increment()
        log?.refused(id)
    }

    /// Sets the gauges.
    func record(_ counts: [JobCount], at date: Date) { metrics?.record(counts, at: date) }

    func workerBegan(_ worker: WorkerID) { log?.workerBegan(worker) }

    func workerEnded(_ worker: WorkerID?) { log?.workerEnded(worker) }

    /// Reports that the store fails, or works again (`nil`).
    func storeFails(_ error: JobStoreError?) { log?.storeFails(error) }

    func pruneFails(_ error: JobStoreError) { log?.pruneFails(error) }

    func storeIsSlow(_ duration: Duration) { log?.storeIsSlow(duration) }

    func poolIsBlocked(_ duration: Duration) { log?.poolIsBlocked(duration) }

    func unregistered(kind: String, version: Int) { log?.unregistered(kind, version) }

    func undecodable(_ job: DurableJob) { log?.undecodable(job) }
}

/// Writes a queue's changes to a log.
struct QueueLog: Sendable {
    private let logger: Logger
    private let queue: String

    init(_ logger: Logger, queue: String) { (self.logger, self.queue) = (logger, queue) }

    func workerBegan(_ worker: WorkerID) {
        logger.info("worker registered", metadata: metadata(["jobs.worker": "\(worker.rawValue)"]))
    }

    func workerEnded(_ worker: WorkerID?) {
        var values: Logger.Metadata = [:]
        values["jobs.worker"] = worker.map { "\($0.rawValue)" }
        logger.info("worker ended", metadata: metadata(values))
    }

    func storeFails(_ error: JobStoreError?) {
        guard let error else { return logger.notice("the store works again", metadata: metadata([:])) }
        logger.warning(
            "the store fails: the worker pauses and tries again", error: error,
            metadata: metadata(["jobs.store.error": "\(error.code.rawValue)"]))
    }

    func pruneFails(_ error: JobStoreError) {
        logger.warning(
            "jobs that ended long ago could not be deleted: the worker tries again later", error: error,
            metadata: metadata(["jobs.store.error": "\(error.code.rawValue)"]))
    }

    func storeIsSlow(_ duration: Duration) {
        logger.warning(
            "the store was busy for long: jobs cannot start meanwhile; next: keep other transactions on its database short",
            metadata: metadata(["jobs.store.seconds": "\(duration.components.seconds)"]))
    }

    func poolIsBlocked(_ duration: Duration) {
        logger.warning(
            """
            no thread is free for Swift's tasks: handlers block all of them, and no job can start; next: wait without blocking, or \
            on a thread of your own
            """, metadata: metadata(["jobs.blocked.seconds": "\(duration.components.seconds)"]))
    }

    /// The errors of the attempts are in the bus's entries.
    func gaveUp(_ id: DurableJobID, _ kind: String, reason: String?, _ counters: DurableJob.Counters) {
        var values: Logger.Metadata = [
            "jobs.id": "\(id)", "jobs.kind": "\(kind)", "jobs.attempts": "\(counters.started)",
            "jobs.charged": "\(counters.charged)",
            "jobs.crashes": "\(counters.crashes)",
        ]
        values["jobs.gave.up.reason"] = reason.map { "\($0)" }
        logger.notice("job gave up", metadata: metadata(values))
    }

    func refused(_ id: DurableJobID) {
        logger.warning("a late result was refused: the job's claim had ended", metadata: metadata(["jobs.id": "\(id)"]))
    }

    func registeredLate(_ kind: String) {
        logger.warning(
            "a kind was registered after run(), so that its jobs do not run here; next: register all kinds before",
            metadata: metadata(["jobs.kind": "\(kind)"]))
    }

    func unregistered(_ kind: String, _ version: Int) {
        logger.warning(
            "jobs wait for a worker with their kind: it is not registered here",
            metadata: metadata(["jobs.kind": "\(kind)", "jobs.version": "\(version)"]))
    }

    func undecodable(_ job: DurableJob) {
        logger.warning(
            "a job waits: its payload cannot be decoded here",
            metadata: metadata(["jobs.id": "\(job.id)", "jobs.kind": "\(job.kind)", "jobs.version": "\(job.version)"]))
    }

    private func metadata(_ values: Logger.Metadata) -> Logger.Metadata {
        values.merging(["jobs.queue": "\(queue)"]) { $1 }
    }
}

/// The metrics of a queue.
///
/// The labels are the queue's name, states, and registered kinds: their number does not grow with the number of jobs.
final class QueueMetrics: Sendable {
    /// The label of kinds that are not registered.
    private static let other = "other"

    let pushed: Counter
    let refused: Counter
    private let waiting: Meter
    private let oldest: Meter
    private let ends = Mutex<[String: [DurableJob.State: Counter]]>([:])
    private let factory: any MetricsFactory

    init(_ factory: any MetricsFactory, queue: String) {
        self.factory = factory
        pushed = Counter(label: "jobs.pushed", factory: factory)
        refused = Counter(label: "jobs.refused", factory: factory)
        waiting = Meter(label: "jobs.waiting", dimensions: [("queue", queue)], factory: factory)
        oldest = Meter(label: "jobs.oldest.seconds", dimensions: [("queue", queue)], factory: factory)
        register(Self.other)
    }

    /// Makes the counters of a kind.
    func register(_ kind: String) {
        var counters: [DurableJob.State: Counter] = [:]
        for state in DurableJob.State.allCases where state.isFinal {
            counters[state] = Counter(
                label: "jobs.finished", dimensions: [("state", state.rawValue), ("kind", kind)], factory: factory)
        }
        // Released outside of the lock.
        _ = ends.withLock { [counters] in $0.updateValue(counters, forKey: kind) }
    }

    func finished(_ state: DurableJob.State, _ kind: String) {
        ends.withLock { ($0[kind] ?? $0[Self.other])?[state] }?.increment()
    }

    func record(_ counts: [JobCount], at date: Date) {
        let available = counts.filter { $0.state == .available }
        waiting.set(available.reduce(0) { $0 + $1.count })
        oldest.set(available.map(\.oldest).min().map { max(0, date.timeIntervalSince($0)) } ?? 0)
    }
}
