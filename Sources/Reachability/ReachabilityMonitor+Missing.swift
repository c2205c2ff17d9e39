internal import Synchronization

extension ReachabilityMonitor {
    /// The missing layer of a watched scope, in words as of the last event: `eth0 has no carrier (noCarrier)`.
    ///
    /// `nil` if nothing is missing. Makes no request. Interface names are escaped.
    package func missing(for scope: Scope) -> String? {
        let (path, table) = guarded.withLock { ($0.core.path(scope), $0.core.table) }
        guard let path, path.status != .unknown else { return "not known yet" }
        guard let reason = path.offlineReason else { return nil }
        if let problem = path.bindingProblem { return "\(escapedForTerminal(problem.description)) (\(reason.rawValue))" }
        if let failure = path.nameLookupFailure { return "\(failure) (\(reason.rawValue))" }
        let culprit = table.all.filter { interface in
            !interface.isLoopback && (scope.interface == nil || interface.name == scope.interface)
                && evaluator.layer(of: interface, for: nil) == reason
        }.likeliest
        return "\(reason.sentence(about: culprit?.name ?? scope.interface)) (\(reason.rawValue))"
    }
}

extension OfflineReason {
    /// The missing layer of an interface.
    fileprivate func sentence(about interface: String?) -> String {
        let name = interface.map(escapedForTerminal) ?? "the interface"
        return switch self {
        case .noInterface: "there is no interface"
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
