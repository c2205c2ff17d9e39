import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18, less the messages about multicast, neighbours and the local table.
struct KernelAddressTests {
    @Test func aNewAddressBringsTheRouteToItsPrefix() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.addAddress("va", "10.3.0.1/24") } == ["addr 10.3.0.1/24 if2", "route 10.3.0.0/24 if2"])
        #expect(
            try kernel.announced { try $0.addAddress("va", "2001:db8:3::1/64", isTentative: true) }
                == ["route6 2001:db8:3::/64 if2", "addr 2001:db8:3::1/64 if2 tentative"])
    }

    @Test func anAddressWithoutAPrefixBringsARouteOnlyForIPv6() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.announced { try $0.addAddress("va", "10.3.0.1") } == ["addr 10.3.0.1/32 if2"])
        #expect(
            try kernel.announced { try $0.addAddress("va", "2001:db8:3::1") }
                == ["route6 2001:db8:3::1/128 if2", "addr 2001:db8:3::1/128 if2"])
    }

    @Test func anAddressOfALinkThatIsDownGetsItsRouteWhenTheLinkComesUp() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0", isUp: false)
        #expect(try kernel.announced { try $0.addAddress("eth0", "192.0.2.10/24") } == ["addr 192.0.2.10/24 if2"])
        #expect(
            try kernel.announced { try $0.setUp("eth0", true) }
                == ["link eth0 up carrier down", "route 192.0.2.0/24 if2", "link eth0 up carrier up"])
    }

    @Test func anIPv6AddressOfALinkThatIsDownIsTentativeUntilItIsUp() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0", isUp: false)
        #expect(try kernel.announced { try $0.addAddress("eth0", "2001:db8::1/64") } == ["addr 2001:db8::1/64 if2 tentative"])
        #expect(throws: SimulationError.self) { try kernel.finishDetection(of: "2001:db8::1", on: "eth0") }
        #expect(try kernel.announced { try $0.setUp("eth0", true) }.contains("route6 2001:db8::/64 if2"))
        #expect(
            try kernel.announced { try $0.finishDetection(of: "2001:db8::1", on: "eth0") } == ["addr 2001:db8::1/64 if2"])
    }

    @Test func theLastIPv4AddressTakesTheGatewayRoutesWithItSilently() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.removeAddress("va", "10.9.0.1/24") } == [
                "-addr 10.9.0.1/24 if2", "-route 10.9.0.0/24 if2",
            ])
        #expect(
            kernel.routeTexts == [
                "2001:db8:9::/64 dev va", "10.8.0.0/24 dev va2", "2001:db8:8::/64 dev va2",
                "2001:db8:aa::/48 via 2001:db8:9::2 dev va", "default via 2001:db8:9::2 dev va",
            ])
    }

    @Test func theGatewayRoutesStayWhileAnotherIPv4AddressIsLeft() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.3.0.1/24")
        try kernel.removeAddress("va", "10.9.0.1/24")
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.3.0.1")
    }

    @Test func theLastIPv6AddressLeavesTheGatewayRoutes() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.removeAddress("va", "2001:db8:9::1") }
                == ["-addr 2001:db8:9::1/64 if2", "-route6 2001:db8:9::/64 if2"])
        #expect(kernel.routeTexts.contains("default via 2001:db8:9::2 dev va"))
    }

    @Test func theFirstAddressOfAPrefixTakesTheLaterOnesWithIt() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.3.0.1/24")
        #expect(try kernel.announced { try $0.addAddress("va", "10.3.0.2/24") } == ["addr 10.3.0.2/24 if2"])
        #expect(
            try kernel.announced { try $0.removeAddress("va", "10.3.0.1") }
                == ["-addr 10.3.0.2/24 if2", "-addr 10.3.0.1/24 if2", "-route 10.3.0.0/24 if2"])
    }

    @Test func aLaterAddressOfAPrefixGoesAlone() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.9.0.77/24")
        try kernel.addRoute(to: "198.51.100.0/24", via: "10.9.0.2", source: "10.9.0.77")
        #expect(
            try kernel.announced { try $0.removeAddress("va", "10.9.0.77/24") }
                == ["-addr 10.9.0.77/24 if2", "-route 198.51.100.0/24 via 10.9.0.2 if2"])
        #expect(kernel.routeTexts.contains("10.9.0.0/24 dev va"))
    }

    @Test func anIPv6RouteForgetsItsPreferredSourceSilently() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "2001:db8:9::77/64")
        try kernel.addRoute(to: "2001:db8:bb::/48", via: "2001:db8:9::2", source: "2001:db8:9::77")
        #expect(
            try kernel.announced { try $0.removeAddress("va", "2001:db8:9::77/64") } == ["-addr 2001:db8:9::77/64 if2"])
        #expect(try kernel.get("2001:db8:bb::1") == "via 2001:db8:9::2 dev va src 2001:db8:9::1")
    }

    @Test func detectionEndsWithAnEventAndAnAddressThatCanBeUsedOrCannot() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "2001:db8:3::1/64", isTentative: true)
        try kernel.addAddress("va", "2001:db8:3::2/64", isTentative: true)
        #expect(
            try kernel.announced { try $0.finishDetection(of: "2001:db8:3::1", on: "va") } == ["addr 2001:db8:3::1/64 if2"])
        #expect(
            try kernel.announced { try $0.finishDetection(of: "2001:db8:3::2", on: "va", hasFailed: true) }
                == ["addr 2001:db8:3::2/64 if2 tentative failed"])
        #expect(kernel.interfaces[1].addresses.suffix(2).map(\.isReady) == [true, false])
        #expect(throws: SimulationError.self) { try kernel.finishDetection(of: "2001:db8:3::2", on: "va") }
    }

    @Test(arguments: ["", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/", "10.0.0.1/+8", "10.0.0/8", "::1/129", "x", "10.9.0.1/24"])
    func aBadOrPresentAddressIsRefused(text: String) throws {
        var kernel = try SimulatedKernel.captured()
        let before = kernel.interfaces
        #expect(throws: SimulationError.self) { try kernel.addAddress("va", text) }
        #expect(kernel.interfaces == before)
        #expect(kernel.takeEvents().isEmpty)
    }

    @Test(arguments: ["10.9.0.2/24", "10.9.0.1/25", "nonsense"])
    func anAddressThatIsNotThereCannotBeRemoved(text: String) throws {
        var kernel = try SimulatedKernel.captured()
        #expect(throws: SimulationError.self) { try kernel.removeAddress("va", text) }
    }

    @Test func anIPv4AddressIsNeverTentative() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(throws: SimulationError.self) { try kernel.addAddress("va", "10.3.0.1/24", isTentative: true) }
    }
}
