/// Tells a bus's report to logs and metrics.
struct BusInstruments: Sendable {
    private let log: BusLog?
    private let metrics: BusMetrics?

    /// `nil` if nobody wants to know.
    init?(_ configuration: RetryBus.Configuration) {
        log = configuration.logger.map(BusLog.init)
        metrics = configuration.metrics.map(BusMetrics.init)
        guard log != nil || metrics != nil else { return nil }
    }

    /// Counts events.
    ///
    /// Not under a lock: it is not known whose code is called here.
    func measure(_ report: Newsroom.Report) {
        metrics?.count(jobs: report.moreJobs)
        for event in report.events { metrics?.count(event) }
    }

    /// Logs events.
    ///
    /// Not under a lock: it is not known whose code is called here.
    func log(_ report: Newsroom.Report) {
        for event in report.events { log?.tell(event) }
        if report.dropped > 0 { log?.tell(ofDropped: report.dropped) }
    }
}
