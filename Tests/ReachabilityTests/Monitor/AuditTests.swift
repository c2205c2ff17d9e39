import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct AuditTests {
    @Test(arguments: [Duration.milliseconds(1), .milliseconds(49)])
    func aChangeThatFollowsItsAnnouncementIsFound(delay: Duration) async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            clock.advance(by: .seconds(1))
            let announced = clock.now.offset
            network.announce(.addressRemoved(NetworkInterface.Address(ip("192.0.2.99"), prefixLength: 24), interface: 2))
            clock.advance(by: delay)
            try network.changeSilently { try $0.removeRoute(to: "default") }
            #expect(monitor.path.isSatisfied)
            clock.advance(by: .milliseconds(50))
            let found = try await raw.next()
            #expect(
                found.kinds == .offline
                    && found.at.sinceBoot == announced + (delay < .milliseconds(2) ? .milliseconds(2) : .milliseconds(50))
            )
            #expect(found.cause.kind == .addressRemoved && monitor.health.missedByEvents == 0)
        }
    }

    @Test func auditFindsUnannouncedChanges() async throws {
        // A loss that is held back is looked at again when its grace ends, and would be found to be over.
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        try await withMonitor(configuration) { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            try network.changeSilently { try $0.removeRoute(to: "default") }
            clock.advance(by: .seconds(29))
            #expect(monitor.path.isSatisfied && monitor.health.missedByEvents == 0)
            clock.advance(by: .seconds(1))
            let loss = try await raw.next()
            #expect(loss.kinds == .offline && loss.cause.kind == .audit && monitor.health.missedByEvents == 1)
            try network.changeSilently { try $0.addRoute(to: "default", via: "192.0.2.1", dev: "eth0") }
            // While unsatisfied audits come every five seconds.
            clock.advance(by: .seconds(5))
            #expect(try await raw.next().kinds == .online)
            #expect(monitor.health.missedByEvents == 2 && monitor.health.lastAudit?.sinceBoot == clock.now.offset)
        }
    }

    @Test func auditWithoutChangesPublishesNothing() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            clock.advance(by: .seconds(300))
            #expect(monitor.health.missedByEvents == 0 && monitor.health.lastAudit != nil)
            try network.pull("eth0")
            let first = try await raw.next()
            #expect(first.sequence == 1 && first.kinds == .offline)
        }
    }

    @Test func quietMonitorWithoutAuditsMakesNoLookups() async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.auditInterval = nil
        configuration.auditIntervalWhileUnsatisfied = nil
        try await withMonitor(configuration) { monitor, network, clock in
            let before = (network.lookups, network.dumps)
            clock.advance(by: .seconds(86_400))
            #expect(network.lookups == before.0 && network.dumps == before.1)
        }
    }

    @Test func irrelevantRoutesCostNoLookups() async throws {
        try await withMonitor { monitor, network, clock in
            let before = network.lookups
            for number in 0..<100 { network.announce(.route(RouteChange(prefix("10.\(number).0.0/16")))) }
            #expect(network.lookups == before)
            network.announce(.route(RouteChange(prefix("1.0.0.0/8"))))
            #expect(network.lookups > before)
        }
    }
}
