import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18, without messages about multicast, neighbours and the local table.
struct KernelAddressTests {
    @Test func newAddressAddsRouteToItsPrefix() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.addAddress("va", "10.3.0.1/24") } == ["addr 10.3.0.1/24 if2", "route 10.3.0.0/24 if2"])
        #expect(
            try kernel.announced { try $0.addAddress("va", "2001:db8:3::1/64", isTentative: true) }
                == ["route6 2001:db8:3::/64 if2", "addr 2001:db8:3::1/64 if2 tentative"])
    }

    @Test func fullLengthAddressAddsRouteOnlyForIPv6() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.announced { try $0.addAddress("va", "10.3.0.1") } == ["addr 10.3.0.1/32 if2"])
        #expect(
            try kernel.announced { try $0.addAddress("va", "2001:db8:3::1") }
                == ["route6 2001:db8:3::1/128 if2", "addr 2001:db8:3::1/128 if2"])
    }

    @Test func addressOfDownLinkGetsRouteLater() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0", isUp: false)
        #expect(try kernel.announced { try $0.addAddress("eth0", "192.0.2.10/24") } == ["addr 192.0.2.10/24 if2"])
        #expect(
            try kernel.announced { try $0.setUp("eth0", true) }
                == ["link eth0 up carrier down", "route 192.0.2.0/24 if2", "link eth0 up carrier up"])
    }

    @Test func ipv6AddressOfDownLinkIsTentative() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0", isUp: false)
        #expect(try kernel.announced { try $0.addAddress("eth0", "2001:db8::1/64") } == ["addr 2001:db8::1/64 if2 tentative"])
        #expect(throws: SimulationError.self) { try kernel.finishDetection(of: "2001:db8::1", on: "eth0") }
        #expect(try kernel.announced { try $0.setUp("eth0", true) }.contains("route6 2001:db8::/64 if2"))
        #expect(
            try kernel.announced { try $0.finishDetection(of: "2001:db8::1", on: "eth0") } == ["addr 2001:db8::1/64 if2"])
    }

    @Test func lastIPv4AddressSilentlyRemovesGatewayRoutes() throws {
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

    @Test func gatewayRoutesStayWithAnotherIPv4Address() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.3.0.1/24")
        try kernel.removeAddress("va", "10.9.0.1/24")
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.3.0.1")
    }

    @Test func lastIPv6AddressKeepsGatewayRoutes() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(
            try kernel.announced { try $0.removeAddress("va", "2001:db8:9::1") }
                == ["-addr 2001:db8:9::1/64 if2", "-route6 2001:db8:9::/64 if2"])
        #expect(kernel.routeTexts.contains("default via 2001:db8:9::2 dev va"))
    }

    @Test func firstAddressOfPrefixRemovesLaterOnes() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.3.0.1/24")
        #expect(try kernel.announced { try $0.addAddress("va", "10.3.0.2/24") } == ["addr 10.3.0.2/24 if2"])
        #expect(
            try kernel.announced { try $0.removeAddress("va", "10.3.0.1") }
                == ["-addr 10.3.0.2/24 if2", "-addr 10.3.0.1/24 if2", "-route 10.3.0.0/24 if2"])
    }

    @Test func laterAddressOfPrefixIsRemovedAlone() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "10.9.0.77/24")
        try kernel.addRoute(to: "198.51.100.0/24", via: "10.9.0.2", source: "10.9.0.77")
        #expect(
            try kernel.announced { try $0.removeAddress("va", "10.9.0.77/24") }
                == ["-addr 10.9.0.77/24 if2", "-route 198.51.100.0/24 via 10.9.0.2 if2"])
        #expect(kernel.routeTexts.contains("10.9.0.0/24 dev va"))
    }

    @Test func ipv6RouteSilentlyLosesPreferredSource() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "2001:db8:9::77/64")
        try kernel.addRoute(to: "2001:db8:bb::/48", via: "2001:db8:9::2", source: "2001:db8:9::77")
        #expect(
            try kernel.announced { try $0.removeAddress("va", "2001:db8:9::77/64") } == ["-addr 2001:db8:9::77/64 if2"])
        #expect(try kernel.get("2001:db8:bb::1") == "via 2001:db8:9::2 dev va src 2001:db8:9::1")
    }

    @Test func endOfDetectionIsAnnounced() throws {
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
    func invalidOrExistingAddressIsRefused(text: String) throws {
        var kernel = try SimulatedKernel.captured()
        let before = kernel.interfaces
        #expect(throws: SimulationError.self) { try kernel.addAddress("va", text) }
        #expect(kernel.interfaces == before)
        #expect(kernel.takeEvents().isEmpty)
    }

    @Test(arguments: ["10.9.0.2/24", "10.9.0.1/25", "nonsense"])
    func unknownAddressIsNotRemoved(text: String) throws {
        var kernel = try SimulatedKernel.captured()
        #expect(throws: SimulationError.self) { try kernel.removeAddress("va", text) }
    }

    @Test func ipv4AddressIsNeverTentative() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(throws: SimulationError.self) { try kernel.addAddress("va", "10.3.0.1/24", isTentative: true) }
    }
}

