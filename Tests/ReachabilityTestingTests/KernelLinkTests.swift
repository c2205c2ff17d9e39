import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18, less the messages about multicast, neighbours and the local table.
struct KernelLinkTests {
    @Test func aNewKernelHasOnlyItsLoopbackDevice() {
        let kernel = SimulatedKernel()
        #expect(kernel.interfaces.map(\.name) == ["lo"])
        #expect(kernel.interfaces.first?.index == 1)
        #expect(kernel.interfaces.first?.isLoopback == true)
        #expect(kernel.interfaces.first?.addresses.map(\.address.description) == ["127.0.0.1", "::1"])
        #expect(kernel.routes.isEmpty)
    }

    @Test func aLinkSetDownLosesIPv4RoutesSilentlyAndIPv6OnesWithEvents() throws {
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

    @Test func aLinkSetUpGetsItsOwnPrefixesBackButNoGateway() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        let events = try kernel.announced { try $0.setUp("va", true) }
        #expect(events == ["link va up carrier down", "route 10.9.0.0/24 if2", "link va up carrier up"])
        #expect(kernel.routeTexts == ["10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2", "10.9.0.0/24 dev va"])
    }

    @Test func carrierLossAndReturnAreEventsOfTheLinkAlone() throws {
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

    @Test func aCablePulledWhileTheLinkIsDownIsNoticedWhenItComesUp() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        #expect(try kernel.announced { try $0.setCarrier("va", false) } == [])
        #expect(try kernel.announced { try $0.setUp("va", true) } == ["link va up down", "route 10.9.0.0/24 if2"])
        #expect(kernel.interfaces[1].isUsable == false)
    }

    @Test func aRemovedLinkLosesIPv4RoutesSilently() throws {
        var kernel = try SimulatedKernel.captured()
        let events = try kernel.announced { try $0.removeLink("va") }
        #expect(
            events == [
                "link va down", "-route6 2001:db8:9::/64 if2", "-route6 2001:db8:aa::/48 via 2001:db8:9::2 if2",
                "-route6 default via 2001:db8:9::2 if2", "-addr 2001:db8:9::1/64 if2", "-addr 10.9.0.1/24 if2", "-link 2",
            ])
        #expect(kernel.routeTexts == ["10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2"])
        #expect(try kernel.addLink("va") == 4, "an index is never used again")
    }

    @Test func aRenamedLinkKeepsItsIndexAddressesAndRoutes() throws {
        var kernel = try SimulatedKernel.captured()
        let routes = kernel.routes
        let events = try kernel.announced { try $0.rename("va", to: "wan0") }
        #expect(events == ["link wan0 up carrier up", "addr 10.9.0.1/24 if2"])
        #expect(kernel.routes == routes)
        #expect(kernel.interfaces[1].name == "wan0")
    }

    @Test func theLoopbackDeviceLosesItsIPv6AddressWhileItIsDown() throws {
        var kernel = SimulatedKernel()
        #expect(try kernel.announced { try $0.setUp("lo", false) } == ["link lo down", "-addr ::1/128 if1"])
        #expect(
            try kernel.announced { try $0.setUp("lo", true) }
                == ["link lo up carrier down", "addr ::1/128 if1", "link lo up carrier unknown"])
        #expect(kernel.interfaces == SimulatedKernel().interfaces)
    }

    @Test func anOperationalStateStaysUntilTheCarrierChanges() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.announced { try $0.setOperationalState("va", .dormant) } == ["link va up carrier dormant"])
        #expect(kernel.interfaces[1].isUsable == false)
        try kernel.setCarrier("va", false)
        try kernel.setCarrier("va", true)
        #expect(kernel.interfaces[1].operationalState == .up)
    }

    @Test func aTunnelNeverTellsItsOperationalState() throws {
        var kernel = SimulatedKernel()
        #expect(try kernel.announced { try $0.addLink("tun0", kind: .tunnel) } == ["link tun0 up carrier unknown"])
        #expect(kernel.interfaces[1].isUsable)
    }

    @Test(arguments: ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "sixteen-bytes-lo", "lo", "a\nb"])
    func aBadNameIsRefused(name: String) {
        var kernel = SimulatedKernel()
        #expect(throws: SimulationError.self) { try kernel.addLink(name) }
        #expect(kernel.interfaces == SimulatedKernel().interfaces)
    }

    @Test func anUnknownLinkIsNamedTogetherWithTheKnownOnes() throws {
        var kernel = try SimulatedKernel.captured()
        let error = #expect(throws: SimulationError.self) { try kernel.setUp("eth9", true) }
        #expect(
            error?.description == "setUp(\"eth9\", true): there is no link named 'eth9'; there are 'lo', 'va', 'va2'")
    }

    @Test func theLoopbackDeviceCannotBeRemoved() {
        var kernel = SimulatedKernel()
        #expect(throws: SimulationError.self) { try kernel.removeLink("lo") }
    }
}
