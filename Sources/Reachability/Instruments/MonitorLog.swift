internal import Logging

/// Writes what a monitor sees to a log.
///
/// At `info` is what happens to the internet, and what makes the monitor see less; other scopes may be many.
struct MonitorLog: Sendable {
    private let logger: Logger

    init(_ logger: Logger) { self.logger = logger }

    func tell(_ report: MonitorInstruments.Report) {
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
    /// The number of seconds, for logs.
    package var inSeconds: String { "\(self / .seconds(1))" }
}
