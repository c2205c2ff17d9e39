import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// The expectations were captured on Linux 6.18.
struct KernelRuleTests {
    private typealias Rule = SimulatedKernel.Rule

    /// Makes a second table with default routes through the second cable.
    private static func withSecondTable() throws -> SimulatedKernel {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRoute(to: "default", via: "10.8.0.2", table: 77)
        try kernel.addRoute(to: "::/0", via: "2001:db8:8::2", table: 77)
        _ = kernel.takeEvents()
        return kernel
    }

    @Test func onlyRuleItselfIsAnnounced() throws {
        var kernel = try SimulatedKernel.captured()
        let routes = kernel.routes
        #expect(try kernel.announced { try $0.addRule(Rule(priority: 10, .unreachable)) } == ["rule"])
        #expect(kernel.routes == routes)
        #expect(try kernel.get("198.51.100.1") == "errno \(ENETUNREACH)")
        #expect(try kernel.get("2001:db8:ffff::1").hasPrefix("via 2001:db8:9::2"), "the rule is for IPv4")
        #expect(try kernel.get("10.9.0.1").hasPrefix("local"), "the local table comes first")
        #expect(try kernel.announced { try $0.removeRule(priority: 10) } == ["-rule"])
        #expect(try kernel.get("198.51.100.1") == "via 10.9.0.2 dev va src 10.9.0.1")
    }

