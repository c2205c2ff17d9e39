import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// A monitor with a source without events.
@Suite(.timeLimit(.minutes(10))) struct PollingTests {
    /// A simulated network without announcements.
    private struct DeafNetwork: SourceWrapper {
        let network: SimulatedNetwork

        func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
            try await network.run { batch in
                deliver(NetworkEventBatch(now: batch.now, wallTime: batch.wallTime, isPolled: true))
            }
        }
    }

    private func polling(
        every interval: Duration, audit: Duration? = nil,
        _ body: (ReachabilityMonitor, SimulatedNetwork, ManualClock) throws -> Void
    ) async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        var configuration = ReachabilityMonitor.Configuration()
        configuration.pollInterval = interval
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (audit, audit)
        let monitor = ReachabilityMonitor(DeafNetwork(network: network), configuration: configuration)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        defer { running.cancel() }
        #expect(monitor.health.mode == .polling && monitor.path.isSatisfied)
        try body(monitor, network, clock)
    }

    /// Returns the time from the start to the second evaluation, to the millisecond.
    private func firstPoll(_ network: SimulatedNetwork, _ clock: ManualClock) -> Duration? {
        let dumps = network.dumps
        while clock.now.offset < .seconds(10) {
            clock.advance(by: .milliseconds(1))
            if network.dumps > dumps { return clock.now.offset }
        }
        return nil
    }

    @Test(arguments: [Duration.milliseconds(20), .milliseconds(700), .seconds(2), .seconds(7)])
    func pollsAfterTheInterval(interval: Duration) async throws {
        try await polling(every: interval) { monitor, network, clock in
            try network.changeSilently { kernel throws(SimulationError) in try kernel.setCarrier("eth0", false) }
            #expect(firstPoll(network, clock) == interval)
            #expect(!monitor.path.isSatisfied && monitor.path.offlineReason == .noCarrier)
            // And again and again.
            let dumps = network.dumps
            clock.advance(by: interval - .milliseconds(1))
            #expect(network.dumps == dumps)
            clock.advance(by: .milliseconds(1))
            #expect(network.dumps == dumps + 1)
        }
    }

    @Test func earlierAuditComesFirst() async throws {
        try await polling(every: .seconds(7), audit: .seconds(3)) { _, network, clock in
            #expect(firstPoll(network, clock) == .seconds(3))
        }
    }

    @Test(arguments: [Duration.zero, .seconds(-1)]) func intervalIsClampedToOneMillisecond(interval: Duration) async throws {
        try await polling(every: interval) { _, network, clock in
            #expect(firstPoll(network, clock) == .milliseconds(1))
        }
    }

    @Test func sourceWithEventsIsNotPolled() async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.pollInterval = .seconds(1)
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (nil, nil)
        try await withMonitor(configuration) { monitor, network, clock in
            #expect(firstPoll(network, clock) == nil && monitor.health.mode == .live)
        }
    }
}
