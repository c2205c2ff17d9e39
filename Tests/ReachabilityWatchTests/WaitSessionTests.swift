import Reachability
import Testing

@testable import reachability_watch

@Suite(.timeLimit(.minutes(1)))
struct WaitSessionTests {
    private let clock = AlarmClock()
    private let first = Samples.address("198.51.100.1")
    private let second = Samples.address("198.51.100.2")

    private func session(_ network: ScriptedNetwork, _ scopes: [Scope] = [.internet]) -> WaitSession {
        WaitSession(monitor: ReachabilityMonitor(network), scopes: scopes, clock: clock)
    }

    @Test func answersAtOnceWithoutAMonitorIfAllIsThere() async {
        let network = ScriptedNetwork(isConnected: true)
        #expect(await session(network).run().status == .yes)
        #expect(!network.wasRun)
    }

    @Test func asksOnceIfThereIsNoTimeToWait() async {
        let network = ScriptedNetwork(isConnected: false)
        var session = session(network)
        session.timeout = .zero
        #expect(await session.run().status == .no)
        #expect(!network.wasRun)
    }

    @Test func returnsWhenTheNetworkComes() async {
        let network = ScriptedNetwork(isConnected: false)
        async let outcome = session(network).run()
        await network.hasStarted()
        network.change(reachable: nil)
        #expect(await outcome.status == .yes)
    }

    @Test func waitsForAllScopesAtTheSameTime() async {
        let network = ScriptedNetwork(isConnected: false)
        async let outcome = session(network, [.address(first), .address(second)]).run()
        await network.hasStarted()
        network.change(reachable: [first])
        network.change(reachable: [second])
        network.change(reachable: [])
        network.change(reachable: [first, second])
        let end = await outcome
        #expect(end.status == .yes)
        #expect(end.paths.map(\.status) == [.satisfied, .satisfied])
    }

    @Test(arguments: 1...50)
    func doesNotAddUpWhatWasTrueAtDifferentTimes(_ round: Int) async {
        let network = ScriptedNetwork(isConnected: false)
        let scopes = [first, second].map(Scope.address)
        var session = session(network, scopes)
        session.timeout = .seconds(5)
        async let outcome = session.run()
        await network.hasStarted()
        network.change(reachable: [first])
        network.change(reachable: [second])
        clock.ring()
        #expect(await outcome.status == .no)
    }

    @Test func waitsForTheEndOfTheNetwork() async {
        let network = ScriptedNetwork(isConnected: true)
        var session = session(network)
        session.target = .unsatisfied
        async let outcome = session.run()
        await network.hasStarted()
        network.change(reachable: [])
        #expect(await outcome.status == .yes)
    }

    @Test func givesUpWhenTheTimeIsUpAndKnowsWhatIsMissing() async {
        let network = ScriptedNetwork(isConnected: false)
        var session = session(network, [.address(first), .address(second)])
        session.timeout = .seconds(5)
        async let outcome = session.run()
        await network.hasStarted()
        clock.ring()
        let end = await outcome
        #expect(end.status == .no)
        #expect(
            session.story(of: end)
                == "timed out: 198.51.100.1: unsatisfied: no route; 198.51.100.2: unsatisfied: no route")
    }

    @Test func saysThatItIsBlind() async {
        let network = ScriptedNetwork(isConnected: false)
        let error = ReachabilityError(.netlinkUnavailable, operation: "recvmsg")
        async let outcome = session(network).run()
        await network.hasStarted()
        network.fail(with: error)
        let end = await outcome
        #expect(end.status == .unavailable)
        #expect(end.error == error)
    }

    @Test func treatsAMonitorThatEndsWithoutAnErrorAsBlind() async {
        let network = ScriptedNetwork(isConnected: false)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        await network.hasStarted()
        running.cancel()
        _ = await running.result
        // It has ended: this session's own attempt to run it is refused.
        let outcome = await WaitSession(monitor: monitor, scopes: [.internet], clock: clock).run()
        #expect(outcome.status == .unknown)
        #expect(outcome.error?.code == .alreadyRun)
    }
}
