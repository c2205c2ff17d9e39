import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Conditions of flapping paths, and evaluations on request.
@Suite(.timeLimit(.minutes(10))) struct FlappingTests {
    private func flap(_ network: SimulatedNetwork, times: Int) throws {
        for _ in 0..<times {
            try network.pull("eth0")
            try network.plug("eth0")
        }
    }

    private func observed(_ condition: Condition) -> Counter {
        let counter = Counter()
        _ = condition.storage.observe { counter.add() }
        return counter
    }

    @Test func flappingPathIsUnsteadyUntilItLasts() async throws {
        try await withMonitor { monitor, network, clock in
            let condition = monitor.condition(for: .internet)
            try flap(network, times: 5)
            #expect(!condition.storage.reading.isUnsteady)
            try flap(network, times: 1)
            #expect(condition.storage.reading.isUnsteady)
            clock.advance(by: .seconds(2))
            try flap(network, times: 1)
            clock.advance(by: .milliseconds(2999))
            #expect(condition.storage.reading.isUnsteady)
            let (state, counter) = (condition.state, observed(condition))
            clock.advance(by: .milliseconds(1))
            #expect(!condition.storage.reading.isUnsteady && counter.value == 1 && condition.state == state)
        }
    }

    @Test func newConditionOfAFlappingPathIsUnsteady() async throws {
        try await withMonitor { monitor, network, clock in
            try flap(network, times: 6)
            #expect(monitor.condition(for: .internet).storage.reading.isUnsteady)
            let address = try #require(IPAddress("203.0.113.5"))
            let condition = monitor.condition(for: .address(address))
            let reading = condition.storage.reading
            #expect(reading.isKnown && reading.isUnsteady && reading.state.isSatisfied)
            clock.advance(by: .seconds(3))
            #expect(!condition.storage.reading.isUnsteady)
        }
    }

    @Test func unsatisfiedFlappingPathNeedsNoTimer() async throws {
        var configuration = ReachabilityMonitor.Configuration()
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (nil, nil)
        try await withMonitor(configuration) { monitor, network, clock in
            let condition = monitor.condition(for: .internet)
            try flap(network, times: 6)
            try network.pull("eth0")
            clock.advance(by: .milliseconds(300))
            #expect(clock.nextDeadline == nil)
            clock.advance(by: .seconds(60))
            try network.plug("eth0")
            #expect(!condition.storage.reading.isUnsteady)
        }
    }

    @Test func requestedEvaluationCallsObserversWithoutAChange() async throws {
        try await withMonitor { monitor, network, _ in
            let condition = monitor.condition(for: .internet)
            let (before, counter, lookups) = (condition.storage.reading, observed(condition), network.lookups)
            monitor.reevaluate(.internet)
            let after = condition.storage.reading
            #expect(counter.value == 1 && after.evaluation == before.evaluation + 1 && after.state == before.state)
            #expect(network.lookups > lookups)
            monitor.reevaluate(.host("unwatched.example"))
            #expect(counter.value == 1)
        }
    }

    @Test func failedRequestedEvaluationIsRepeated() async throws {
        try await withMonitor { monitor, network, clock in
            let condition = monitor.condition(for: .internet)
            let counter = observed(condition)
            network.failNextRequests(2, errno: 105)
            monitor.reevaluate(.internet)
            while counter.value == 0, let next = clock.nextDeadline, next.offset < .seconds(5) { clock.advance(to: next) }
            #expect(counter.value == 1)
        }
    }
}
