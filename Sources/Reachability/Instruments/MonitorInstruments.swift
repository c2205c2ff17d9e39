package import CoreMetrics
internal import Logging

/// The logs and metrics of a monitor.
struct MonitorInstruments: Sendable {
    /// The report of one evaluation.
    struct Report: Sendable {
        var transitions: [(scope: Scope, transition: Transition)] = []
        /// The outages of the internet that ended.
        var outages: [Duration] = []
        /// The new state of the internet; `nil` if it did not change.
        var isSatisfied: Bool?
        var health: MonitorHealth
        var oldHealth: MonitorHealth
    }

    private let log: MonitorLog?
    private let metrics: MonitorMetrics?

    /// Makes the instruments; `nil` if the configuration has none.
    init?(_ configuration: ReachabilityMonitor.Configuration) {
        log = configuration.logger.map(MonitorLog.init)
        metrics = configuration.metrics.map(MonitorMetrics.init)
        guard log != nil || metrics != nil else { return nil }
    }

    /// Records a report; called without a lock, because handlers are foreign code.
    func record(_ report: Report) {
        metrics?.count(report)
        log?.write(report)
    }
}

extension MonitorInstruments.Report {
    /// Makes the report of an evaluation: raw transitions are measured, damped ones reported.
    init(_ published: [StreamTransition], _ state: inout ReachabilityMonitor.State) {
        self.init(health: state.core.health, oldHealth: state.publishedHealth)
        let isOnline = state.core.path(.internet)?.isSatisfied == true
        if isOnline != state.reportedOnline { (isSatisfied, state.reportedOnline) = (isOnline, isOnline) }
        for entry in published {
            let transition = entry.transition
            if entry.key.scope == .internet,
                let outage = state.outage.note(transition.kinds, isRaw: entry.key.isRaw, at: transition.at.sinceBoot)
            {
                outages.append(outage)
            }
            if !entry.key.isRaw { transitions.append((entry.key.scope, transition)) }
        }
    }
}

/// Measures published outages, from the loss itself.
struct OutageTimer: Sendable {
    private var lostAt: Duration?

    /// Takes in a transition of one of a scope's streams.
    ///
    /// The raw stream publishes a loss first, the damped one if it lasts. Losses that the monitor did not see are not measured.
    ///
    /// - Returns: the length of the outage that ended.
    mutating func note(_ kinds: Transition.Kinds, isRaw: Bool, at now: Duration) -> Duration? {
        if isRaw {
            if kinds.contains(.offline) { lostAt = now }
            return nil
        }
        guard kinds.contains(.online), let start = lostAt else { return nil }
        lostAt = nil
        return now.saturatingSubtract(start)
    }
}

/// The log of a monitor.
///
/// Level `info` has the transitions of the internet and the monitor's impairments; other scopes may be many.
struct MonitorLog: Sendable {
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    func write(_ report: MonitorInstruments.Report) {
        for (scope, transition) in report.transitions {
            logger.log(
                level: Self.level(scope, transition.kinds), Self.message(transition), metadata: Self.metadata(scope, transition))
        }
        let (new, old) = (report.health, report.oldHealth)
        if new.mode != old.mode || new.impairment != old.impairment {
            let isWorse = new.mode == .polling || new.failure != nil || new.impairment != nil
            logger.log(
                level: isWorse ? .info : .debug, "the monitor learns about changes in another way",
                error: new.failure ?? new.impairment, metadata: ["reachability.mode": "\(new.mode.rawValue)"])
        }
        if new.losses != old.losses {
            logger.debug("events were lost, and everything is read again", metadata: ["reachability.losses": "\(new.losses)"])
        }
        if new.failedRequests != old.failedRequests {
            logger.debug(
                "the kernel could not be asked", error: new.lastFailure,
                metadata: ["reachability.requests.failed": "\(new.failedRequests)"])
        }
    }

    private static func level(_ scope: Scope, _ kinds: Transition.Kinds) -> Logger.Level {
        scope == .internet && !kinds.isDisjoint(with: [.online, .offline]) ? .info : .debug
    }

    private static func message(_ transition: Transition) -> Logger.Message {
        if transition.kinds.contains(.online) { return "online" }
        if transition.kinds.contains(.offline) { return "offline" }
        return transition.current.status == .unknown ? "reachability is no longer known" : "the path changed"
    }

    /// Names from the kernel are escaped: logs end up on terminals.
    private static func metadata(_ scope: Scope, _ transition: Transition) -> Logger.Metadata {
        let path = transition.current
        var metadata: Logger.Metadata = [
            "reachability.scope": "\(escapedForTerminal(scope.description))", "reachability.state": "\(path.status.rawValue)",
            "reachability.kinds": .array(transition.kinds.names.map { .string($0) }),
            "reachability.epoch": "\(transition.epoch)", "reachability.cause": "\(escapedForTerminal(transition.cause.detail))",
        ]
        if let reason = path.offlineReason { metadata["reachability.reason"] = "\(reason.rawValue)" }
        if let name = path.interface?.name { metadata["network.interface.name"] = "\(escapedForTerminal(name))" }
        return metadata
    }
}

extension Duration {
    /// The number of seconds, as text for logs.
    package var inSeconds: String { "\(self / .seconds(1))" }
}

/// The metrics of a monitor; all labels are known in advance.
struct MonitorMetrics: Sendable {
    private let satisfied: Meter
    /// By the bits of ``Transition/Kinds``.
    private let transitions: [Counter]
    private let outages: Timer
    private let pathLosses: Counter
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
        pathLosses = counter("reachability.path.losses")
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
            if transition.losses > 0 { pathLosses.increment(by: transition.losses) }
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
    /// Records a duration, clamped to the longest that the metric can hold.
    package func record(_ duration: Duration) {
        recordNanoseconds(Int64(clamping: duration.attoseconds / 1_000_000_000))
    }
}
