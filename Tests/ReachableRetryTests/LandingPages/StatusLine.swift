import Reachability

/// Shows the state of the network until the task is cancelled.
func showStatus(of monitor: ReachabilityMonitor = .shared, _ show: (String) -> Void = { print($0) }) async {
    for await transition in monitor.transitions {  // first the present state, then every change
        let path = transition.current
        show(path.isSatisfied ? "online" : "offline: \(path.offlineReason.map { "\($0)" } ?? "unknown")")
    }
}
