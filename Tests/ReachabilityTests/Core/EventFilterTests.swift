import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@Suite(.computing) struct EventFilterTests {
    private static let destinations: Set<IPAddress> = [
        ip("198.41.0.4"), ip("1.1.1.1"), ip("10.200.3.4"), ip("2001:503:ba3e::2:30"), ip("2801:1b8:10::b"),
    ]
    private let filter = EventFilter(watching: destinations)

    @Test(arguments: [
        "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "10.200.3.4/32", "10.200.3.4/31", "10.200.0.0/16", "10.192.0.0/10", "1.0.0.0/8",
        "0.0.0.0/2", "::/0", "::/1", "8000::/1", "2000::/3", "2001:503:ba3e::2:30/128", "2001:503:ba3e::/64", "2001:500::/30",
        "2001:503:ba3e::/96", "2001:503:ba3e::/97", "2801:1b8:10::b/128", "2801:1b8:10::a/127", "2001:503:ba3e::/48",
    ])
    func decidingRoutePasses(route: String) {
        for type in [24, 25] as [UInt16] {
            for flags in [0, 0x100, 0x600] as [UInt16] {
                #expect(filter.passes(RouteFrame.make(route, type: type, flags: flags)))
            }
        }
    }

    @Test(arguments: [
        "10.0.0.0/16", "10.200.3.5/32", "10.200.3.6/31", "64.0.0.0/2", "203.0.113.0/24", "192.0.2.0/24", "224.0.0.0/4",
        "2001:db8::/32", "2001:503:ba3e::2:31/128", "2001:503:ba3f::/48", "2001:503:ba3e::3:0/112", "fe80::/64", "ff00::/8",
    ])
    func unrelatedRouteIsDroppedOutsideDumps(route: String) {
        for type in [24, 25] as [UInt16] {
            #expect(!filter.passes(RouteFrame.make(route, type: type)))
            #expect(!filter.passes(RouteFrame.make(route, type: type, flags: 0x100)))
            #expect(filter.passes(RouteFrame.make(route, type: type, flags: 2)))
        }
    }

    @Test(arguments: ["0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "::/0", "::/1", "8000::/1"])
    func defaultRoutesAndHalvesPass(route: String) {
        #expect(EventFilter(watching: []).passes(RouteFrame.make(route)))
        #expect(filter.passes(RouteFrame.make(route, type: 25, flags: 0x100)))
    }

    @Test func onlyRoutesAreDropped() {
        let nothing = EventFilter(watching: [])
        for type in (0...120) as ClosedRange<UInt16> where ![24, 25, 28, 29].contains(type) {
            #expect(nothing.passes(RouteFrame.make("203.0.113.0/24", type: type)))
        }
        let route = RouteFrame.make("203.0.113.0/24")
        #expect(!nothing.passes(route))
        // The decoder judges all other messages.
        for family in [0, 5, 7, 28, 128] as [UInt8] { #expect(nothing.passes(RouteFrame.make(family: family, length: 24))) }
        #expect(nothing.passes(RouteFrame.make(family: 2, length: 33, [(1, [203, 0, 113, 0])])))
        #expect(nothing.passes(RouteFrame.make(family: 2, length: 24, [(1, [203, 0, 113])])))
        #expect(nothing.passes(RouteFrame.make(family: 2, length: 24)))
        for cut in 0..<28 { #expect(nothing.passes(Array(route[..<cut]))) }
    }

    @Test func routesPassBeyondAddressLimit() {
        let full = (0..<UInt8(EventFilter.addressLimit)).compactMap { IPAddress(bytes: [10, 0, 0, $0]) }
        let (ipv4, ipv6) = (RouteFrame.make("203.0.113.0/24"), RouteFrame.make("2001:db8::/32"))
        #expect(!EventFilter(watching: Set(full)).passes(ipv4))
        let wide = EventFilter(watching: Set(full + [ip("10.0.1.0")]))
        #expect(wide.passes(ipv4) && !wide.passes(ipv6))
    }

    /// Only that a gateway in use fails or answers matters, not that its entry ages.
    @Test func onlyGatewaysInUseMatter() {
        let filter = EventFilter(watching: [], gateways: [ip("192.0.2.1"), ip("fe80::1")])
        func frame(_ address: String, state: UInt16, type: UInt16 = 28) -> [UInt8] {
            RouteFrame.neighbour(ip(address), state: state, type: type)
        }
        for gateway in ["192.0.2.1", "fe80::1"] {
            #expect(filter.passes(frame(gateway, state: 0x20)) && filter.passes(frame(gateway, state: 0x02)))
            for state in [0, 0x01, 0x04, 0x08, 0x10, 0x40, 0x80] as [UInt16] {
                #expect(!filter.passes(frame(gateway, state: state)))
            }
            #expect(!filter.passes(frame(gateway, state: 0x20, type: 29)))
        }
        for other in ["192.0.2.2", "fe80::2", "0.0.0.0"] { #expect(!filter.passes(frame(other, state: 0x20))) }
        #expect(!EventFilter(watching: []).passes(frame("192.0.2.1", state: 0x20)))
    }

    @Test func kernelMatchesModelForNeighbours() throws {
        var generator = SeededGenerator(seed: .random(in: 0...(.max)))
        let known = ["192.0.2.1", "192.0.2.2", "198.51.100.1", "fe80::1", "fe80::2", "2001:db8::1"].map(ip)
        let filter = EventFilter(watching: Set(known.prefix(2)), gateways: Set(known[1...4]))
        let pair = try FilteredPair(filter)
        var passed = 0
        for _ in 0..<4_000 {
            let states: [UInt16] = [0x02, 0x20, 0x02, 0x20, .random(in: 0...0x80, using: &generator)]
            var frame = RouteFrame.neighbour(
                known.randomElement(using: &generator) ?? known[0], state: states.randomElement(using: &generator) ?? 0,
                type: Int.random(in: 0..<9, using: &generator) == 0 ? 29 : 28)
            if Int.random(in: 0..<9, using: &generator) == 0 { frame[16...].shuffle(using: &generator) }
            let isExpected = filter.passes(frame)
            let passes = try pair.passes(frame)
            try #require(passes == isExpected, "\(generator.seed): \(frame)")
            if passes { passed += 1 }
        }
        #expect((400...3_600).contains(passed), "\(generator.seed): \(passed)")
    }

    /// 64 addresses are the limit of both families, 65 exceed one of them.
    @Test(arguments: [0, 1, 2, 10, 64, 65])
    func kernelMatchesModel(count: Int) throws {
        var generator = SeededGenerator(seed: .random(in: 0...(.max)))
        let watched = (0..<count).compactMap { index in
            IPAddress(bytes: (0..<(index % 2 == 0 ? 4 : 16)).map { _ in UInt8.random(in: 0...255, using: &generator) })
        }
        let filter = EventFilter(watching: Set(watched))
        let pair = try FilteredPair(filter)
        var passed = 0
        for _ in 0..<10_000 {
            let frame = RouteFrame.random(near: watched, using: &generator)
            let isExpected = filter.passes(frame)
            let passes = try pair.passes(frame)
            try #require(passes == isExpected, "\(generator.seed), \(count): \(frame)")
            if passes { passed += 1 }
        }
        // Both sides of the rule were seen.
        #expect((500...9_500).contains(passed), "\(generator.seed): \(passed)")
    }
}
