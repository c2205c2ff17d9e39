import Reachability
import ReachabilityTesting
import Testing

/// Each command of the network makes one change of its model, and one batch of what is announced.
@Suite(.timeLimit(.minutes(10)))
struct NetworkCommandTests {
    @Test func routesRulesObjectsAndSettingsAreToldInOneBatchEach() async throws {
        let network = SimulatedNetwork(try .cabled())
        let heard = Recorder<[String]>()
        try await network.running { batch in
            heard.record(batch.events.map(\.text))
            return nil
        } _: { network in
            try network.addRoute(to: "default", via: "10.9.0.2")
            try network.replaceRoute(to: "default", via: "10.8.0.2")
            try network.removeRoute(to: "default")
            try network.addRoute(to: "default", through: [.init(via: "10.9.0.2", dev: "va"), .init(via: "10.8.0.2", dev: "va2")])
            try network.addRule(.init(priority: 10, .prohibit))
            try network.removeRule(priority: 10)
            try network.addNexthop(1, via: "10.9.0.2", dev: "va")
            try network.addNexthopGroup(10, of: [1])
            try network.addRoute(to: "203.0.113.0/24", nexthop: 10)
            try network.replaceNexthop(1, via: "10.8.0.2", dev: "va2")
            try network.addBlackholeNexthop(2)
            try network.removeNexthop(10)
            try network.replaceNexthopByBlackhole(1)
            try network.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1)
            try network.setSysctl("net.ipv4.nexthop_compat_mode", 0)
        }
        #expect(
            heard.values == [
                [], ["route default via 10.9.0.2 if2"], ["route default via 10.8.0.2 if3"], ["-route default via 10.8.0.2 if3"],
                ["route default via 10.9.0.2 if2"], ["rule"], ["-rule"], ["nexthop 1"], ["nexthop 10"],
                ["route 203.0.113.0/24 via 10.9.0.2 if2"], ["nexthop 1", "route 203.0.113.0/24 via 10.8.0.2 if3"], ["nexthop 2"],
                ["-nexthop 10"], ["nexthop 1"], ["netconf all"],
            ])
    }

    @Test func whatCannotBeChangesNothing() throws {
        let network = SimulatedNetwork(try .cabled())
        let rules = network.kernel.rules
        #expect(throws: SimulationError.self) { try network.removeRule(priority: 10) }
        #expect(throws: SimulationError.self) { try network.removeNexthop(1) }
        #expect(throws: SimulationError.self) { try network.addRoute(to: "default", nexthop: 1) }
        #expect(network.kernel.rules == rules && network.kernel.nexthops.isEmpty)
    }
}
