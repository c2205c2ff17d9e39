import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18, without messages about multicast, neighbours and the local table.
struct KernelLinkTests {
    @Test func newKernelHasOnlyItsLoopbackDevice() {
        let kernel = SimulatedKernel()
        #expect(kernel.interfaces.map(\.name) == ["lo"])
        #expect(kernel.interfaces.first?.index == 1)
        #expect(kernel.interfaces.first?.isLoopback == true)
        #expect(kernel.interfaces.first?.addresses.map(\.address.description) == ["127.0.0.1", "::1"])
        #expect(kernel.routes.isEmpty)
    }

    @Test func downLinkAnnouncesOnlyIPv6Routes() throws {
        var kernel = try SimulatedKernel.captured()
        let events = try kernel.announced { try $0.setUp("va", false) }
        #expect(
            events == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-route6 2001:db8:aa::/48 via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:9::2 if2", "-addr 2001:db8:9::1/64 if2",
            ])
        #expect(kernel.routeTexts == ["10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2"])
        #expect(kernel.interfaces[1].addresses.map(\.address.description) == ["10.9.0.1"])
    }

    @Test func upLinkRestoresOwnPrefixesOnly() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        let events = try kernel.announced { try $0.setUp("va", true) }
        #expect(events == ["link va up carrier down", "route 10.9.0.0/24 if2", "link va up carrier up"])
        #expect(kernel.routeTexts == ["10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2", "10.9.0.0/24 dev va"])
    }

    @Test func carrierChangeAnnouncesOnlyLink() throws {
        var kernel = try SimulatedKernel.captured()
        let routes = kernel.routes
        let before = try kernel.get("198.51.100.1")
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(kernel.routes == routes)
        #expect(try kernel.get("198.51.100.1") == before)
        #expect(kernel.interfaces[1].carrierChanges == 1)
        #expect(try kernel.announced { try $0.setCarrier("va", true) } == ["link va up carrier up"])
        #expect(kernel.interfaces[1].carrierChanges == 2)
    }

    @Test func cablePulledWhileDownIsAnnouncedLater() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == [])
        #expect(try kernel.announced { try $0.setUp("va", true) } == ["link va up down", "route 10.9.0.0/24 if2"])
        #expect(kernel.interfaces[1].isUsable == false)
    }

    @Test func removedLinkLosesIPv4RoutesSilently() throws {
        var kernel = try SimulatedKernel.captured()
        let events = try kernel.announced { try $0.removeLink("va") }
        #expect(
            events == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-route6 2001:db8:aa::/48 via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:9::2 if2", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2", "-link 2",
            ])
        #expect(kernel.routeTexts == ["10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2"])
        #expect(try kernel.addLink("va") == 4, "an index is never reused")
    }

    @Test func renamedLinkKeepsIndexAddressesAndRoutes() throws {
        var kernel = try SimulatedKernel.captured()
        let routes = kernel.routes
        let events = try kernel.announced { try $0.rename("va", to: "wan0") }
        #expect(events == ["link wan0 up carrier up", "addr 10.9.0.1/24 if2"])
        #expect(kernel.routes == routes)
        #expect(kernel.interfaces[1].name == "wan0")
    }

    @Test func downLoopbackDeviceLosesIPv6Address() throws {
        var kernel = SimulatedKernel()
        #expect(try kernel.announced { try $0.setUp("lo", false) } == ["link lo down", "-addr ::1/128 if1"])
        #expect(
            try kernel.announced { try $0.setUp("lo", true) }
                == ["link lo up carrier down", "addr ::1/128 if1", "link lo up carrier unknown"])
        #expect(kernel.interfaces == SimulatedKernel().interfaces)
    }

    @Test func operationalStateStaysUntilCarrierChanges() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.announced { try $0.setOperationalState("va", .dormant) } == ["link va up carrier dormant"])
        #expect(kernel.interfaces[1].isUsable == false)
        try kernel.setCarrier("va", false)
        try kernel.setCarrier("va", true)
        #expect(kernel.interfaces[1].operationalState == .up)
    }

    @Test func tunnelHasUnknownOperationalState() throws {
        var kernel = SimulatedKernel()
        #expect(try kernel.announced { try $0.addLink("tun0", kind: .tunnel) } == ["link tun0 up carrier unknown"])
        #expect(kernel.interfaces[1].isUsable)
    }

    @Test(arguments: ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "sixteen-bytes-lo", "lo", "a\nb"])
    func invalidNameIsRefused(name: String) {
        var kernel = SimulatedKernel()
        #expect(throws: SimulationError.self) { try kernel.addLink(name) }
        #expect(kernel.interfaces == SimulatedKernel().interfaces)
    }

    @Test func errorListsKnownLinks() throws {
        var kernel = try SimulatedKernel.captured()
        let error = #expect(throws: SimulationError.self) { try kernel.setUp("eth9", true) }
        #expect(
            error?.description == "setUp(\"eth9\", true): there is no link named 'eth9'; there are 'lo', 'va', 'va2'")
    }

    @Test func loopbackDeviceCannotBeRemoved() {
        var kernel = SimulatedKernel()
        #expect(throws: SimulationError.self) { try kernel.removeLink("lo") }
    }
}

