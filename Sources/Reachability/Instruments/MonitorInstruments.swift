/// Tells a monitor's report to logs and metrics.
struct MonitorInstruments: Sendable {
    /// What of a batch there is to tell.
    struct Report: Sendable {
        var transitions: [(scope: Scope, transition: Transition)] = []
        /// The outages of the internet that have ended.
        var outages: [Duration] = []
        /// Whether the internet is satisfied now, if that has changed.
        var isSatisfied: Bool?
        var health: MonitorHealth
        var oldHealth: MonitorHealth
    }

    private let log: MonitorLog?
    private let metrics: MonitorMetrics?

    /// `nil` if nobody wants to know.
    init?(_ configuration: ReachabilityMonitor.Configuration) {
        log = configuration.logger.map(MonitorLog.init)
        metrics = configuration.metrics.map(MonitorMetrics.init)
        guard log != nil || metrics != nil else { return nil }
    }

    /// Not under a lock: whose code is called here is not known.
    func record(_ report: Report) {
        metrics?.count(report)
        log?.tell(report)
    }
}

extension MonitorInstruments.Report {
    /// What there is to tell of a batch; what is only told to raw streams is measured and left out.
    init(_ outcome: MonitorCore.Outcome, _ guarded: inout ReachabilityMonitor.Guarded) {
        self.init(health: guarded.core.health, oldHealth: guarded.toldHealth)
        let isOnline = guarded.core.path(.internet)?.isSatisfied == true
        if isOnline != guarded.toldOnline { (isSatisfied, guarded.toldOnline) = (isOnline, isOnline) }
        for telling in outcome.transitions {
            let transition = telling.transition
            if telling.key.scope == .internet,
                let outage = guarded.outage.note(transition.kinds, isRaw: telling.key.isRaw, at: transition.at.sinceBoot)
            {
                outages.append(outage)
            }
            if !telling.key.isRaw { transitions.append((telling.key.scope, transition)) }
        }
    }
}
