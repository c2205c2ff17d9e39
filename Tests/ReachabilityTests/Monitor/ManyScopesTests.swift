import Reachability
import ReachabilityTesting
import Testing

/// The number of lookups with many watched addresses.
@Suite(.timeLimit(.minutes(10))) struct ManyScopesTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let monitor: ReachabilityMonitor

    init() {
        network = .online(clock: clock)
        monitor = ReachabilityMonitor(network)
    }

    private func watching(_ addresses: [IPAddress], _ body: ([Condition]) async throws -> Void) async throws {
        let conditions = addresses.map { monitor.condition(for: .address($0)) }
        let running = Task { try? await monitor.run() }
        try await network.untilRunning()
        clock.advance(by: .milliseconds(100))
        try await body(conditions)
        running.cancel()
        await running.value
    }

    private static let thousand = (1...1000).map { IPAddress(family: .ipv4, value: 0xcb00_0000 + $0) }

    /// Returns the number of lookups during the body.
    private func lookups(_ body: () throws -> Void) rethrows -> Int {
        let before = network.lookups
        try body()
        return network.lookups - before
    }

    @Test func hostRouteLooksUpOneOfAThousandScopes() async throws {
        try await watching(Self.thousand) { conditions in
            #expect(conditions.allSatisfy { $0.state.isSatisfied })
            let one = try lookups { try network.addRoute(to: "\(Self.thousand[499])/32", type: .unreachable) }
            // Without a source and, in the same request, with the one that is expected.
            #expect(one == 2)
            #expect(conditions.filter { !$0.state.isSatisfied }.count == 1 && !conditions[499].state.isSatisfied)
            let hundreds = try lookups { try network.addRoute(to: "203.0.1.0/24", type: .unreachable) }
            #expect(hundreds == 256 && conditions.filter { !$0.state.isSatisfied }.count == 256)
            let none = try lookups { try network.addRoute(to: "198.18.0.0/15", type: .unreachable) }
            #expect(none == 0)
        }
    }

    @Test func largeBatchIsEvaluatedOnce() async throws {
        try await watching(Self.thousand) { _ in
            let asked = try lookups {
                try network.batch { kernel throws(SimulationError) in
                    for metric in 100..<300 { try kernel.addRoute(to: "default", via: "192.0.2.1", metric: UInt32(metric)) }
                }
            }
            // A thousand addresses and the internet's two of that family, each with its source again.
            #expect(asked == 2004)
        }
    }

    @Test func addressConcernsItsFamily() async throws {
        try await watching([ip("203.0.113.7"), ip("2001:db8:1::7")]) { _ in
            let address = NetworkInterface.Address(ip("192.0.2.99"), prefixLength: 24)
            let first = lookups { network.announce(.address(address, interface: 2)) }
            #expect(first == 6, "the internet's two of that family, and one, each with its source again")
            // Its change may follow it: two more lookups of the same address.
            let again = lookups { clock.advance(by: .milliseconds(60)) }
            #expect(again == 12)
            let later = lookups { clock.advance(by: .seconds(1)) }
            #expect(later == 0)
        }
    }

    @Test func linkConcernsAllScopes() async throws {
        try await watching(Self.thousand) { conditions in
            try network.pull("eth0")
            #expect(conditions.allSatisfy { !$0.state.isSatisfied })
            try network.plug("eth0")
            #expect(conditions.allSatisfy { $0.state.isSatisfied && $0.state.epoch == 2 })
        }
    }

    @Test func newScopeIsLookedUpAlone() async throws {
        try await watching(Self.thousand) { _ in
            let before = network.lookups
            let condition = monitor.condition(for: .address(ip("192.0.2.77")))
            // The route, the same with its source, and its entry in the table.
            #expect(network.lookups - before == 3 && condition.state.isSatisfied)
        }
    }
}
