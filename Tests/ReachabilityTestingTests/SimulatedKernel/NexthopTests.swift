import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18.
struct KernelNexthopTests {
    /// Makes objects of both families through both cables, and groups of them.
    private static func withObjects() throws -> SimulatedKernel {
        var kernel = try SimulatedKernel.cabled()
        try kernel.addNexthop(1, via: "10.9.0.2", dev: "va")
        try kernel.addNexthop(2, via: "10.8.0.2", dev: "va2")
        try kernel.addNexthopGroup(10, of: [1, 2])
        try kernel.addNexthop(61, via: "2001:db8:9::2", dev: "va")
        try kernel.addNexthop(62, via: "2001:db8:8::2", dev: "va2")
        try kernel.addNexthopGroup(66, of: [61, 62])
        _ = kernel.takeEvents()
        return kernel
    }

    private static func withRoutes(_ id: UInt32, _ id6: UInt32) throws -> SimulatedKernel {
        var kernel = try withObjects()
        try kernel.addRoute(to: "default", nexthop: id)
        try kernel.addRoute(to: "::/0", nexthop: id6)
        _ = kernel.takeEvents()
        return kernel
    }

    @Test func objectsAndRoutesThroughThemAreAnnounced() throws {
        var kernel = try SimulatedKernel.cabled()
        #expect(try kernel.announced { try $0.addNexthop(1, via: "10.9.0.2", dev: "va") } == ["nexthop 1"])
        #expect(try kernel.announced { try $0.addNexthopGroup(10, of: [1]) } == ["nexthop 10"])
        #expect(try kernel.announced { try $0.addRoute(to: "default", nexthop: 10) } == ["route default via 10.9.0.2 if2"])
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
        #expect(try kernel.announced { try $0.addNexthop(61, dev: "va", family: .ipv6) } == ["nexthop 61"])
        #expect(try kernel.announced { try $0.addRoute(to: "default", nexthop: 61) } == ["route6 default if2"])
        #expect(try kernel.get("2001:db8:ffff::1") == "dev va src 2001:db8:9::1")
    }

    @Test func removedObjectAnnouncesOnlyIPv6Routes() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(try kernel.announced { try $0.removeNexthop(1) } == ["-nexthop 1", "nexthop 10"])
        #expect(
            try kernel.announced { try $0.removeNexthop(61) }
                == ["-nexthop 61", "-route6 default via 2001:db8:9::2 if2", "nexthop 66"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
        #expect(kernel.nexthops.map(\.id) == [2, 10, 62, 66])
        #expect(kernel.nexthops[1].target == .group([2]))
    }

