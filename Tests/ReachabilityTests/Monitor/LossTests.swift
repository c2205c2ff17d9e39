import Reachability
import ReachabilityTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct LossTests {
    @Test func resyncMakesUpForLostEvents() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            try network.loseEvents { try $0.setUp("eth0", false) }
            let loss = try await raw.next()
            #expect(loss.kinds == [.offline, .resynced] && loss.cause.kind == .eventsLost)
            #expect(monitor.health.losses == 1 && monitor.health.resyncs == 1 && monitor.health.mode == .live)
            #expect(monitor.health.missedByEvents == 0)
        }
    }

    @Test func lossWithoutAChangePublishesNothing() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            network.loseEvents { _ in }
            try network.pull("eth0")
            #expect(try await raw.next().kinds == .offline)
            #expect(monitor.health.losses == 1)
        }
    }

    @Test func failedRequestIsRetriedAndNeverMeansOffline() async throws {
        try await withMonitor { monitor, network, clock in
            var raw = try await Listener(monitor.transitions(to: .internet, raw: true))
            network.failNextRequests(3, errno: 16)
            try network.loseEvents { try $0.setUp("eth0", false) }
            #expect(monitor.path.isSatisfied && monitor.health.mode == .resyncing && monitor.health.failedRequests > 0)
            clock.advance(by: .seconds(10))
            #expect(try await raw.next().kinds == [.offline, .resynced])
            #expect(monitor.health.mode == .live && monitor.health.failedRequests == 3)
        }
    }

    @Test func failingRequestsAreRetriedAtTheirPace() async throws {
        try await withMonitor { monitor, network, clock in
            // A held loss is looked up again when its grace ends; by then no request is answered.
            try network.pull("eth0")
            network.failNextRequests(.max, errno: 105)
            let before = network.lookups + network.dumps
            clock.advance(by: .seconds(60))
            #expect(network.lookups + network.dumps - before < 60)
            #expect(monitor.health.lastFailure?.errno == 105)
            network.failNextRequests(0, errno: 0)
            clock.advance(by: .seconds(5))
            #expect(monitor.health.lastFailure == nil)
        }
    }

    @Test func failedDumpNeverMeansOffline() async throws {
        try await withMonitor { monitor, network, clock in
            network.failNextRequests(1, errno: 16)
            // Judged by the old links the new route would lead nowhere.
            try network.loseEvents { kernel in
                try kernel.removeLink("eth0")
                try kernel.addLink("eth1")
                try kernel.addAddress("eth1", "198.51.100.10/24")
                try kernel.addRoute(to: "default", via: "198.51.100.1", dev: "eth1")
            }
            #expect(monitor.path.isSatisfied && monitor.path.interface?.name == "eth0")
            clock.advance(by: .milliseconds(50))
            #expect(monitor.path.isSatisfied && monitor.path.interface?.name == "eth1" && monitor.health.mode == .live)
        }
    }

    @Test func dumpRetrySurvivesAnUnrelatedEvent() async throws {
        try await withMonitor { monitor, network, clock in
            network.failNextRequests(1, errno: 16)
            try network.loseEvents { try $0.pull("eth0") }
            clock.advance(by: .milliseconds(49))
            network.failNextRequests(1, errno: 16)
            clock.advance(by: .milliseconds(3))
            try network.addRoute(to: "198.41.0.4", via: "192.0.2.1", dev: "eth0")
            #expect(monitor.health.lastFailure != nil)
            clock.advance(by: .seconds(4))
            #expect(monitor.health.mode == .live && !monitor.path.isSatisfied && monitor.health.lastFailure == nil)
        }
    }

    @Test func heldLossIsPublishedWithoutAnswers() async throws {
        try await withMonitor { monitor, network, clock in
            var damped = try await Listener(monitor.transitions)
            try network.pull("eth0")
            network.failNextRequests(.max, errno: 105)
            clock.advance(by: .seconds(1))
            #expect(try await damped.next().kinds == .offline)
        }
    }

    @Test func suspensionGrowsTheEpochAndIsPublished() async throws {
        try await withMonitor { monitor, network, clock in
            var damped = try await Listener(monitor.transitions)
            network.suspend(for: .seconds(3600))
            let resumed = try await damped.next()
            #expect(resumed.kinds == .resumed && resumed.epoch == 2 && resumed.current.isSatisfied)
            #expect(resumed.cause.kind == .resumed)
            #expect(monitor.condition(for: .internet).state == .init(isSatisfied: true, epoch: 2))
        }
    }

    @Test func spoofedAndMalformedDatagramsAreCounted() async throws {
        try await withMonitor { monitor, network, clock in
            network.announceSpoofed(3)
            network.announceMalformed(2)
            #expect(monitor.health.spoofed == 3 && monitor.health.malformed == 2 && monitor.path.isSatisfied)
            network.announceSpoofed(.max)
            network.announceMalformed(.min)
            #expect(monitor.health.spoofed == .max && monitor.health.malformed == 2)
        }
    }
}