/// The expectations were captured on Linux 6.18, without messages about multicast, neighbours and the local table.
struct KernelSysctlTests {
    @Test func routesWithoutCarrierAreIgnoredIfConfigured() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1) } == ["netconf all"])
        #expect(
            try kernel.announced { try $0.setSysctl("net.ipv6.conf.all.ignore_routes_with_linkdown", 1) }
                == ["netconf all", "netconf if1", "netconf if2", "netconf if3"])
        #expect(try kernel.announced { try $0.setSysctl("net.ipv4.conf.all.ignore_routes_with_linkdown", 1) } == [])
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == ["link va up down"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
        try kernel.addRoute(to: "default", via: "10.8.0.2", metric: 200)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
        #expect(try kernel.announced { try $0.setCarrier("va", true) } == ["link va up carrier up"])
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va"])
    }

    @Test func sysctlAppliesToOneFamily() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setSysctl("net.ipv6.conf.all.ignore_routes_with_linkdown", 1)
        try kernel.setCarrier("va", false)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
    }

    @Test func downLinkRemovesIPv6RoutesSilentlyIfConfigured() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.announced { try $0.setSysctl("net.ipv6.route.skip_notify_on_dev_down", 1) } == [])
        #expect(try kernel.announced { try $0.setUp("va", false) } == ["link va down", "-addr 2001:db8:9::1/64 if2"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
    }

    @Test func addressesOfDownLinkAreKeptIfConfigured() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "fe80::10/64")
        #expect(try kernel.announced { try $0.setSysctl("net.ipv6.conf.all.keep_addr_on_down", 1) } == [])
        #expect(
            try kernel.announced { try $0.setUp("va", false) } == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-route6 2001:db8:aa::/48 via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:9::2 if2", "-route6 fe80::/64 if2", "-addr fe80::10/64 if2",
            ])
        #expect(kernel.interfaces[1].addresses.map(\.address.description) == ["10.9.0.1", "2001:db8:9::1"])
        #expect(
            try kernel.announced { try $0.setUp("va", true) } == [
                "link va up carrier down", "route 10.9.0.0/24 if2", "route6 2001:db8:9::/64 if2", "addr 2001:db8:9::1/64 if2",
                "link va up carrier up",
            ])
        #expect(!kernel.routeTexts.contains { $0.hasPrefix("default via 2001") })
        let before = try kernel.announced { try $0.removeLink("va") }
        #expect(before.contains("-addr 2001:db8:9::1/64 if2"), "a removed link keeps no address")
    }

    @Test func disablingIPv6DoesNotAnnounceLink() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.setSysctl("net.ipv6.conf.va.disable_ipv6", 1) } == [
                "-route6 2001:db8:9::/64 if2", "-route6 2001:db8:aa::/48 via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:9::2 if2", "-addr 2001:db8:9::1/64 if2",
            ])
        #expect(throws: SimulationError.self) { try kernel.addAddress("va", "2001:db8:9::1/64") }
        #expect(throws: SimulationError.self) { try kernel.addRoute(to: "::/0", via: "fe80::1", dev: "va") }
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"])
        #expect(try kernel.announced { try $0.setSysctl("net.ipv6.conf.va.disable_ipv6", 0) } == [])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["errno \(ENETUNREACH)"])
        try kernel.addAddress("va", "2001:db8:9::1/64")
        _ = kernel.takeEvents()
        try kernel.setSysctl("net.ipv6.conf.all.disable_ipv6", 1)
        #expect(kernel.interfaces.allSatisfy { $0.addresses.allSatisfy { $0.address.family == .ipv4 } })
    }

    @Test func disablingIPv6AppliesToNewLinks() throws {
        var kernel = SimulatedKernel()
        try kernel.setSysctl("net.ipv6.conf.all.disable_ipv6", 1)
        try kernel.addLink("eth0")
        #expect(throws: SimulationError.self) { try kernel.addAddress("eth0", "2001:db8::10/64") }
        try kernel.setSysctl("net.ipv6.conf.all.disable_ipv6", 0)
        try kernel.addAddress("eth0", "2001:db8::10/64")
    }

    @Test(arguments: [true, false])
    func refusingIPv6RoutesUseLoopbackDevice(isDown: Bool) throws {
        var kernel = try SimulatedKernel.cabled()
        try kernel.addRoute(to: "203.0.113.0/24", type: .unreachable)
        try kernel.addRoute(to: "2001:db8:77::/48", type: .unreachable)
        try kernel.addBlackholeNexthop(61, family: .ipv6)
        try kernel.addRoute(to: "2001:db8:61::/48", nexthop: 61)
        let events = try kernel.announced {
            if isDown { try $0.setUp("lo", false) } else { try $0.setSysctl("net.ipv6.conf.lo.disable_ipv6", 1) }
        }
        #expect(events == (isDown ? ["link lo down"] : []) + ["-route6 2001:db8:77::/48 if1", "-addr ::1/128 if1"])
        #expect(try kernel.interfacesTo("2001:db8:77::1") == ["errno \(ENETUNREACH)"])
        #expect(try kernel.interfacesTo("2001:db8:61::1") == ["errno \(EINVAL)"], "the object refuses")
        #expect(try kernel.interfacesTo("203.0.113.1") == ["errno \(EHOSTUNREACH)"])
        #expect(throws: SimulationError.self) { try kernel.addBlackholeNexthop(62, family: .ipv6) }
        var isRefused = false
        do { try kernel.addBlackholeNexthop(2) } catch { isRefused = true }
        #expect(isRefused == isDown)
        try kernel.addRoute(to: "2001:db8:78::/48", type: .prohibit)
    }

    @Test func linksMakeLinkLocalAddressesIfConfigured() throws {
        var kernel = SimulatedKernel()
        try kernel.setSysctl("net.ipv6.conf.all.addr_gen_mode", 0)
        #expect(
            try kernel.announced { try $0.addLink("eth0") }
                == ["route6 fe80::/64 if2", "link eth0 up carrier up", "addr fe80::ff:fe00:2/64 if2"])
        #expect(try kernel.announced { try $0.setUp("eth0", false) }.contains("-addr fe80::ff:fe00:2/64 if2"))
        try kernel.setCarrier("eth0", false)
        #expect(try kernel.announced { try $0.setUp("eth0", true) } == ["link eth0 up down"])
        #expect(
            try kernel.announced { try $0.setCarrier("eth0", true) }
                == ["route6 fe80::/64 if2", "link eth0 up carrier up", "addr fe80::ff:fe00:2/64 if2"])
    }

    @Test(arguments: ["", "net.ipv4.ip_forward", "net.ipv6.conf.eth9.disable_ipv6", "net.ipv6.conf..disable_ipv6"])
    func unknownSysctlIsRefused(key: String) throws {
        var kernel = try SimulatedKernel.captured()
        #expect(throws: SimulationError.self) { try kernel.setSysctl(key, 1) }
        #expect(kernel.takeEvents().isEmpty)
    }
}
