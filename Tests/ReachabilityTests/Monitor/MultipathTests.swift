import Reachability
import ReachabilityTesting
import Testing

/// Routes with two next hops, the first of which the simulated kernel chooses for each destination.
@Suite struct MultipathTests {
    /// Makes a machine with two cables, one of which is out.
    private static func network(_ family: IPAddress.Family, pulled: String, byPorts: Bool) throws -> SimulatedNetwork {
        let network = SimulatedNetwork()
        for (name, address) in family == .ipv4
            ? [("eth0", "192.0.2.10/24"), ("eth1", "198.51.100.10/24")]
            : [("eth0", "2001:db8:1::10/64"), ("eth1", "2001:db8:2::10/64")]
        {
            try network.addLink(name)
            try network.addAddress(name, address)
        }
        try network.addRoute(
            to: family == .ipv4 ? "default" : "::/0",
            through: family == .ipv4
                ? [.init(via: "192.0.2.1", dev: "eth0"), .init(via: "198.51.100.1", dev: "eth1")]
                : [.init(via: "2001:db8:1::1", dev: "eth0"), .init(via: "2001:db8:2::1", dev: "eth1")])
        if byPorts { try network.setSysctl("net.\(family == .ipv4 ? "ipv4" : "ipv6").fib_multipath_hash_policy", 1) }
        try network.setCarrier(pulled, false)
        return network
    }

    private static func path(_ scope: Scope, _ network: SimulatedNetwork) throws -> NetworkPath {
        try ReachabilityMonitor(network).path(to: scope)
    }

    /// One destination has one next hop, unless ports decide, too.
    @Test(arguments: [IPAddress.Family.ipv4, .ipv6]) func oneAddressDependsOnTheKernelsChoice(family: IPAddress.Family) throws {
        let scope = Scope.address(ip(family == .ipv4 ? "203.0.113.9" : "2001:db8:f::9"))
        let chosen = try Self.path(scope, Self.network(family, pulled: "eth0", byPorts: false))
        #expect(chosen.offlineReason == .noCarrier && !chosen.isPartial)
        let other = try Self.path(scope, Self.network(family, pulled: "eth1", byPorts: false))
        #expect(other.isSatisfied && !other.isPartial)
        for pulled in ["eth0", "eth1"] {
            let path = try Self.path(scope, Self.network(family, pulled: pulled, byPorts: true))
            #expect(path.isSatisfied && path.isPartial && path[family].partialReason == .noCarrier)
            #expect(path.interface?.name == (pulled == "eth0" ? "eth1" : "eth0"))
        }
    }

    @Test(arguments: [IPAddress.Family.ipv4, .ipv6], ["eth0", "eth1"])
    func internetIsThereInPart(family: IPAddress.Family, pulled: String) throws {
        for byPorts in [false, true] {
            let network = try Self.network(family, pulled: pulled, byPorts: byPorts)
            let path = try Self.path(.internet, network)
            #expect(path.isSatisfied && path.isPartial && path[family].partialReason == .noCarrier)
            try network.setCarrier(pulled, true)
            #expect(try !Self.path(.internet, network).isPartial)
            for name in ["eth0", "eth1"] { try network.setCarrier(name, false) }
            #expect(try Self.path(.internet, network).offlineReason == .noCarrier)
        }
    }
}
