import Reachability

/// Syncs now if there is a network, and again whenever it comes back.
func keepInSync(_ monitor: ReachabilityMonitor = .shared, sync: () async -> Void) async {
    for await transition in monitor.transitions {
        print(transition.current.status, "because", transition.cause)
        if transition.isBaseline || !transition.kinds.isDisjoint(with: [.online, .reestablished, .resumed]) {
            if transition.current.isSatisfied { await sync() }
        }
    }
}
