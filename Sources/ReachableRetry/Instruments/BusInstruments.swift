internal import CoreMetrics
internal import Logging
internal import Reachability

/// Reports a bus's events to the log and the metrics.
struct BusInstruments: Sendable {
    private let log: BusLog?
    private let metrics: BusMetrics?

    /// Returns `nil` if the configuration has neither.
    init?(_ configuration: RetryBus.Configuration) {
        log = configuration.logger.map(BusLog.init)
        metrics = configuration.metrics.map(BusMetrics.init)
        guard log != nil || metrics != nil else { return nil }
    }

    /// Counts events.
    ///
    /// Must not be called under a lock, because it calls foreign code.
    func measure(_ batch: EventBroadcaster.InstrumentBatch) {
        metrics?.count(jobs: batch.moreJobs)
        for event in batch.events { metrics?.count(event) }
        if batch.dropped > 0 { metrics?.countDropped(batch.dropped) }
    }

    /// Logs events.
    ///
    /// Must not be called under a lock, because it calls foreign code.
    func log(_ batch: EventBroadcaster.InstrumentBatch) {
        for event in batch.events { log?.log(event) }
        if batch.dropped > 0 { log?.logDropped(batch.dropped) }
    }
}

/// Writes events of jobs to a log.
///
/// Failed attempts are logged at `info`, because no caller sees them. The end of a job is for its caller to log.
struct BusLog: Sendable {
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    func log(_ event: RetryEvent) {
        switch event.kind {
        case .attemptFailed: logger.info("attempt failed", error: event.failure?.error, metadata: Self.metadata(event))
        case .attemptStarted: logger.debug("attempt starts", metadata: Self.metadata(event))
        case .waiting: logger.debug("job waits for the network or a condition", metadata: Self.metadata(event))
        case .backingOff: logger.debug("job backs off", metadata: Self.metadata(event))
        case .succeeded: logger.debug("job succeeded", metadata: Self.metadata(event))
        case .cancelled: logger.debug("job was cancelled", metadata: Self.metadata(event))
        case .gaveUp: logger.debug("job gave up", error: event.report?.lastError, metadata: Self.metadata(event))
        default: break
        }
    }

    /// Logs the number of events that the logger was too slow for.
    func logDropped(_ count: Int) {
        logger.notice("events of jobs were not logged: the logger was too slow", metadata: ["retry.dropped": "\(count)"])
    }

    private static func metadata(_ event: RetryEvent) -> Logger.Metadata {
        var metadata: Logger.Metadata = [
            "retry.job.id": "\(event.job)", "retry.scope": "\(event.scope)", "retry.attempt": "\(event.attempt)",
        ]
        func set(_ key: String, _ value: String?) {
            if let value { metadata[key] = .string(value) }
        }
        set("retry.destination", event.destination)
        if !event.unmet.isEmpty { set("retry.unmet", event.unmet.map(\.description).joined(separator: ", ")) }
        set("retry.trigger", event.trigger?.rawValue)
        set("retry.delay", event.delay?.inSeconds)
        set("retry.saved", event.saved?.inSeconds)
        set("retry.since.reconnect", event.sinceReconnect?.inSeconds)
        set("retry.failure.fault", event.failure?.fault.label)
        set("retry.failure.charged", event.failure.map { "\($0.isCharged)" })
        if event.waited > .zero { set("retry.waited", event.waited.inSeconds) }
        if let report = event.report {
            set("retry.gave.up.reason", report.reason.rawValue)
            set("retry.elapsed", report.elapsed.inSeconds)
        }
        return metadata
    }
}

/// The metrics of a bus.
///
/// All labels are fixed.
struct BusMetrics: Sendable {
    private let pending: Meter
    private let attempts: [RetryEvent.Trigger: Counter]
    private let failures: [String: Counter]
    private let succeeded: Counter
    private let cancelled: Counter
    private let warnings: Counter
    private let dropped: Counter
    private let gaveUp: [GiveUp.Reason: Counter]
    private let saved: Timer
    private let sinceReconnect: Timer

    init(_ factory: any MetricsFactory) {
        func counter(_ label: String, _ dimensions: (String, String)...) -> Counter {
            Counter(label: label, dimensions: dimensions, factory: factory)
        }
        func timer(_ label: String) -> Timer { Timer(label: label, preferredDisplayUnit: .seconds, factory: factory) }
        pending = Meter(label: "retry.jobs.pending", factory: factory)
        attempts = Self.counters(RetryEvent.Trigger.all) { counter("retry.attempts", ("trigger", $0)) }
        failures = Dictionary(
            uniqueKeysWithValues: AttemptFailure.Fault.labels.map { ($0, counter("retry.failures", ("fault", $0))) })
        succeeded = counter("retry.succeeded")
        cancelled = counter("retry.cancelled")
        warnings = counter("retry.warnings")
        dropped = counter("retry.metrics.dropped")
        gaveUp = Self.counters(GiveUp.Reason.all) { counter("retry.gave.up", ("reason", $0)) }
        saved = timer("retry.seconds.saved")
        sinceReconnect = timer("retry.reconnect.to.attempt")
    }

    private static func counters<Key: Hashable & RawRepresentable<String>>(
        _ keys: [Key], _ counter: (String) -> Counter
    ) -> [Key: Counter] {
        Dictionary(uniqueKeysWithValues: keys.map { ($0, counter($0.rawValue)) })
    }

    /// Counts differences, because buses that share a factory share the meter.
    func count(jobs: Int) {
        if jobs > 0 { pending.increment(by: Double(jobs)) }
        if jobs < 0 { pending.decrement(by: Double(-jobs)) }
    }

    /// Counts events that the metrics' back end was too slow for.
    func countDropped(_ count: Int) { dropped.increment(by: count) }

    func count(_ event: RetryEvent) {
        if let trigger = event.trigger { attempts[trigger]?.increment() }
        if let time = event.saved { saved.record(time) }
        if let time = event.sinceReconnect { sinceReconnect.record(time) }
        if let failure = event.failure { failures[failure.fault.label]?.increment() }
        if let report = event.report { gaveUp[report.reason]?.increment() }
        if event.kind == .succeeded { succeeded.increment() }
        if event.kind == .cancelled { cancelled.increment() }
        if event.kind == .warning { warnings.increment() }
    }
}

// All values of labels. Their number does not grow with the number of jobs and servers.

extension RetryEvent.Trigger {
    static let all: [Self] = [.first, .timer, .reconnect, .condition, .retryNow]
}

extension GiveUp.Reason {
    static let all: [Self] = [.permanent, .attempts, .budget, .deadline, .waitLimit, .conditionEnded, .shutDown]
}

extension AttemptFailure.Fault {
    static let labels = [Self.network, .server, .overload(retryAfter: nil), .request, .local, .unknown].map(\.label)

    /// The fault without the delay.
    var label: String {
        switch self {
        case .network: "network"
        case .server: "server"
        case .overload: "overload"
        case .request: "request"
        case .local: "local"
        case .unknown: "unknown"
        }
    }
}
