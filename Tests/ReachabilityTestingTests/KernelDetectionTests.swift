import Reachability
import ReachabilityTesting
import Testing

/// Duplicate address detection as it takes its time.
struct KernelDetectionTests {
    private static func detecting(_ time: Duration = .seconds(2)) throws -> SimulatedKernel {
        var kernel = SimulatedKernel()
        kernel.detectionTime = time
        try kernel.addLink("eth0")
        _ = kernel.takeEvents()
        return kernel
    }

    @Test func aNewAddressIsTentativeForItsTime() throws {
        var kernel = try Self.detecting()
        #expect(
            try kernel.announced { try $0.addAddress("eth0", "2001:db8::10/64") }
                == ["route6 2001:db8::/64 if2", "addr 2001:db8::10/64 if2 tentative"])
        #expect(kernel.nextDeadline == .seconds(2))
        #expect(try kernel.announced { $0.advance(to: .milliseconds(1999)) } == [])
        #expect(try kernel.announced { $0.advance(to: .seconds(2)) } == ["addr 2001:db8::10/64 if2"])
        #expect(kernel.nextDeadline == nil && kernel.interfaces[1].addresses.allSatisfy(\.isReady))
    }

    @Test func noDetectionOfIPv4NorWhereItIsSkipped() throws {
        var kernel = try Self.detecting()
        try kernel.addAddress("eth0", "192.0.2.10/24")
        try kernel.addAddress("eth0", "2001:db8::10/64", skipsDetection: true)
        #expect(kernel.nextDeadline == nil && kernel.interfaces[1].addresses.allSatisfy(\.isReady))
        var swift = try Self.detecting(.zero)
        #expect(
            try swift.announced { try $0.addAddress("eth0", "2001:db8::10/64") }
                == ["route6 2001:db8::/64 if2", "addr 2001:db8::10/64 if2"])
    }

    @Test func detectionBeginsWhenTheLinkWorks() throws {
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

    @Test func detectionEndsWithItsAddressAndItsLink() throws {
        var kernel = try Self.detecting()
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.removeAddress("eth0", "2001:db8::10/64")
        #expect(kernel.nextDeadline == nil)
        try kernel.addAddress("eth0", "2001:db8::10/64")
        try kernel.setUp("eth0", false)
        #expect(kernel.nextDeadline == nil)
    }

    @Test func anAddressThatOutlivedItsLinkIsDetectedAgain() throws {
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

    @Test func aLinkLocalAddressIsToldWhenItIsReady() throws {
        var kernel = SimulatedKernel()
        kernel.detectionTime = .seconds(2)
        try kernel.setSysctl("net.ipv6.conf.all.addr_gen_mode", 0)
        #expect(try kernel.announced { try $0.addLink("eth0") } == ["route6 fe80::/64 if2", "link eth0 up carrier up"])
        #expect(try kernel.announced { $0.advance(to: .seconds(2)) } == ["addr fe80::ff:fe00:2/64 if2"])
    }

    @Test(.timeLimit(.minutes(10))) func theClockOfANetworkEndsDetections() async throws {
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

    @Test func aNetworkTakesOverWhatItsModelHadBegun() throws {
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
        #expect(network.clock.nextDeadline == nil, "nothing is due any more")
    }
}
