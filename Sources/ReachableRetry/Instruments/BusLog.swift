internal import Logging
internal import Reachability

/// Writes what happens to jobs to a log.
///
/// At `info` is what nobody else is told: that an attempt failed and there will be another one. The end of a job is its caller's to
/// log.
struct BusLog: Sendable {
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    func tell(_ event: RetryEvent) {
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

    /// The log could not keep up.
    func tell(ofDropped count: Int) {
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