/// Duplicate address detection over time.
struct KernelDetectionTests {
    private static func detecting(_ time: Duration = .seconds(2)) throws -> SimulatedKernel {
        var kernel = SimulatedKernel()
        kernel.detectionTime = time
        try kernel.addLink("eth0")
        _ = kernel.takeEvents()
        return kernel
    }

    @Test func newAddressIsTentativeDuringDetection() throws {
        var kernel = try Self.detecting()
        #expect(
            try kernel.announced { try $0.addAddress("eth0", "2001:db8::10/64") }
                == ["route6 2001:db8::/64 if2", "addr 2001:db8::10/64 if2 tentative"])
        #expect(kernel.nextDeadline == .seconds(2))
        #expect(try kernel.announced { $0.advance(to: .milliseconds(1999)) } == [])
        #expect(try kernel.announced { $0.advance(to: .seconds(2)) } == ["addr 2001:db8::10/64 if2"])
        #expect(kernel.nextDeadline == nil && kernel.interfaces[1].addresses.allSatisfy(\.isReady))
    }

    @Test func detectionIsSkippedWhereNotNeeded() throws {
        var kernel = try Self.detecting()
        try kernel.addAddress("eth0", "192.0.2.10/24")
        try kernel.addAddress("eth0", "2001:db8::10/64", skipsDetection: true)
        #expect(kernel.nextDeadline == nil && kernel.interfaces[1].addresses.allSatisfy(\.isReady))
        var instant = try Self.detecting(.zero)
        #expect(
            try instant.announced { try $0.addAddress("eth0", "2001:db8::10/64") }
                == ["route6 2001:db8::/64 if2", "addr 2001:db8::10/64 if2"])
    }

    @Test func detectionBeginsWithReadyLink() throws {
        var kernel = try Self.detecting()
        try kernel.setCarrier("eth0", false)
        try kernel.setUp("eth0", false)
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.setUp("eth0", true)
        #expect(kernel.nextDeadline == nil)
        kernel.advance(to: .seconds(10))
        try kernel.setCarrier("eth0", true)
        #expect(kernel.nextDeadline == .seconds(12))
    }

    @Test func detectionEndsWithAddressOrLink() throws {
        var kernel = try Self.detecting()
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.removeAddress("eth0", "2001:db8::10/64")
        #expect(kernel.nextDeadline == nil)
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.setUp("eth0", false)
        #expect(kernel.nextDeadline == nil)
    }

    @Test func keptAddressIsDetectedAgain() throws {
        var kernel = try Self.detecting()
        try kernel.setSysctl("net.ipv6.conf.all.keep_addr_on_down", 1)
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.addAddress("eth0", "2001:db8::20/64", skipsDetection: true)
        kernel.advance(to: .seconds(5))
        try kernel.setUp("eth0", false)
        try kernel.setUp("eth0", true)
        #expect(kernel.interfaces[1].addresses.map(\.isReady) == [false, true])
        #expect(kernel.nextDeadline == .seconds(7))
    }

    @Test func linkLocalAddressIsAnnouncedWhenReady() throws {
        var kernel = SimulatedKernel()
        kernel.detectionTime = .seconds(2)
        try kernel.setSysctl("net.ipv6.conf.all.addr_gen_mode", 0)
        #expect(try kernel.announced { try $0.addLink("eth0") } == ["route6 fe80::/64 if2", "link eth0 up carrier up"])
        #expect(try kernel.announced { $0.advance(to: .seconds(2)) } == ["addr fe80::ff:fe00:2/64 if2"])
    }

    @Test(.timeLimit(.minutes(10))) func networkClockEndsDetections() async throws {
        var kernel = SimulatedKernel()
        kernel.detectionTime = .seconds(2)
        let network = SimulatedNetwork(kernel)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        try network.addLink("eth0")
        network.clock.advance(by: .seconds(7))
        try network.addAddress("eth0", "2001:db8::10/64")
        try network.addRoute(to: "::/0", via: "fe80::1", dev: "eth0")
        #expect(monitor.path.offlineReason == .addressTentative)
        network.clock.advance(by: .milliseconds(1999))
        #expect(monitor.path.offlineReason == .addressTentative)
        network.clock.advance(by: .milliseconds(1))
        #expect(monitor.path.isSatisfied && monitor.path.ipv6.source == IPAddress("2001:db8::10"))
        running.cancel()
        _ = await running.result
    }

    @Test func networkContinuesDetectionsOfModel() throws {
        var kernel = try Self.detecting()
        kernel.advance(to: .seconds(10))
        try kernel.addAddress("eth0", "2001:db8::10/64")
        kernel.advance(to: .seconds(11))
        let network = SimulatedNetwork(kernel)
        network.clock.advance(by: .milliseconds(999))
        #expect(network.kernel.interfaces[1].addresses.map(\.isTentative) == [true])
        network.clock.advance(by: .milliseconds(1))
        #expect(network.kernel.interfaces[1].addresses.map(\.isTentative) == [false])
        try network.addAddress("eth0", "2001:db8::20/64")
        try network.setUp("eth0", false)
        #expect(network.clock.nextDeadline == nil, "no deadline is left")
    }
}
