import Glibc
import Reachability
import ReachabilityTesting
import Testing

struct KernelLookupTests {
    @Test(arguments: ["127.0.0.1", "127.9.9.9", "::1", "10.9.0.1", "10.8.0.1", "2001:db8:9::1"])
    func addressOfThisMachineIsLocal(address: String) throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get(address) == "local dev lo src \(address)")
    }

    @Test func matchedLocalEntryNamesInterfaceOfAddress() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("10.9.0.1", match: true) == "local dev va src 10.9.0.1 len 32 metric 0")
        #expect(try kernel.get("2001:db8:8::1", match: true) == "local dev va2 len 128 metric 0")
    }

    @Test func boundSocketSeesOnlyOwnAddressesAsLocal() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("10.9.0.1", dev: "va") == "local dev lo src 10.9.0.1")
        #expect(try kernel.get("10.9.0.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("127.0.0.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("10.9.0.1", dev: "lo") == "dev lo src 10.9.0.1")
        #expect(try kernel.get("2001:db8:9::1", dev: "lo") == "errno \(ENETUNREACH)")
    }

    @Test func ipv4AddressOfDownLinkStaysLocal() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.setUp("va", false)
        #expect(try kernel.get("10.9.0.1") == "local dev lo src 10.9.0.1")
        #expect(try kernel.get("10.9.0.2") == "errno \(ENETUNREACH)")
    }

    @Test func tentativeAddressIsNotLocalYet() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addAddress("va", "2001:db8:3::1/64", isTentative: true)
        #expect(try kernel.get("2001:db8:3::1").hasPrefix("dev va"))
        try kernel.finishDetection(of: "2001:db8:3::1", on: "va")
        #expect(try kernel.get("2001:db8:3::1").hasPrefix("local"))
    }

    @Test func sourceIsAddressNearGateway() throws {
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

    @Test func linkWithoutIPv4AddressBorrowsSource() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addRoute(to: "default", dev: "eth0")
        #expect(try kernel.get("198.51.100.1") == "dev eth0")
        try kernel.addLink("eth1")
        try kernel.addAddress("eth1", "10.1.0.1/24")
        #expect(try kernel.get("198.51.100.1") == "dev eth0 src 10.1.0.1")
    }

    @Test func ipv6SourceFallsBackToLoopback() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src ::1")
        try kernel.finishDetection(of: "2001:db8::10", on: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func ipv6SourceFallsBackToLinkLocal() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "fe80::10/64")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src fe80::10")
    }

    @Test func optimisticAddressIsSource() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("eth0")
        try kernel.addAddress("eth0", "2001:db8::10/64", isTentative: true, isOptimistic: true)
        try kernel.addRoute(to: "default", via: "fe80::1", dev: "eth0")
        #expect(try kernel.get("2001:db8:ffff::1") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func ipv6SourceSuitsDestination() throws {
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

    @Test func boundSocketUsesOnlyItsInterface() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "default", via: "10.8.0.2", metric: 900)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "via 10.8.0.2 dev va2 src 10.8.0.1")
        #expect(try kernel.get("2001:db8:ffff::1", dev: "va2") == "errno \(ENETUNREACH)")
        try kernel.setUp("va2", false)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "errno \(ENETUNREACH)")
        let gone = RouteQuery(to: try #require(IPAddress("198.51.100.1")), interface: 99)
        #expect(kernel.route(to: gone) == .refused(errno: ENODEV))
    }

    @Test func boundIPv4SocketNeedsNoRoute() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "dev va2 src 10.8.0.1")
        #expect(try kernel.get("198.51.100.1", dev: "va2", match: true) == "errno \(EHOSTUNREACH)")
        let query = RouteQuery(to: try #require(IPAddress("198.51.100.1")), interface: 3)
        #expect(kernel.route(to: query) == .route(.init(interface: 3, source: IPAddress("10.8.0.1"), table: 0)))
        try kernel.addRoute(to: "default", metric: 1, type: .blackhole)
        #expect(try kernel.get("198.51.100.1", dev: "va2") == "dev va2 src 10.8.0.1")
    }

    @Test func onlineNetworkIsOnline() throws {
        let plain = SimulatedNetwork.online().kernel
        #expect(try plain.get("198.41.0.4") == "via 192.0.2.1 dev eth0 src 192.0.2.10")
        #expect(try plain.get("2801:1b8:10::b") == "errno \(ENETUNREACH)")
        let dual = SimulatedNetwork.online(hasIPv6: true).kernel
        #expect(try dual.get("198.41.0.4") == "via 192.0.2.1 dev eth0 src 192.0.2.10")
        #expect(try dual.get("2801:1b8:10::b") == "via fe80::1 dev eth0 src 2001:db8::10")
    }

    @Test func onlineNetworkEqualsOneMadeByCommands() throws {
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

/// Lookups with a named or a selected source.
///
/// The expectations were captured on Linux 6.18.
struct KernelSourceTests {
    private typealias Rule = SimulatedKernel.Rule

    private func query(
        _ destination: String, from source: String? = nil, dev interface: UInt32? = nil, transport: Scope.Transport = .tcp,
        port: UInt16? = nil
    ) throws -> RouteQuery {
        RouteQuery(
            to: try #require(IPAddress(destination)), interface: interface,
            source: try source.map { .address(try #require(IPAddress($0))) } ?? .unspecified, transport: transport, port: port)
    }

    /// Returns the verdict as `if2 via 192.0.2.1 src 192.0.2.10`, or the errno.
    private func text(_ verdict: RouteVerdict) -> String {
        switch verdict {
        case .refused(let errno): "errno \(errno)"
        case .route(let route):
            (route.isLocal ? "local " : "") + "if\(route.interface)" + (route.gateway.map { " via \($0)" } ?? "")
                + (route.source.map { " src \($0)" } ?? "")
        }
    }

    private func ask(_ kernel: SimulatedKernel, _ query: RouteQuery) -> String { text(kernel.route(to: query)) }

    private let any4 = "198.51.100.1"
    private let any6 = "2001:db8:ffff::1"

    // MARK: - IPv4

    @Test func routeHasNamedSource() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "10.9.0.1")) == "if2 via 10.9.0.2 src 10.9.0.1")
        #expect(
            try ask(kernel, query(any4, from: "10.8.0.1")) == "if2 via 10.9.0.2 src 10.8.0.1",
            "another interface's address is accepted")
        #expect(try ask(kernel, query("10.8.0.1", from: "10.9.0.1")) == "local if1 src 10.9.0.1")
        #expect(try ask(kernel, query(any4, from: "10.9.0.1", dev: 3)) == "if3 src 10.9.0.1", "on the link, without a route")
        try kernel.setUp("va2", false)
        #expect(
            try ask(kernel, query(any4, from: "10.8.0.1")) == "if2 via 10.9.0.2 src 10.8.0.1",
            "the address of a down link is accepted")
    }

    @Test func foreignIPv4SourceIsRefused() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "10.9.0.99")) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query("10.9.0.1", from: "10.9.0.99")) == "errno \(ENETUNREACH)", "before any table")
        #expect(try ask(kernel, query(any4, from: "10.9.0.99", dev: 2)) == "errno \(ENETUNREACH)")
        try kernel.addAddress("va", "10.9.0.99/24")
        #expect(try ask(kernel, query(any4, from: "10.9.0.99")) == "if2 via 10.9.0.2 src 10.9.0.99")
        #expect(try ask(kernel, query(any4, from: "0.0.0.0")) == "if2 via 10.9.0.2 src 10.9.0.1", "0.0.0.0 is no source")
        for source in ["224.0.0.1", "255.255.255.255", "0.0.0.7"] {
            #expect(try ask(kernel, query(any4, from: source)) == "errno \(EINVAL)")
        }
    }

    @Test func loopbackSourceStaysOnMachine() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "127.0.0.9")) == "errno \(EINVAL)")
        #expect(try ask(kernel, query("10.9.0.1", from: "127.0.0.9")) == "local if1 src 127.0.0.9")
    }

    @Test func unspecifiedAddressIsThisHost() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query("0.0.0.0")) == "local if1 src 127.0.0.1")
        #expect(try ask(kernel, query("0.0.0.0", from: "10.9.0.1")) == "local if1 src 10.9.0.1")
        #expect(try ask(kernel, query("0.0.0.0", dev: 3)) == "local if1 src 10.8.0.1")
        var match = try query("0.0.0.0")
        match.fibMatch = true
        #expect(ask(kernel, match) == "errno \(EHOSTUNREACH)")
        #expect(try ask(kernel, query("0.0.0.0", dev: 99)) == "errno \(ENODEV)")
        #expect(try ask(kernel, query("0.0.0.0").from(.selected)) == "local if1 src 127.0.0.1")
    }

    @Test func ipv4SelectionLooksUpTwice() throws {
        var kernel = try SimulatedKernel.captured()
        let selected = try query(any4).from(.selected)
        #expect(ask(kernel, selected) == "if2 via 10.9.0.2 src 10.9.0.1")
        let own = IPPrefix(try #require(IPAddress("10.9.0.1")), length: 32)
        try kernel.addRoute(to: "default", via: "10.8.0.2", table: 77)
        try kernel.addRule(Rule(priority: 100, from: own, .lookup(table: 77)))
        #expect(try ask(kernel, query(any4)) == "if2 via 10.9.0.2 src 10.9.0.1")
        #expect(ask(kernel, selected) == "if3 via 10.8.0.2 src 10.9.0.1")
        try kernel.addRule(Rule(priority: 99, from: own, .prohibit))
        #expect(ask(kernel, selected) == "errno \(EACCES)")
        try kernel.removeRoute(to: "default")
        #expect(ask(kernel, selected) == "errno \(ENETUNREACH)", "the first lookup refused")
    }

    // MARK: - Rules

    @Test func rulesSelectByNamedSource() throws {
        var kernel = try SimulatedKernel.captured()
        let block = IPPrefix(try #require(IPAddress("10.9.0.0")), length: 24)
        let block6 = IPPrefix(try #require(IPAddress("2001:db8:9::")), length: 64)
        try kernel.addRule(Rule(priority: 100, from: block, .prohibit))
        try kernel.addRule(Rule(priority: 100, family: .ipv6, from: block6, .prohibit))
        #expect(try ask(kernel, query(any4, from: "10.9.0.1")) == "errno \(EACCES)")
        #expect(try ask(kernel, query(any4, from: "10.8.0.1")) == "if2 via 10.9.0.2 src 10.8.0.1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:9::1")) == "errno \(EACCES)")
        #expect(try ask(kernel, query(any6)).hasPrefix("if2") && ask(kernel, query(any6, from: "2001:db8:8::1")).hasPrefix("if2"))
        // connect(2) keeps an IPv6 route that it found without a source.
        #expect(try ask(kernel, query(any6).from(.selected)).hasPrefix("if2"))
    }

    @Test func rulesSelectByTransportAndPort() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRule(Rule(priority: 100, transport: .udp, .prohibit))
        try kernel.addRule(Rule(priority: 101, ports: 80...90, .blackhole))
        try kernel.addRule(Rule(priority: 102, family: .ipv6, transport: .tcp, ports: 53...53, .prohibit))
        #expect(try ask(kernel, query(any4)).hasPrefix("if2") && ask(kernel, query(any4, port: 91)).hasPrefix("if2"))
        #expect(try ask(kernel, query(any4, transport: .udp)) == "errno \(EACCES)")
        for port: UInt16 in [80, 85, 90] { #expect(try ask(kernel, query(any4, port: port)) == "errno \(EINVAL)") }
        #expect(try ask(kernel, query(any4, port: 79)).hasPrefix("if2"))
        #expect(try ask(kernel, query(any6, port: 53)) == "errno \(EACCES)")
        #expect(try ask(kernel, query(any6, transport: .udp, port: 53)).hasPrefix("if2"))
        // Rules with different protocols or ports are different rules.
        try kernel.addRule(Rule(priority: 100, .prohibit))
        #expect(throws: SimulationError.self) { try kernel.addRule(Rule(priority: 101, ports: 80...90, .blackhole)) }
        try kernel.addRule(Rule(priority: 101, ports: 80...91, .blackhole))
    }

    // MARK: - IPv6

    /// Makes two cables with a prefix each, and a default route for the first prefix.
    private func withSourceRoute() throws -> SimulatedKernel {
        var kernel = SimulatedKernel()
        for (name, address) in [("d0", "2001:db8:1::1/64"), ("d1", "2001:db8:2::1/64")] {
            try kernel.addLink(name)
            try kernel.addAddress(name, address)
        }
        try kernel.addRoute(to: "default", dev: "d0", metric: 50, from: "2001:db8:1::/64")
        return kernel
    }

    @Test func sourceRouteServesItsPrefix() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query(any6)) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::77")) == "if2 src 2001:db8:1::77", "even if no interface holds it")
        #expect(try ask(kernel, query(any6, from: "2001:db8:2::1")) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query(any6, from: "::")) == "errno \(ENETUNREACH)")
    }

    @Test func longestSourcePrefixBeatsMetric() throws {
        var kernel = try withSourceRoute()
        try kernel.addRoute(to: "default", via: "2001:db8:2::2", metric: 10)
        #expect(try ask(kernel, query(any6)) == "if3 via 2001:db8:2::2 src 2001:db8:2::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:2::1")) == "if3 via 2001:db8:2::2 src 2001:db8:2::1")
        // The destination prefix comes first.
        try kernel.addRoute(to: "2001:db8:ffff::/48", via: "2001:db8:2::2", metric: 900)
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if3 via 2001:db8:2::2 src 2001:db8:1::1")
    }

    @Test func lookupWithSourceOnlyPrefersInterface() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1", dev: 3)) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, dev: 3).from(.selected)) == "errno \(ENETUNREACH)", "a socket requires its interface")
        #expect(try ask(kernel, query("fe80::9", from: "2001:db8:1::1", dev: 3)) == "errno \(ENETUNREACH)")
    }

    @Test func ipv6SelectionTriesBestSource() throws {
        var kernel = try withSourceRoute()
        let selected = try query(any6).from(.selected)
        // Both rank equally: the first interface's newest address is chosen, and it has the route.
        #expect(ask(kernel, selected) == "if2 src 2001:db8:1::1")
        // An address closer to the destination is chosen, and has no route.
        try kernel.addAddress("d1", "2001:db8:fffe::1/64")
        #expect(ask(kernel, selected) == "errno \(ENETUNREACH)")
        try kernel.addRoute(to: "default", dev: "d1", from: "2001:db8:fffe::/64")
        #expect(ask(kernel, selected) == "if3 src 2001:db8:fffe::1")
        try kernel.removeRoute(to: "default", from: "2001:db8:fffe::/64")
        try kernel.removeAddress("d1", "2001:db8:fffe::1/64")
        #expect(ask(kernel, selected) == "if2 src 2001:db8:1::1")
    }

    @Test func selectionForUnspecifiedAddressIsThisHost() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query("::").from(.selected)) == "local if1 src ::1")
    }

    @Test func sourcePrefixIsPartOfRouteKey() throws {
        var kernel = try withSourceRoute()
        let before = kernel.routes.count
        try kernel.addRoute(to: "default", dev: "d0", metric: 50, from: "2001:db8:2::/64")
        #expect(throws: SimulationError.self) { try kernel.addRoute(to: "::/0", dev: "d1", metric: 50, from: "2001:db8:2::/64") }
        try kernel.addRoute(to: "::/0", dev: "d0", metric: 50, from: "::/0")
        #expect(kernel.routes.count == before + 2 && kernel.routes.last?.sourcePrefix == nil)
        try kernel.removeRoute(to: "::/0")
        #expect(throws: SimulationError.self) { try kernel.removeRoute(to: "::/0") }
        try kernel.replaceRoute(to: "default", dev: "d1", metric: 50, from: "2001:db8:2::/64")
        #expect(try ask(kernel, query(any6, from: "2001:db8:2::1")) == "if3 src 2001:db8:2::1")
        try kernel.removeRoute(to: "default", from: "2001:db8:1::/64")
        try kernel.removeRoute(to: "default", from: "2001:db8:2::/64")
        #expect(!kernel.routes.contains { !$0.isConnected })
        for (destination, sources) in [("0.0.0.0/0", "10.0.0.0/8"), ("default", "10.0.0.0/8"), ("192.0.2.0/24", "2001:db8::/32")] {
            #expect(throws: SimulationError.self) { try kernel.addRoute(to: destination, dev: "d0", from: sources) }
        }
    }

    @Test func tunnelsArePointToPoint() throws {
        var kernel = SimulatedKernel()
        try kernel.addLink("tun0", kind: .tunnel)
        try kernel.addLink("tap0", kind: .tunnel, isPointToPoint: false)
        try kernel.addLink("eth0")
        #expect(kernel.interfaces.map(\.isPointToPoint) == [false, true, false, false])
    }
}
