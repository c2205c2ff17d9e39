import Reachability

func upload(_ files: [String], over monitor: ReachabilityMonitor = .shared, send: (String) async throws -> Void) async throws {
    for file in files {
        try await monitor.waitUntilSatisfied()  // returns at once while the network is there
        try await send(file)
    }
}

func report(_ monitor: ReachabilityMonitor = .shared, to log: (String) -> Void = { print($0) }) async {
    for await transition in monitor.transitions {
        log("\(transition.current.status): \(transition.cause)")  // unsatisfied: eth0 lost carrier
    }
}
