import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18, less the messages about multicast, neighbours and the local table.
struct KernelMultipathTests {
    /// Defaults of both families through both cables.
    private static func forked() throws -> SimulatedKernel {
        var kernel = try SimulatedKernel.cabled()
        try kernel.addRoute(to: "default", through: [.init(via: "10.9.0.2", dev: "va"), .init(via: "10.8.0.2", dev: "va2")])
        try kernel.addRoute(
            to: "::/0", through: [.init(via: "2001:db8:9::2", dev: "va"), .init(via: "2001:db8:8::2", dev: "va2")])
        _ = kernel.takeEvents()
        return kernel
    }

    private static let both = ["va", "va2"]

    @Test func lookupMayUseEachNextHop() throws {
        let kernel = try Self.forked()
        #expect(try kernel.ways("198.51.100.1") == Self.both && kernel.ways("2001:db8:ffff::1") == Self.both)
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "via 10.8.0.2 dev va2 src 10.8.0.1")
    }

    @Test func aLegWhoseLinkGoesDownDiesInSilence() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.setUp("va", false) }
                == ["link va down", "-route6 2001:db8:9::/64 if2", "-addr 2001:db8:9::1/64 if2"])
        #expect(try kernel.ways("198.51.100.1") == ["va2"] && kernel.ways("2001:db8:ffff::1") == ["va2"])
        #expect(
            try kernel.announced { try $0.setUp("va", true) }
                == ["link va up carrier down", "route 10.9.0.0/24 if2", "link va up carrier up"])
        #expect(try kernel.ways("198.51.100.1") == Self.both && kernel.ways("2001:db8:ffff::1") == Self.both)
    }

    @Test func withItsLastNextHopARouteGoesIPv6sAnnouncedHopByHop() throws {
        var kernel = try Self.forked()
        try kernel.setUp("va", false)
        #expect(
            try kernel.announced { try $0.setUp("va2", false) } == [
                "link va2 down", "-route6 2001:db8:8::/64 if3", "-route6 default via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:8::2 if3", "-addr 2001:db8:8::1/64 if3",
            ])
        #expect(kernel.routes.isEmpty)
    }

    @Test func aLegWithoutCarrierStaysUnlessLookUpsAreToPassItOver() throws {
        var kernel = try Self.forked()
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.ways("198.51.100.1") == Self.both && kernel.ways("2001:db8:ffff::1") == Self.both)
        try kernel.setCarrier("va", true)
        for family in ["ipv4", "ipv6"] { try kernel.setSysctl("net.\(family).conf.all.ignore_routes_with_linkdown", 1) }
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.ways("198.51.100.1") == ["va2"] && kernel.ways("2001:db8:ffff::1") == ["va2"])
        #expect(try kernel.announced { try $0.setCarrier("va", true) } == ["link va up carrier up"])
        #expect(try kernel.ways("198.51.100.1") == Self.both && kernel.ways("2001:db8:ffff::1") == Self.both)
    }

    @Test func sharesAreGivenOutWhenSomethingHappensToALegNotWhenASettingChanges() throws {
        var kernel = try Self.forked()
        try kernel.setCarrier("va", false)
        try kernel.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1)
        #expect(try kernel.ways("198.51.100.1") == Self.both)
        try kernel.setUp("va2", false)
        #expect(try kernel.ways("198.51.100.1") == ["errno \(ENETUNREACH)"])
        try kernel.setUp("va2", true)
        #expect(try kernel.ways("198.51.100.1") == ["va2"])
    }

    @Test func oneFamilysSharesAreNotTheOthers() throws {
        var kernel = try Self.forked()
        try kernel.setCarrier("va", false)
        try kernel.setSysctl("net.ipv6.conf.all.ignore_routes_with_linkdown", 1)
        try kernel.removeAddress("va", "10.9.0.1/24")
        #expect(try kernel.ways("2001:db8:ffff::1") == Self.both)
        try kernel.setUp("va", false)
        #expect(try kernel.ways("2001:db8:ffff::1") == ["va2"])
    }

    @Test func aLegOfARemovedLinkGoesInSilenceIfAskedFor() throws {
        var kernel = try Self.forked()
        try kernel.setSysctl("net.ipv6.route.skip_notify_on_dev_down", 1)
        #expect(
            try kernel.announced { try $0.removeLink("va") }
                == ["link va down", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2", "-link 2"])
        #expect(try kernel.ways("2001:db8:ffff::1") == ["va2"])
    }

    @Test func aRemovedLinkTakesTheWholeIPv4RouteButOneIPv6Leg() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.removeLink("va") } == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2",
                "-route6 default via 2001:db8:9::2 if2", "-link 2",
            ])
        #expect(try kernel.ways("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.ways("2001:db8:ffff::1") == ["va2"])
    }

    @Test func anIPv6LegCanBeRemovedAloneAndAnIPv4OneTakesAll() throws {
        var kernel = try Self.forked()
        #expect(
            try kernel.announced { try $0.removeRoute(to: "::/0", via: "2001:db8:9::2") }
                == ["-route6 default via 2001:db8:9::2 if2"])
        #expect(try kernel.ways("2001:db8:ffff::1") == ["va2"])
        #expect(throws: SimulationError.self) { try kernel.removeRoute(to: "default", via: "10.8.0.2") }
        #expect(
            try kernel.announced { try $0.removeRoute(to: "default", via: "10.9.0.2") } == ["-route default via 10.9.0.2 if2"])
        #expect(try kernel.ways("198.51.100.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func aRouteThatCannotBeIsRefused() throws {
        var kernel = try Self.forked()
        let before = kernel.routes
        let attempts: [(inout SimulatedKernel) throws -> Void] = [
            { try $0.addRoute(to: "203.0.113.0/24", through: []) },
            { try $0.addRoute(to: "203.0.113.0/24", through: [.init(dev: "eth9")]) },
            { try $0.addRoute(to: "default", through: [.init(dev: "va"), .init(via: "fe80::1", dev: "va2")]) },
            { try $0.addRoute(to: "2000::/3", through: [.init(via: "fe80::1", dev: "va"), .init(via: "fe80::1", dev: "va")]) },
        ]
        for (number, attempt) in attempts.enumerated() {
            #expect(throws: SimulationError.self, "attempt \(number)") { try attempt(&kernel) }
        }
        #expect(kernel.routes == before && kernel.takeEvents().isEmpty)
    }
}
