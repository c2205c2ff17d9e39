internal import CoreMetrics
internal import FoundationEssentials
internal import Logging
internal import ReachableRetry
internal import Synchronization

/// Reports a queue's changes to the log and the metrics of its bus.
///
/// Calls foreign code: no method may be called under a lock. Nothing that it reports has a payload.
struct QueueInstruments: Sendable {
    private let logger: Logger?
    private let metrics: QueueMetrics?
    private let queue: String

    /// Returns `nil` if the configuration has neither.
    init?(_ configuration: RetryBus.Configuration, queue: String) {
        (logger, self.queue) = (configuration.logger, queue)
        metrics = configuration.metrics.map { QueueMetrics($0, queue: queue) }
        guard logger != nil || metrics != nil else { return nil }
    }

    var isMeasured: Bool { metrics != nil }

    func record(_ counts: [JobCount], at date: Date) { metrics?.record(counts, at: date) }

    func registered(kind: String, isLate: Bool) {
        guard isLate else {
            metrics?.register(kind)
            return
        }
        log(
            .warning, "a kind was registered after run(), so that its jobs do not run here; next: register all kinds before",
            ["jobs.kind": "\(kind)"])
    }

    func pushed(_ outcome: PushReceipt.Outcome) {
        if outcome == .added || outcome == .appended { metrics?.pushed.increment() }
    }

    /// Reports a job that ended; the errors of its attempts are in the bus's entries.
    func ended(_ id: DurableJobID, kind: String, _ state: DurableJob.State, reason: String?, _ counters: DurableJob.Counters) {
        metrics?.finished(state, kind)
        guard state == .failed else { return }
        var values: Logger.Metadata = [
            "jobs.id": "\(id)", "jobs.kind": "\(kind)", "jobs.attempts": "\(counters.started)",
            "jobs.charged": "\(counters.charged)", "jobs.crashes": "\(counters.crashes)",
        ]
        values["jobs.gave.up.reason"] = reason.map { "\($0)" }
        log(.notice, "job gave up", values)
    }

    func refused(_ id: DurableJobID) {
        metrics?.refused.increment()
        log(.warning, "a late result was refused: the job's claim had ended", ["jobs.id": "\(id)"])
    }

    func workerBegan(_ worker: WorkerID) { log(.info, "worker registered", ["jobs.worker": "\(worker.rawValue)"]) }

    func workerEnded(_ worker: WorkerID?) {
        log(.info, "worker ended", worker.map { ["jobs.worker": "\($0.rawValue)"] } ?? [:])
    }

    func storeFails(_ error: JobStoreError?) {
        guard let error else { return log(.notice, "the store works again", [:]) }
        log(.warning, "the store fails: the worker pauses and tries again", [:], error)
    }

    func pruneFails(_ error: JobStoreError) {
        log(.warning, "jobs that ended long ago could not be deleted: the worker tries again later", [:], error)
    }

    func storeIsSlow(_ duration: Duration) {
        log(
            .warning,
            "the store was busy for long: jobs cannot start meanwhile; next: keep other transactions on its database short",
            ["jobs.store.seconds": "\(duration.components.seconds)"])
    }

    func poolIsBlocked(_ duration: Duration) {
        log(
            .warning,
            """
            no thread is free for Swift's tasks: handlers block all of them, and no job can start; next: wait without blocking, or \
            on a thread of your own
            """, ["jobs.blocked.seconds": "\(duration.components.seconds)"])
    }

    func unregistered(kind: String, version: Int) {
        log(
            .warning, "jobs wait for a worker with their kind: it is not registered here",
            ["jobs.kind": "\(kind)", "jobs.version": "\(version)"])
    }

    func undecodable(_ job: DurableJob) {
        log(
            .warning, "a job waits: its payload cannot be decoded here",
            ["jobs.id": "\(job.id)", "jobs.kind": "\(job.kind)", "jobs.version": "\(job.version)"])
    }

    private func log(
        _ level: Logger.Level, _ message: Logger.Message, _ values: Logger.Metadata, _ error: JobStoreError? = nil
    ) {
        var values = values
        values["jobs.queue"] = "\(queue)"
        values["jobs.store.error"] = error.map { "\($0.code.rawValue)" }
        logger?.log(level: level, message, error: error, metadata: values)
    }
}

/// The metrics of a queue.
///
/// The labels are the queue's name, states, and registered kinds: their number does not grow with the number of jobs.
final class QueueMetrics: Sendable {
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