    @Test(arguments: [(Rule.Action.unreachable, ENETUNREACH), (.prohibit, EACCES), (.blackhole, EINVAL)])
    func ruleRefusesWithItsErrno(action: SimulatedKernel.Rule.Action, errno: Int32) throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRule(Rule(priority: 10, action))
        try kernel.addRule(Rule(priority: 10, family: .ipv6, action))
        #expect(try kernel.get("198.51.100.1") == "errno \(errno)")
        #expect(try kernel.get("2001:db8:ffff::1") == "errno \(errno)")
        #expect(try kernel.get("198.51.100.1", dev: "va") == "dev va src 10.9.0.1", "a bound socket needs no route")
    }

    @Test func tableIsSearchedOnlyByRule() throws {
        var kernel = try Self.withSecondTable()
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"])
        try kernel.addRule(Rule(priority: 100, .lookup(table: 77)))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va"])
        try kernel.addRule(Rule(priority: 100, family: .ipv6, .lookup(table: 77)))
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va2"])
        guard case .route(let route) = kernel.route(to: RouteQuery(to: try #require(IPAddress("198.51.100.1")))) else {
            Issue.record("no route")
            return
        }
        #expect(route.table == 77)
    }

    @Test func nextRuleIsAskedAfterMissOrThrow() throws {
        var kernel = try Self.withSecondTable()
        try kernel.addRule(Rule(priority: 100, .lookup(table: 77)))
        try kernel.addRule(Rule(priority: 99, .lookup(table: 5)))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
        try kernel.addRoute(to: "198.51.100.0/24", type: .throw, table: 77)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"])
        #expect(try kernel.interfacesTo("203.0.113.1") == ["va2"])
    }

    @Test func ruleMatchesMarkUserAndDestination() throws {
        var kernel = try Self.withSecondTable()
        let prefix = IPPrefix(try #require(IPAddress("203.0.113.0")), length: 24)
        try kernel.addRule(Rule(priority: 100, mark: 7, .lookup(table: 77)))
        try kernel.addRule(Rule(priority: 101, uids: 1000...1001, .prohibit))
        try kernel.addRule(Rule(priority: 102, to: prefix, .blackhole))
        func answer(_ address: String, mark: UInt32? = nil, uid: UInt32? = nil) throws -> String {
            switch kernel.route(to: RouteQuery(to: try #require(IPAddress(address)), mark: mark, uid: uid)) {
            case .route(let route): "if\(route.interface)"
            case .refused(let errno): "errno \(errno)"
            }
        }
        #expect(try answer("198.51.100.1") == "if2")
        #expect(try answer("198.51.100.1", mark: 7) == "if3")
        #expect(try answer("198.51.100.1", mark: 8) == "if2")
        #expect(try answer("198.51.100.1", uid: 999) == "if2")
        #expect(try answer("198.51.100.1", uid: 1001) == "errno \(EACCES)")
        #expect(try answer("203.0.113.1") == "errno \(EINVAL)")
        #expect(try answer("203.0.113.1", mark: 7) == "if3")
        kernel.uid = 1000
        #expect(try answer("198.51.100.1") == "errno \(EACCES)")
    }

    /// The rules of WireGuard's programs.
    @Test func ruleMayPassOverDefaultRoutesAndInvertItsMatch() throws {
        var kernel = try Self.withSecondTable()
        var main = Rule(priority: 100, .lookup(table: 254))
        main.suppressedLength = 0
        var unmarked = Rule(priority: 101, mark: 0xca6c, .lookup(table: 77))
        unmarked.isInverted = true
        try kernel.addRule(main)
        try kernel.addRule(unmarked)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"], "not the default route of the main table")
        #expect(try kernel.interfacesTo("192.0.2.1") == ["va"], "192.0.2.0/24 is longer")
        #expect(try kernel.interfacesTo("2001:db8:ffff::1") == ["va"], "the rules are for IPv4")
        let marked = RouteQuery(to: try #require(IPAddress("198.51.100.1")), mark: 0xca6c)
        guard case .route(let route) = kernel.route(to: marked) else {
            Issue.record("no route")
            return
        }
        #expect(route.table == 254)
        // Refusals are not passed over.
        try kernel.replaceRoute(to: "default", metric: 100, type: .unreachable)
        #expect(try kernel.get("198.51.100.1") == "errno \(EHOSTUNREACH)")
        // A duplicate may differ in `not`, but not in the prefix length.
        unmarked.isInverted = false
        kernel.expectRefusals([{ [unmarked] in try $0.addRule(unmarked) }, { [main] in try $0.addRule(main) }])
        main.suppressedLength = 24
        try kernel.addRule(main)
    }

    @Test func plainLookupMatchesNoSourceRule() throws {
        var kernel = try Self.withSecondTable()
        let own = IPPrefix(try #require(IPAddress("10.9.0.1")), length: 32)
        let own6 = IPPrefix(try #require(IPAddress("2001:db8:9::1")), length: 128)
        try kernel.addRule(Rule(priority: 100, from: own, .prohibit))
        try kernel.addRule(Rule(priority: 100, family: .ipv6, from: own6, .prohibit))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va"] && kernel.interfacesTo("2001:db8:ffff::1") == ["va"])
        // IPv4 compares 0.0.0.0.
        try kernel.addRule(Rule(priority: 101, from: IPPrefix(IPAddress(family: .ipv4, value: 0), length: 1), .prohibit))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(EACCES)"])
    }

    @Test func rulesAreAskedInOrder() throws {
        var kernel = try Self.withSecondTable()
        try kernel.addRule(Rule(priority: 100, .prohibit))
        try kernel.addRule(Rule(priority: 100, .lookup(table: 77)))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(EACCES)"])
        try kernel.addRule(Rule(priority: 99, .lookup(table: 77)))
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"])
        try kernel.removeRule(priority: 99)
        try kernel.removeRule(priority: 100)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["va2"], "the first of two is removed")
    }

    @Test func lookupNeedsInitialRules() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.removeRule(priority: 32_766)
        #expect(try kernel.interfacesTo("198.51.100.1") == ["errno \(ENETUNREACH)"])
        try kernel.removeRule(priority: 0)
        #expect(try kernel.interfacesTo("10.9.0.1") == ["errno \(ENETUNREACH)"])
    }

    @Test func ruleWithoutPrefixDuplicatesRuleWithPrefix() throws {
        var kernel = try SimulatedKernel.captured()
        let prefix = IPPrefix(try #require(IPAddress("203.0.113.0")), length: 24)
        let other = IPPrefix(try #require(IPAddress("192.0.2.0")), length: 24)
        try kernel.addRule(Rule(priority: 10, to: prefix, .prohibit))
        #expect(throws: SimulationError.self) { try kernel.addRule(Rule(priority: 10, .prohibit)) }
        try kernel.addRule(Rule(priority: 10, to: other, .prohibit))
        try kernel.addRule(Rule(priority: 10, from: other, to: prefix, .prohibit))
        try kernel.addRule(Rule(priority: 10, mark: 7, .prohibit))
        try kernel.addRule(Rule(priority: 10, .blackhole))
        try kernel.addRule(Rule(priority: 11, .prohibit))
    }

    @Test func impossibleRuleIsRefused() throws {
        var kernel = try SimulatedKernel.captured()
        try kernel.addRule(Rule(priority: 10, .prohibit))
        let prefix = IPPrefix(try #require(IPAddress("2001:db8::")), length: 32)
        kernel.expectRefusals([
            { try $0.addRule(Rule(priority: 10, .prohibit)) },
            { try $0.addRule(Rule(priority: 11, to: prefix, .prohibit)) },
            { try $0.removeRule(priority: 11) },
            { try $0.removeRule(priority: 10, family: .ipv6) },
        ])
    }
}
