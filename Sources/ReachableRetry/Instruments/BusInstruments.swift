/// Tells a bus's story to logs and metrics.
struct BusInstruments: Sendable {
    private let log: BusLog?
    private let metrics: BusMetrics?

    /// `nil` if nobody wants to know.
    init?(_ configuration: RetryBus.Configuration) {
        log = configuration.logger.map(BusLog.init)
        metrics = configuration.metrics.map(BusMetrics.init)
        guard log != nil || metrics != nil else { return nil }
    }

    /// Not under a lock: whose code is called here is not known.
    func record(_ edition: Newsroom.Edition) {
        metrics?.count(jobs: edition.moreJobs)
        for event in edition.events {
            metrics?.count(event)
            log?.tell(event)
        }
    }
}
