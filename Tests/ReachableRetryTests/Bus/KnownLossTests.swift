import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@testable import ReachableRetry

/// Losses that a lookup finds before the monitor's events.
@Suite(.timeLimit(.minutes(10))) struct KnownLossTests {
    /// A network whose monitor ignores requests to evaluate.
    private final class DeafNetwork: SourceWrapper {
        let network: SimulatedNetwork
        let wakes = Atomic(0)

        init(_ network: SimulatedNetwork) { self.network = network }

        func wake() { wakes.add(1, ordering: .relaxed) }
    }

    private func removeRouteSilently(_ network: SimulatedNetwork) throws {
        try network.changeSilently { kernel throws(SimulationError) in try kernel.removeRoute(to: "default") }
    }

    @Test func lossMakesTheMonitorEvaluate() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(), .ok())
            try removeRouteSilently(scenario.network)
            #expect(scenario.monitor.path.isSatisfied)
            await scenario.advance(to: .milliseconds(100))
            #expect(scenario.monitor.path.status == .unsatisfied && scenario.monitor.health.missedByEvents == 0)
            #expect(scenario.bus.nextWakeUp == nil)
            #expect(scenario.bus.pending.map(\.reason) == ["waits for the network: no route leads there (noRoute)"])
        }
    }

    @Test(arguments: [ReleasePolicy.unjittered, .immediate])
    func unconfirmedLossLastsOneSecond(release: ReleasePolicy) async throws {
        try await Scenario(release: release, source: DeafNetwork.init).run { scenario in
            let policy = RetryPolicy.scenario.backoff(.immediate)
            await scenario.submit("failed", policy, .fails(), .ok())
            try removeRouteSilently(scenario.network)
            await scenario.advance(to: .milliseconds(200))
            #expect(scenario.bus.pending.first?.charged == 0)
            await scenario.submit("new", policy, .ok())
            scenario.bus.retryNow()
            await scenario.settle()
            #expect(
                scenario.bus.pending.map(\.reason)
                    == Array(repeating: "waits for the network: a lookup found no route", count: 2))
            #expect(scenario.bus.pending.allSatisfy { $0.state == .waiting })
            await scenario.advance(to: .milliseconds(1099))
            #expect(scenario.starts("failed") == [0] && scenario.starts("new").isEmpty)
            await scenario.advance(to: .milliseconds(1200))
            // Under the gate one of them tries first, because no attempt was answered.
            let second = release == .immediate ? 1.1 : 1.2
            #expect(scenario.starts("failed") == [0, 1.1] && scenario.starts("new") == [second])
        }
    }

    @Test func burstOfFailuresCausesOneLookup() async throws {
        try await Scenario().run { scenario in
            let network = scenario.network
            var before = network.lookups
            _ = try scenario.monitor.path(to: .internet)
            let question = network.lookups - before
            for number in 1...500 { await scenario.submit("\(number)", .scenario.giveUpAfter(maxAttempts: 1), .fails()) }
            before = network.lookups
            await scenario.advance(to: .milliseconds(100))
            let questions = (network.lookups - before) / question
            #expect((1...16).contains(questions), "asked \(questions) times")
            #expect(scenario.result("500") == "other")
        }
    }

    @Test func lookupExpiresAfterAMillisecondOrAnEvent() async throws {
        try await Scenario().run { scenario in
            let (monitor, lookups) = (scenario.monitor, RecentLookups())
            func isGone(_ microseconds: Int) -> Bool {
                lookups.isGone(.internet, monitor, at: BusTime(.microseconds(microseconds)))
            }
            #expect(!isGone(0))
            try removeRouteSilently(scenario.network)
            #expect(!isGone(999) && isGone(1000))
            try scenario.network.changeSilently { kernel throws(SimulationError) in
                try kernel.addRoute(to: "default", via: "192.0.2.1")
            }
            #expect(isGone(1500))
            monitor.reevaluate(.internet)
            #expect(!isGone(1500), "the monitor has received an event since")
        }
    }

    /// The first job of a bus, and of `withRetry`, finds a path that flapped before there was a bus.
    @Test func newBusWaitsForASteadyPath() async throws {
        try await Scenario().run { scenario in
            for _ in 1...7 {
                try scenario.network.pull("eth0")
                try scenario.network.plug("eth0")
            }
            await scenario.submit("job", .scenario, .ok())
            #expect(scenario.starts("job").isEmpty && scenario.bus.nextWakeUp == nil)
            await scenario.advance(to: .seconds(5))
            #expect(scenario.starts("job") == [3])
        }
    }

    @Test func interactiveJobsDoNotWaitForASteadyPath() async throws {
        try await Scenario().run { scenario in
            for _ in 1...7 {
                try scenario.network.pull("eth0")
                try scenario.network.plug("eth0")
            }
            #expect(try await scenario.bus.retry(options: JobOptions(priority: .interactive)) { $0.number } == 1)
        }
    }
}
