import Reachability
import ReachableRetry

func upload(_ photos: [String], over bus: RetryBus = .shared, send: (String) async throws -> Void) async throws {
    for photo in photos {
        try await bus.retry { _ in  // waits while the network is away, tries again when it is back
            try await send(photo)
        }
    }
}

func report(_ monitor: ReachabilityMonitor = .shared, to log: (String) -> Void = { print($0) }) async {
    for await transition in monitor.transitions {
        log("\(transition.current.status): \(transition.cause)")  // unsatisfied: eth0 lost carrier
    }
}
