import Glibc
import Reachability
import ReachabilityTesting
import Testing

struct KernelRouteTests {
    @Test func replacedRouteIsOneEvent() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.replaceRoute(to: "default", via: "10.8.0.2", metric: 100) }
                == ["route default via 10.8.0.2 if3"])
        #expect(
            try kernel.announced { try $0.replaceRoute(to: "default", via: "2001:db8:8::2", metric: 100) }
                == ["route6 default via 2001:db8:8::2 if3"])
        #expect(kernel.routeTexts.filter { $0.hasPrefix("default") }.count == 2)
        #expect(
            try kernel.announced { try $0.replaceRoute(to: "default", via: "10.9.0.2", metric: 7) }
                == ["route default via 10.9.0.2 if2"])
        #expect(kernel.routeTexts.filter { $0.hasPrefix("default") }.count == 3)
    }

    @Test func unchangedIPv4RouteIsNotAnnounced() throws {
        var kernel = try SimulatedKernel.captured()
        let routes = kernel.routes
        #expect(try kernel.announced { try $0.replaceRoute(to: "default", via: "10.9.0.2", metric: 100) } == [])
        #expect(
            try kernel.announced { try $0.replaceRoute(to: "default", via: "2001:db8:9::2", metric: 100) }
                == ["route6 default via 2001:db8:9::2 if2"])
        #expect(kernel.routes == routes)
        #expect(
            try kernel.announced { try $0.replaceRoute(to: "default", via: "10.9.0.3", metric: 100) }
                == ["route default via 10.9.0.3 if2"])
    }

    @Test func bestRouteIsRemovedFirst() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "default", via: "10.8.0.2", metric: 50)
        #expect(try kernel.announced { try $0.removeRoute(to: "default") } == ["-route default via 10.8.0.2 if3"])
        #expect(
            try kernel.announced { try $0.removeRoute(to: "default", dev: "va", metric: 100) } == [
                "-route default via 10.9.0.2 if2"
            ])
        #expect(
            try kernel.announced { try $0.removeRoute(to: "::/0", via: "2001:db8:9::2") }
                == ["-route6 default via 2001:db8:9::2 if2"])
        #expect(throws: SimulationError.self) { try kernel.removeRoute(to: "default") }
    }

    @Test func refusingRoutesAreAnnounced() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.addRoute(to: "default", metric: 1, type: .blackhole) } == ["route default"])
        #expect(
            try kernel.announced { try $0.addRoute(to: "::/0", metric: 1, type: .unreachable) } == ["route6 default if1"])
    }

    @Test func longestPrefixWinsThenLeastMetric() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
        try kernel.addRoute(to: "default", via: "10.8.0.2", metric: 200)
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
        try kernel.addRoute(to: "default", via: "10.8.0.3", metric: 50)
        #expect(try kernel.get("198.51.100.1") == "via 10.8.0.3 dev va2 src 10.8.0.1")
        try kernel.addRoute(to: "128.0.0.0/1", via: "10.9.0.7", metric: 900)
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.7 dev va src 10.9.0.1")
        #expect(try kernel.get("1.1.1.1") == "via 10.8.0.3 dev va2 src 10.8.0.1")
        try kernel.addRoute(to: "198.51.100.1", via: "10.8.0.9")
        #expect(try kernel.get("198.51.100.1") == "via 10.8.0.9 dev va2 src 10.8.0.1")
    }

    @Test func matchReturnsPrefixAndMetric() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("198.51.100.1", match: true) == "via 10.9.0.2 dev va len 0 metric 100")
        #expect(try kernel.get("192.0.2.7", match: true) == "via 10.9.0.2 dev va len 24 metric 0")
        #expect(try kernel.get("2001:db8:aa::1", match: true) == "via 2001:db8:9::2 dev va len 48 metric 1024")
        try kernel.addRoute(to: "0.0.0.0/1", via: "10.8.0.2", metric: 3)
        #expect(try kernel.get("1.1.1.1", match: true) == "via 10.8.0.2 dev va2 len 1 metric 3")
    }

    @Test(arguments: [
        (SimulatedKernel.RouteType.unreachable, EHOSTUNREACH), (.prohibit, EACCES), (.blackhole, EINVAL), (.throw, ENETUNREACH),
    ])
    func aRouteThatDoesNotSendRefuses(type: SimulatedKernel.RouteType, errno: Int32) throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "198.51.100.0/24", type: type)
        try kernel.addRoute(to: "2001:db8:cc::/48", type: type)
        #expect(try kernel.get("198.51.100.1") == "errno \(errno)")
        #expect(try kernel.get("198.51.100.1", match: true) == "errno \(errno)")
        #expect(try kernel.get("2001:db8:cc::1") == "errno \(errno)")
        #expect(try kernel.get("203.0.113.1") == "via 10.9.0.2 dev va src 10.9.0.1")
    }

    @Test func withoutRouteNetworkIsUnreachable() throws {
        let kernel = SimulatedKernel()
        #expect(try kernel.get("198.51.100.1") == "errno \(ENETUNREACH)")
        #expect(try kernel.get("2001:db8::1") == "errno \(ENETUNREACH)")
    }

    @Test func ipv4RouteMayLeadThroughIPv6Gateway() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "0.0.0.0/0", via: "fe80::1", dev: "va2")
        #expect(try kernel.get("198.51.100.1") == "via fe80::1 dev va2 src 10.8.0.1")
        #expect(throws: SimulationError.self) { try kernel.addRoute(to: "::/0", via: "10.9.0.2", metric: 5) }
    }

    @Test func preferredSourceIsUsed() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "198.51.100.0/24", via: "10.9.0.2", source: "10.8.0.1")
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.8.0.1")
        #expect(throws: SimulationError.self) { try kernel.addRoute(to: "203.0.113.0/24", via: "10.9.0.2", source: "10.7.7.7") }
    }

    @Test func impossibleRouteIsRefused() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va2", false)
        kernel.expectRefusals([
            { try $0.addRoute(to: "default", via: "10.9.0.3", metric: 100) },
            { try $0.addRoute(to: "2001:db8:aa::/48", via: "2001:db8:9::2") },
            { try $0.addRoute(to: "2001:db8:aa::/48", via: "2001:db8:9::3") },
            { try $0.addRoute(to: "default", via: "172.16.0.1") },
            { try $0.addRoute(to: "default", dev: "va2") },
            { try $0.addRoute(to: "default", dev: "eth9") },
            { try $0.addRoute(to: "10.1.2.3/8", dev: "va") },
            { try $0.addRoute(to: "somewhere", dev: "va") },
            { try $0.addRoute(to: "default", via: "nonsense", dev: "va") },
            { try $0.addRoute(to: "default", dev: "va", type: .blackhole) },
            { try $0.addRoute(to: "default") },
        ])
    }
}

