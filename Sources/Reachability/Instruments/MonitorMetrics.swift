package import CoreMetrics

/// The metrics of a monitor, with labels that are all known beforehand.
struct MonitorMetrics: Sendable {
    private let satisfied: Meter
    /// By the bits of ``Transition/Kinds``.
    private let transitions: [Counter]
    private let outages: Timer
    private let losses: Counter
    private let resyncs: Counter
    private let missed: Counter
    private let failedRequests: Counter

    init(_ factory: any MetricsFactory) {
        func counter(_ label: String) -> Counter { Counter(label: label, factory: factory) }
        satisfied = Meter(label: "reachability.satisfied", factory: factory)
        transitions = Transition.Kinds.allNames.map {
            Counter(label: "reachability.transitions", dimensions: [("kind", $0)], factory: factory)
        }
        outages = Timer(label: "reachability.outage.seconds", preferredDisplayUnit: .seconds, factory: factory)
        losses = counter("reachability.losses")
        resyncs = counter("reachability.resyncs")
        missed = counter("reachability.missed.by.events")
        failedRequests = counter("reachability.requests.failed")
    }

    func count(_ report: MonitorInstruments.Report) {
        if let isSatisfied = report.isSatisfied { satisfied.set(isSatisfied ? 1 : 0) }
        for (scope, transition) in report.transitions where scope == .internet {
            for (bit, counter) in transitions.enumerated() where transition.kinds.rawValue & 1 << UInt32(bit) != 0 {
                counter.increment()
            }
        }
        for outage in report.outages { outages.record(outage) }
        let (new, old) = (report.health, report.oldHealth)
        guard new != old else { return }
        losses.grow(from: old.losses, to: new.losses)
        resyncs.grow(from: old.resyncs, to: new.resyncs)
        missed.grow(from: old.missedByEvents, to: new.missedByEvents)
        failedRequests.grow(from: old.failedRequests, to: new.failedRequests)
    }
}

extension Counter {
    fileprivate func grow(from old: Int, to new: Int) {
        if new > old { increment(by: new - old) }
    }
}

extension CoreMetrics.Timer {
    /// Records a duration; what is too long for the metric counts as the longest that is not.
    package func record(_ duration: Duration) {
        recordNanoseconds(Int64(clamping: duration.attoseconds / 1_000_000_000))
    }
}
