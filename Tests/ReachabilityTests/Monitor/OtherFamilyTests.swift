import Reachability
import ReachabilityTesting
import Testing

/// The family that does not work beside one that does: its reason is no news, and current all the same.
@Suite(.timeLimit(.minutes(10))) struct OtherFamilyTests {
    /// The changes over IPv6; one that is impossible at the time is skipped.
    private static let changes: [@Sendable (SimulatedNetwork) throws -> Void] = [
        { try $0.addAddress("eth0", "2001:db8::10/64", skipsDetection: true) },
        { try $0.addAddress("eth0", "2001:db8::10/64", isTentative: true) },
        { try $0.finishDetection(of: "2001:db8::10", on: "eth0") },
        { try $0.finishDetection(of: "2001:db8::10", on: "eth0", hasFailed: true) },
        { try $0.removeAddress("eth0", "2001:db8::10/64") },
        { try $0.addAddress("eth1", "2001:db8:1::10/64", skipsDetection: true) },
        { try $0.removeAddress("eth1", "2001:db8:1::10/64") },
        { try $0.addRoute(to: "::/0", type: .unreachable) },
        { try $0.addRoute(to: "::/0", type: .prohibit) },
        { try $0.addRoute(to: "::/1", type: .blackhole) },
        { try $0.addRoute(to: "8000::/1", via: "2001:db8:1::1", dev: "eth1") },
        { try $0.addRoute(to: "::/0", via: "2001:db8::1", dev: "eth0", from: "2001:db8::/64") },
        { try $0.removeRoute(to: "::/0") },
        { try $0.removeRoute(to: "::/1") },
        { try $0.removeRoute(to: "8000::/1") },
        { try $0.removeRoute(to: "::/0", from: "2001:db8::/64") },
        { try $0.addRule(.init(priority: 100, family: .ipv6, .prohibit)) },
        { try $0.addRule(.init(priority: 101, family: .ipv6, .blackhole)) },
        { try $0.removeRule(priority: 100, family: .ipv6) },
        { try $0.removeRule(priority: 101, family: .ipv6) },
        { try $0.pull("eth1") }, { try $0.plug("eth1") }, { try $0.setUp("eth1", false) }, { try $0.setUp("eth1", true) },
        { try $0.setOperationalState("eth1", .dormant) },
        { try $0.setSysctl("net.ipv6.conf.eth0.disable_ipv6", 1) }, { try $0.setSysctl("net.ipv6.conf.eth0.disable_ipv6", 0) },
        { try $0.setSysctl("net.ipv6.conf.eth1.disable_ipv6", 1) }, { try $0.setSysctl("net.ipv6.conf.eth1.disable_ipv6", 0) },
    ]

    @Test(arguments: 1...20 as ClosedRange<UInt64>) func reasonIsCurrentAtOnce(seed: UInt64) async throws {
        try await withMonitor { monitor, network, clock in
            var generator = SeededGenerator(seed: seed)
            try network.addLink("eth1")
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var reasons: Set<OfflineReason> = []
            for step in 0..<200 {
                let change = Int.random(in: 0..<Self.changes.count, using: &generator)
                try? Self.changes[change](network)
                let current = try monitor.path(to: .internet)
                #expect(monitor.path == current, "\(generator), step \(step), change \(change)")
                if let reason = current.ipv6.reason { reasons.insert(reason) }
                // A subscription begins with it, too.
                let baseline = try await Listener(monitor.transitions(to: .internet, raw: true)).baseline
                #expect(baseline.current == current, "\(generator), step \(step), change \(change)")
            }
            #expect(reasons.count > 1)
            clock.advance(by: .seconds(1))
            try network.replaceRoute(to: "default", via: "192.0.2.2", dev: "eth0")
            var last = try await raw.next()
            while last.cause.detail != "route default via 192.0.2.2 dev eth0 was set" { last = try await raw.next() }
            #expect(last.current == monitor.path && last.previous?.ipv6 == last.current.ipv6)
        }
    }

    @Test func nextLineOfEachStreamHasTheCurrentReason() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            var damped = try await Listener(monitor.transitions)
            #expect(damped.baseline.current.ipv6.reason == .noAddress)
            try network.addAddress("eth0", "2001:db8::10/64", skipsDetection: true)
            #expect(monitor.path.ipv6.reason == .noRoute)
            try network.addRoute(to: "::/0", type: .unreachable)
            #expect(monitor.path.ipv6.reason == .unreachable)
            // A change that is held, and the reason changes meanwhile.
            for gateway in ["192.0.2.2", "192.0.2.3"] {
                try network.replaceRoute(to: "default", via: gateway, dev: "eth0")
            }
            try network.removeRoute(to: "::/0")
            clock.advance(by: .seconds(1))
            for expected in [OfflineReason.unreachable, .unreachable] {
                let line = try await raw.next()
                #expect(line.current.ipv6.reason == expected && line.previous?.ipv6.reason == expected)
            }
            let first = try await damped.next()
            #expect(first.current.ipv6.reason == .unreachable && first.previous?.ipv6.reason == .unreachable)
            let second = try await damped.next()
            #expect(second.current.ipv6.reason == .noRoute && second.kinds == .gatewayChanged)
        }
    }
}
