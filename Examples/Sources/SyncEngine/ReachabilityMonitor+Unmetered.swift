public import Reachability

extension ReachabilityMonitor {
    /// Whether something can be reached by another way than a mobile network, as a condition that large transfers wait for.
    ///
    /// Unsatisfied while offline, not only over mobile networks: it follows the path, in a task, and must not still say yes when a
    /// mobile network is what comes back. For the same reason it hears of a loss at once, and not when that has lasted.
    public func unmetered(to scope: Scope = .internet) -> Condition {
        Condition(
            "unmetered",
            transitions(to: scope, raw: true).map { $0.current.isSatisfied && $0.current.interface?.kind != .cellular })
    }
}
