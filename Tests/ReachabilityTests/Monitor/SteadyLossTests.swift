import Reachability
import ReachabilityTesting
import Testing

/// A flood that does not end: events are lost again and again.
@Suite(.timeLimit(.minutes(10))) struct SteadyLossTests {
    @Test func repeatedLossesSlowDumps() async throws {
        try await withMonitor(quiet) { monitor, network, clock in
            let (dumps, resyncs) = (network.dumps, monitor.health.resyncs)
            for _ in 0..<10_000 {
                network.loseEvents { _ in }
                clock.advance(by: .milliseconds(1))
            }
            #expect(monitor.health.losses == 10_000)
            // At 0, 50, 150, 350, 750, 1550, 3150, 6350 ms.
            #expect(network.dumps - dumps == 8 && monitor.health.resyncs - resyncs == 8)
            #expect(monitor.health.mode == .resyncing)
            clock.advance(by: .seconds(10))
            #expect(network.dumps - dumps == 9 && monitor.health.mode == .live)
            network.loseEvents { _ in }
            #expect(network.dumps - dumps == 10)
        }
    }

    @Test func dumpConfirmsChangesThatLookupsFind() async throws {
        try await withMonitor(quiet) { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            for _ in 0..<3 { network.loseEvents { _ in } }
            let dumps = network.dumps
            try network.loseEvents { try $0.removeRoute(to: "default") }
            #expect(!monitor.path.isSatisfied && network.dumps == dumps + 1)
            #expect(try await raw.next().kinds == [.offline, .resynced])
        }
    }

    @Test func changeIsJudgedByFreshLinks() async throws {
        try await withMonitor(quiet) { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            for _ in 0..<3 { network.loseEvents { _ in } }
            // By the old table the new route leads to an interface that does not exist.
            try network.loseEvents { kernel in
                try kernel.removeLink("eth0")
                try kernel.addLink("eth1")
                try kernel.addAddress("eth1", "198.51.100.10/24")
                try kernel.addRoute(to: "default", via: "198.51.100.1", dev: "eth1")
            }
            #expect(monitor.path.isSatisfied && monitor.path.interface?.name == "eth1")
            let change = try await raw.next()
            #expect(change.kinds.isSuperset(of: [.interfaceChanged, .resynced]) && !change.kinds.contains(.offline))
        }
    }

    /// The next dump may be far away, and lookups still succeed without a carrier: the link in use is read again by itself.
    @Test func linkInUseIsReadAgainBeforeTheNextDump() async throws {
        try await withMonitor(quiet) { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            for _ in 0..<2 { network.loseEvents { _ in } }
            clock.advance(by: .milliseconds(50))
            #expect(monitor.health.mode == .live)
            try network.loseEvents { try $0.pull("eth0") }
            clock.advance(by: .milliseconds(1))
            #expect(monitor.path.isSatisfied && monitor.health.mode == .resyncing)
            clock.advance(by: .milliseconds(1))
            let loss = try await raw.next()
            #expect(loss.kinds == [.offline, .resynced] && loss.cause.kind == .eventsLost)
            #expect(monitor.health.missedByEvents == 0)
        }
    }

    @Test func failedConfirmationIsNotRepeatedAtOnce() async throws {
        try await withMonitor(quiet) { monitor, network, clock in
            for _ in 0..<2 { network.loseEvents { _ in } }
            network.failNextRequests(.max, errno: 105)
            let before = network.lookups + network.dumps
            for _ in 0..<1_000 {
                network.announce(.overrun)
                clock.advance(by: .milliseconds(10))
            }
            #expect(network.lookups + network.dumps - before < 30)
            network.failNextRequests(0, errno: 0)
            try network.removeRoute(to: "default")
            clock.advance(by: .seconds(5))
            #expect(!monitor.path.isSatisfied && monitor.health.mode == .live)
        }
    }

    /// Without audits, so that only losses find changes.
    private let quiet = {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.auditInterval = nil
        configuration.auditIntervalWhileUnsatisfied = nil
        return configuration
    }()
}
