import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// Lookups that name a source, or let the kernel select one.
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

    /// The verdict in short: `if2 via 192.0.2.1 src 192.0.2.10`, or an errno.
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

    @Test func aNamedSourceIsRepeated() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "10.9.0.1")) == "if2 via 10.9.0.2 src 10.9.0.1")
        #expect(try ask(kernel, query(any4, from: "10.8.0.1")) == "if2 via 10.9.0.2 src 10.8.0.1", "another interface's will do")
        #expect(try ask(kernel, query("10.8.0.1", from: "10.9.0.1")) == "local if1 src 10.9.0.1")
        #expect(try ask(kernel, query(any4, from: "10.9.0.1", dev: 3)) == "if3 src 10.9.0.1", "on the link, for want of a route")
        try kernel.setUp("va2", false)
        #expect(try ask(kernel, query(any4, from: "10.8.0.1")) == "if2 via 10.9.0.2 src 10.8.0.1", "an address outlives its link")
    }

    @Test func anIPv4SourceThatNoInterfaceHoldsIsRefused() throws {
        var kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "10.9.0.99")) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query("10.9.0.1", from: "10.9.0.99")) == "errno \(ENETUNREACH)", "before any table")
        #expect(try ask(kernel, query(any4, from: "10.9.0.99", dev: 2)) == "errno \(ENETUNREACH)")
        try kernel.addAddress("va", "10.9.0.99/24")
        #expect(try ask(kernel, query(any4, from: "10.9.0.99")) == "if2 via 10.9.0.2 src 10.9.0.99")
        #expect(try ask(kernel, query(any4, from: "0.0.0.0")) == "if2 via 10.9.0.2 src 10.9.0.1", "that is none")
        for source in ["224.0.0.1", "255.255.255.255", "0.0.0.7"] {
            #expect(try ask(kernel, query(any4, from: source)) == "errno \(EINVAL)")
        }
    }

    @Test func aLoopbackSourceDoesNotLeaveTheMachine() throws {
        let kernel = try SimulatedKernel.captured()
        #expect(try ask(kernel, query(any4, from: "127.0.0.9")) == "errno \(EINVAL)")
        #expect(try ask(kernel, query("10.9.0.1", from: "127.0.0.9")) == "local if1 src 127.0.0.9")
    }

    @Test func zeroIsThisHost() throws {
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

    @Test func anIPv4SelectionLooksUpTwice() throws {
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

    @Test func rulesSelectByTheNamedSource() throws {
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
        // Rules that differ in these are different ones.
        try kernel.addRule(Rule(priority: 100, .prohibit))
        #expect(throws: SimulationError.self) { try kernel.addRule(Rule(priority: 101, ports: 80...90, .blackhole)) }
        try kernel.addRule(Rule(priority: 101, ports: 80...91, .blackhole))
    }

    // MARK: - IPv6

    /// Two cables with a prefix each, and a default route for the first one's.
    private func withSourceRoute() throws -> SimulatedKernel {
        var kernel = SimulatedKernel()
        for (name, address) in [("d0", "2001:db8:1::1/64"), ("d1", "2001:db8:2::1/64")] {
            try kernel.addLink(name)
            try kernel.addAddress(name, address)
        }
        try kernel.addRoute(to: "default", dev: "d0", metric: 50, from: "2001:db8:1::/64")
        return kernel
    }

    @Test func aSourceRouteIsForItsPrefix() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query(any6)) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::77")) == "if2 src 2001:db8:1::77", "held or not")
        #expect(try ask(kernel, query(any6, from: "2001:db8:2::1")) == "errno \(ENETUNREACH)")
        #expect(try ask(kernel, query(any6, from: "::")) == "errno \(ENETUNREACH)")
    }

    @Test func theLongestSourcePrefixGoesBeforeTheMetric() throws {
        var kernel = try withSourceRoute()
        try kernel.addRoute(to: "default", via: "2001:db8:2::2", metric: 10)
        #expect(try ask(kernel, query(any6)) == "if3 via 2001:db8:2::2 src 2001:db8:2::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, from: "2001:db8:2::1")) == "if3 via 2001:db8:2::2 src 2001:db8:2::1")
        // But not before the destination's.
        try kernel.addRoute(to: "2001:db8:ffff::/48", via: "2001:db8:2::2", metric: 900)
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1")) == "if3 via 2001:db8:2::2 src 2001:db8:1::1")
    }

    @Test func aLookupWithASourceOnlyPrefersTheInterface() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query(any6, from: "2001:db8:1::1", dev: 3)) == "if2 src 2001:db8:1::1")
        #expect(try ask(kernel, query(any6, dev: 3).from(.selected)) == "errno \(ENETUNREACH)", "a socket insists on it")
        #expect(try ask(kernel, query("fe80::9", from: "2001:db8:1::1", dev: 3)) == "errno \(ENETUNREACH)")
    }

    @Test func anIPv6SelectionTriesTheBestSource() throws {
        var kernel = try withSourceRoute()
        let selected = try query(any6).from(.selected)
        // Both are equally good: the first interface's newest is chosen, and it is the one that has the route.
        #expect(ask(kernel, selected) == "if2 src 2001:db8:1::1")
        // An address that is nearer to the destination is chosen, and has none.
        try kernel.addAddress("d1", "2001:db8:fffe::1/64")
        #expect(ask(kernel, selected) == "errno \(ENETUNREACH)")
        try kernel.addRoute(to: "default", dev: "d1", from: "2001:db8:fffe::/64")
        #expect(ask(kernel, selected) == "if3 src 2001:db8:fffe::1")
        try kernel.removeRoute(to: "default", from: "2001:db8:fffe::/64")
        try kernel.removeAddress("d1", "2001:db8:fffe::1/64")
        #expect(ask(kernel, selected) == "if2 src 2001:db8:1::1")
    }

    @Test func aSelectionToNothingIsThisHost() throws {
        let kernel = try withSourceRoute()
        #expect(try ask(kernel, query("::").from(.selected)) == "local if1 src ::1")
    }

    @Test func aSourceRouteIsARouteOfItsOwn() throws {
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