    @Test func groupContinuesWithoutMember() throws {
        var kernel = try Self.withRoutes(10, 66)
        #expect(
            try kernel.interfacesTo("198.51.100.1") == ["va", "va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va", "va2"])
        #expect(try kernel.announced { try $0.removeNexthop(1) } == ["-nexthop 1", "nexthop 10"])
        #expect(try kernel.announced { try $0.removeNexthop(61) } == ["-nexthop 61", "nexthop 66"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func groupEndsWithItsLastMember() throws {
        var kernel = try Self.withRoutes(10, 66)
        try kernel.removeNexthop(1)
        try kernel.removeNexthop(2)
        #expect(kernel.nexthops.map(\.id) == [61, 62, 66])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func removedGroupRemovesItsRoutes() throws {
        var kernel = try Self.withRoutes(10, 66)
        #expect(try kernel.announced { try $0.removeNexthop(10) } == ["-nexthop 10"])
        #expect(
            try kernel.announced { try $0.removeNexthop(66) } == ["-nexthop 66", "-route6 default via 2001:db8:9::2 if2"])
        #expect(kernel.nexthops.map(\.id) == [1, 2, 61, 62])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func downLinkRemovesObjectsAndRoutes() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(
            try kernel.announced { try $0.setUp("va", false) } == [
                "link va down", "-route6 default via 2001:db8:9::2 if2", "-route6 2001:db8:9::/64 if2",
                "-addr 2001:db8:9::1/64 if2",
            ])
        #expect(kernel.nexthops.map(\.id) == [2, 10, 62, 66])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func lostCarrierRemovesObjectsForGood() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(
            try kernel.announced { try $0.setCarrier("va", false) }
                == ["-route6 default via 2001:db8:9::2 if2", "link va up down"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.announced { try $0.setCarrier("va", true) } == ["link va up carrier up"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(kernel.nexthops.map(\.id) == [2, 10, 62, 66])
    }

    @Test func groupSilentlyLosesNextHop() throws {
        var kernel = try Self.withRoutes(10, 66)
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func replacedObjectMovesItsRoutes() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(
            try kernel.announced { try $0.replaceNexthop(1, via: "10.8.0.2", dev: "va2") }
                == ["nexthop 1", "route default via 10.8.0.2 if3"])
        #expect(
            try kernel.announced { try $0.replaceNexthop(61, via: "2001:db8:8::2", dev: "va2") }
                == ["nexthop 61", "route6 default via 2001:db8:8::2 if3"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
    }

    @Test func withoutCompatibilityOnlyObjectIsAnnounced() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(try kernel.announced { try $0.setSysctl("net.ipv4.nexthop_compat_mode", 0) } == [])
        #expect(try kernel.announced { try $0.replaceNexthop(1, via: "10.8.0.2", dev: "va2") } == ["nexthop 1"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
        #expect(try kernel.announced { try $0.removeNexthop(61) } == ["-nexthop 61", "nexthop 66"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.announced { try $0.addRoute(to: "192.0.2.0/24", nexthop: 1) } == ["route 192.0.2.0/24"])
    }

    @Test func objectMayRefuse() throws {
        var kernel = try Self.withRoutes(1, 61)
        #expect(try kernel.announced { try $0.addBlackholeNexthop(7) } == ["nexthop 7"])
        try kernel.addRoute(to: "203.0.113.0/24", nexthop: 7)
        #expect(try kernel.interfacesTo("203.0.113.1") == ["errno \(EINVAL)"])
        #expect(throws: SimulationError.self, "a member of a group needs a next hop") {
            try kernel.replaceNexthopByBlackhole(61)
        }
        try kernel.removeNexthop(66)
        _ = kernel.takeEvents()
        #expect(try kernel.announced { try $0.replaceNexthopByBlackhole(61) } == ["nexthop 61", "route6 default if1"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(EINVAL)"])
    }

    @Test func unusableObjectHidesRestOfLeaf() throws {
        var kernel = try Self.withObjects()
        try kernel.addRoute(to: "0.0.0.0/0", via: "10.9.0.2", dev: "va")
        try kernel.addRoute(to: "0.0.0.0/1", via: "10.9.0.2", dev: "va", metric: 200)
        #expect(try kernel.get("1.1.1.1", dev: "va") == "via 10.9.0.2 dev va src 10.9.0.1")
        try kernel.addRoute(to: "0.0.0.0/1", nexthop: 2, metric: 100)
        // Both prefixes begin at 0.0.0.0. A bound socket without a route treats everything as on-link.
        #expect(try kernel.get("1.1.1.1", dev: "va") == "dev va src 10.9.0.1")
        try kernel.addRoute(to: "128.0.0.0/1", nexthop: 2)
        #expect(try kernel.get("198.51.100.1", dev: "va") == "via 10.9.0.2 dev va src 10.9.0.1")
    }

    @Test func refusingIPv6ObjectBeatsBetterMetrics() throws {
        var kernel = try Self.withObjects()
        try kernel.addRoute(to: "::/0", via: "fe80::1", dev: "va", metric: 100)
        try kernel.addRoute(to: "::/0", via: "fe80::1", dev: "va2", metric: 200)
        try kernel.addBlackholeNexthop(7, family: .ipv6)
        #expect(try kernel.get("2001:db8:ffff::1", dev: "va2").hasPrefix("via fe80::1 dev va2"))
        try kernel.addRoute(to: "::/0", nexthop: 7, metric: 300)
        #expect(try kernel.get("2001:db8:ffff::1", dev: "va2") == "errno \(EINVAL)")
        #expect(try kernel.get("2001:db8:ffff::1", dev: "va").hasPrefix("via fe80::1 dev va"))
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va"])
    }

    @Test func impossibleObjectIsRefused() throws {
        var kernel = try Self.withObjects()
        try kernel.setCarrier("va", false)
        kernel.expectRefusals([
            { try $0.addNexthop(3, via: "10.9.0.2", dev: "va") },
            { try $0.addNexthop(2, via: "10.8.0.2", dev: "va2") },
            { try $0.addNexthop(0, via: "10.8.0.2", dev: "va2") },
            { try $0.addNexthop(3, via: "10.8.0.2", dev: "eth9") },
            { try $0.addNexthopGroup(11, of: []) },
            { try $0.addNexthopGroup(11, of: [2, 2]) },
            { try $0.addNexthopGroup(11, of: [2, 62]) },
            { try $0.addNexthopGroup(11, of: [10]) },
            { try $0.addNexthopGroup(11, of: [99]) },
            { try $0.replaceNexthop(99, via: "10.8.0.2", dev: "va2") },
            { try $0.replaceNexthop(10, via: "10.8.0.2", dev: "va2") },
            { try $0.replaceNexthop(2, via: "2001:db8:8::2", dev: "va2") },
            { try $0.removeNexthop(99) },
            { try $0.addRoute(to: "default", nexthop: 99) },
            { try $0.addRoute(to: "::/0", nexthop: 2) },
        ])
    }
}
