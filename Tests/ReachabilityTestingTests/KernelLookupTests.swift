import Glibc
import Reachability
import ReachabilityTesting
import Testing

struct KernelLookupTests {
    @Test(arguments: ["127.0.0.1", "127.9.9.9", "::1", "10.9.0.1", "10.8.0.1", "2001:db8:9::1"])
    func anAddressOfThisMachineIsLocal(address: String) throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get(address) == "local dev lo src \(address)")
    }

    @Test func aMatchedLocalEntryNamesTheInterfaceThatHasTheAddress() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("10.9.0.1", match: true) == "local dev va src 10.9.0.1 len 32 metric 0")
        #expect(try kernel.get("2001:db8:8::1", match: true) == "local dev va2 len 128 metric 0")
    }

    @Test func aBoundSocketFindsOnlyItsInterfacesAddressesLocal() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("10.9.0.1", dev: "va") == "local dev lo src 10.9.0.1")
        #expect(try kernel.get("10.9.0.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("127.0.0.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("10.9.0.1", dev: "lo") == "dev lo src 10.9.0.1")
        #expect(try kernel.get("2001:db8:9::1", dev: "lo") == "errno \(ENETUNREACH)")
    }

    @Test func anIPv4AddressStaysLocalWhileItsLinkIsDown() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        #expect(try kernel.get("10.9.0.1") == "local dev lo src 10.9.0.1")
        #expect(try kernel.get("10.9.0.2") == "errno \(ENETUNREACH)")
    }

    @Test func aTentativeAddressIsNotLocalYet() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "2001:db8:3::1/64", isTentative: true)
        #expect(try kernel.get("2001:db8:3::1").hasPrefix("dev va"))
        try kernel.finishDetection(of: "2001:db8:3::1", on: "va")
        #expect(try kernel.get("2001:db8:3::1").hasPrefix("local"))
    }

    @Test func theSourceIsTheAddressNearTheGateway() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "10.1.0.1/24")
        try kernel.addAddress("eth0", "10.2.0.1/24")
        try kernel.addRoute(to: "default", via: "10.2.0.254")
        try kernel.addRoute(to: "203.0.113.0/24", dev: "eth0")
        #expect(try kernel.get("198.51.100.1") == "via 10.2.0.254 dev eth0 src 10.2.0.1")
        #expect(try kernel.get("203.0.113.1") == "dev eth0 src 10.1.0.1")
        #expect(try kernel.get("10.2.0.9") == "dev eth0 src 10.2.0.1")
    }

    @Test func anIPv4LinkWithoutAddressBorrowsOneOrHasNone() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addRoute(to: "default", dev: "eth0")
        #expect(try kernel.get("198.51.100.1") == "dev eth0")
        try kernel.addLink("eth1")
        try kernel.addAddress("eth1", "10.1.0.1/24")
        #expect(try kernel.get("198.51.100.1") == "dev eth0 src 10.1.0.1")
    }

    @Test func theIPv6SourceIsLoopbacksWhileNoOtherIsReady() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src ::1")
        try kernel.finishDetection(of: "2001:db8::10", on: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func theIPv6SourceIsLinkLocalIfNothingWiderIsReady() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "fe80::10/64")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src fe80::10")
    }

    @Test func anOptimisticAddressIsASourceAlready() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true, isOptimistic: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func theIPv6SourceSuitsTheDestination() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        for address in ["fe80::10/64", "fd00::10/64", "2001:db8:1::10/64", "2001:db8:2::10/64"] {
            try kernel.addAddress("eth0", address)
        }
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        let expected = [
            "fe80::99": "fe80::10", "fd00:1::1": "fd00::10", "2001:db8:1:5::1": "2001:db8:1::10",
            "2001:db8:2:5::1": "2001:db8:2::10",
        ]
        for (destination, source) in expected {
            #expect(try kernel.get(destination).hasSuffix(" src \(source)"), "to \(destination)")
        }
    }

    @Test func aBoundSocketUsesOnlyItsInterface() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "default", via: "10.8.0.2", metric: 900)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "via 10.8.0.2 dev va2 src 10.8.0.1")
        #expect(try kernel.get("2001:db8:ffff::1", dev: "va2") == "errno \(ENETUNREACH)")
        try kernel.setUp("va2", false)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "errno \(ENETUNREACH)")
        let gone = RouteQuery(to: try #require(IPAddress("198.51.100.1")), interface: 99)
        #expect(kernel.route(to: gone) == .refused(errno: ENODEV))
    }

    @Test func aBoundIPv4SocketNeedsNoRoute() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("198.51.100.1", dev: "va2", match: true) == "errno \(EHOSTUNREACH)")
        let query = RouteQuery(to: try #require(IPAddress("198.51.100.1")), interface: 3)
        #expect(kernel.route(to: query) == .route(.init(interface: 3, source: IPAddress("10.8.0.1"), table: 0)))
        try kernel.addRoute(to: "default", metric: 1, type: .blackhole)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "dev va2 src 10.8.0.1")
    }

    @Test func theOnlineNetworkIsOnline() throws {
        let plain = SimulatedNetwork.online().kernel
        #expect(try plain.get("198.41.0.4") == "via 192.0.2.1 dev eth0 src 192.0.2.10")
        #expect(try plain.get("2801:1b8:10::b") == "errno \(ENETUNREACH)")
        let dual = SimulatedNetwork.online(hasIPv6: true).kernel
        #expect(try dual.get("198.41.0.4") == "via 192.0.2.1 dev eth0 src 192.0.2.10")
        #expect(try dual.get("2801:1b8:10::b") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func theOnlineNetworkIsTheOneThatCommandsWouldMake() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        for address in ["192.0.2.10/24", "fe80::10/64", "2001:db8::10/64"] { try kernel.addAddress("eth0", address) }
        try kernel.addRoute(to: "default", via: "192.0.2.1")
        try kernel.addRoute(to: "default", via: "fe80::1")
        let online = SimulatedNetwork.online(hasIPv6: true).kernel
        #expect(online.interfaces == kernel.interfaces)
        #expect(online.routes == kernel.routes)
    }
}