/// The expectations were captured on Linux 6.18, without messages about multicast, neighbours and the local table.
struct KernelMultipathTests {
    /// Makes multipath defaults of both families through both cables.
    private static func forked() throws -> SimulatedKernel {
        var kernel = try SimulatedKernel.cabled()
        try kernel.addRoute(to: "default", through: [.init(via: "10.9.0.2", dev: "va"), .init(via: "10.8.0.2", dev: "va2")])
        try kernel.addRoute(
            to: "::/0", through: [.init(via: "2001:db8:9::2", dev: "va"), .init(via: "2001:db8:8::2", dev: "va2")])
        _ = kernel.takeEvents()
        return kernel
    }

    private static let both = ["va", "va2"]

    @Test func lookupFindsEachNextHop() throws {
        let kernel = try Self.forked()
        #expect(try kernel.interfacesTo("198.51.100.1") == Self.both && kernel.interfacesTo("2001:db8:ffff::1") == Self.both)
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "via 10.8.0.2 dev va2 src 10.8.0.1")
    }

    @Test func nextHopOfDownLinkDiesSilently() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.setUp("va", false) }
                == ["link va down", "-route6 2001:db8:9::/64 if2", "-addr 2001:db8:9::1/64 if2"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
        #expect(
            try kernel.announced { try $0.setUp("va", true) }
                == ["link va up carrier down", "route 10.9.0.0/24 if2", "link va up carrier up"])
        #expect(try kernel.interfacesTo("198.51.100.1") == Self.both && kernel.interfacesTo("2001:db8:ffff::1") == Self.both)
    }

    @Test func lastNextHopRemovesRoute() throws {
        var kernel = try Self.forked()
        try kernel.setUp("va", false)
        #expect(
            try kernel.announced { try $0.setUp("va2", false) } == [
                "link va2 down", "-route6 2001:db8:8::/64 if3", "-route6 default via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:8::2 if3", "-addr 2001:db8:8::1/64 if3",
            ])
        #expect(kernel.routes.isEmpty)
    }

    @Test func nextHopWithoutCarrierStays() throws {
        var kernel = try Self.forked()
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.interfacesTo("198.51.100.1") == Self.both && kernel.interfacesTo("2001:db8:ffff::1") == Self.both)
        try kernel.setCarrier("va", true)
        for family in ["ipv4", "ipv6"] { try kernel.setSysctl("net.\(family).conf.all.ignore_routes_with_linkdown", 1) }
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
        #expect(try kernel.announced { try $0.setCarrier("va", true) } == ["link va up carrier up"])
        #expect(try kernel.interfacesTo("198.51.100.1") == Self.both && kernel.interfacesTo("2001:db8:ffff::1") == Self.both)
    }

    @Test func sysctlDoesNotRebalanceNextHops() throws {
        var kernel = try Self.forked()
        try kernel.setCarrier("va", false)
        try kernel.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1)
        #expect(try kernel.interfacesTo("198.51.100.1") == Self.both)
        try kernel.setUp("va2", false)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        try kernel.setUp("va2", true)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
    }

    @Test func familiesRebalanceSeparately() throws {
        var kernel = try Self.forked()
        try kernel.setCarrier("va", false)
        try kernel.setSysctl("net.ipv6.conf.all.ignore_routes_with_linkdown", 1)
        try kernel.removeAddress("va", "10.9.0.1/24")
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == Self.both)
        try kernel.setUp("va", false)
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func removedNextHopIsSilentIfConfigured() throws {
        var kernel = try Self.forked()
        try kernel.setSysctl("net.ipv6.route.skip_notify_on_dev_down", 1)
        #expect(
            try kernel.announced { try $0.removeLink("va") }
                == ["link va down", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2", "-link 2"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func removedLinkRemovesIPv4RouteAndIPv6NextHop() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.removeLink("va") } == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2",
                "-route6 default via 2001:db8:9::2 if2", "-link 2",
            ])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func onlyIPv6NextHopIsRemovedAlone() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.removeRoute(to: "::/0", via: "2001:db8:9::2") }
                == ["-route6 default via 2001:db8:9::2 if2"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
        #expect(throws: SimulationError.self) { try kernel.removeRoute(to: "default", via: "10.8.0.2") }
        #expect(
            try kernel.announced { try $0.removeRoute(to: "default", via: "10.9.0.2") } == ["-route default via 10.9.0.2 if2"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func impossibleRouteIsRefused() throws {
        var kernel = try Self.forked()
        kernel.expectRefusals([
            { try $0.addRoute(to: "203.0.113.0/24", through: []) },
            { try $0.addRoute(to: "203.0.113.0/24", through: [.init(dev: "eth9")]) },
            { try $0.addRoute(to: "default", through: [.init(dev: "va"), .init(via: "fe80::1", dev: "va2")]) },
            { try $0.addRoute(to: "2000::/3", through: [.init(via: "fe80::1", dev: "va"), .init(via: "fe80::1", dev: "va")]) },
        ])
    }
}
