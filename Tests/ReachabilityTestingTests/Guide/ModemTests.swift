import Reachability
import ReachabilityTesting
import Testing

@Test func modemReplacesCable() async throws {
    try await TestWorld().run { world in
        try world.network.removeLink("eth0")
        #expect(world.monitor.path.offlineReason == .noInterface)
        try world.network.addLink("wwan0", kind: .cellular)
        try world.network.addAddress("wwan0", "198.51.100.10/24")
        try world.network.addRoute(to: "default", via: "198.51.100.1")
        #expect(world.monitor.path.interface?.kind == .cellular)
    }
}
