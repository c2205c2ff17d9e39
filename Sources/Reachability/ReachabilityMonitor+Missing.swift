internal import Synchronization

extension ReachabilityMonitor {
    /// What is missing for a watched scope, in words as of the last event: `eth0 has no carrier (noCarrier)`.
    ///
    /// `nil` if nothing is. Asks nobody. Interface names are escaped.
    package func missing(for scope: Scope) -> String? {
        let (path, table) = guarded.withLock { ($0.core.path(scope), $0.core.table) }
        guard let path, path.status != .unknown else { return "nobody has looked yet" }
        guard let reason = path.offlineReason else { return nil }
        let culprit = table.all.filter { interface in
            !interface.isLoopback && (scope.interface == nil || interface.name == scope.interface)
                && evaluator.layer(of: interface, for: nil) == reason
        }.likeliest
        return "\(reason.sentence(about: culprit?.name ?? scope.interface)) (\(reason.rawValue))"
    }
}

extension OfflineReason {
    /// What is missing at an interface.
    fileprivate func sentence(about interface: String?) -> String {
        let name = interface.map(escapedForTerminal) ?? "the interface"
        return switch self {
        case .noInterface: "there is no interface\(interface.map { " named \(escapedForTerminal($0))" } ?? "")"
        case .adminDown: "\(name) is shut down"
        case .noCarrier: "\(name) has no carrier"
        case .dormant: "\(name) is dormant"
        case .noAddress: "\(name) has no usable address"
        case .addressTentative: "\(name)'s address is still being checked for duplicates"
        case .noRoute: "no route leads there"
        default: description
        }
    }
}
