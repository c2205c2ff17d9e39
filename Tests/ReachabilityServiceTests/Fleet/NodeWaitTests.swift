import CommandKit
import Reachability
import ReachabilityTesting
import ReachableFleet
import Testing

@testable import reachability_service

@Suite(.timeLimit(.minutes(10)))
struct NodeWaitTests {
    private let bench: FleetWorld

    init() throws { bench = try FleetWorld() }

    private var clock: WorldClock { bench.world.clock }

    private func start(
        _ target: NetworkPath.Status = .satisfied, scopes: [Scope] = [], timeout: Duration? = nil
    ) throws -> Rendezvous<NodeWait.Outcome?> {
        var wait = NodeWait(visit: try bench.visit(), scopes: scopes, nodes: [bench.nas])
        (wait.target, wait.timeout, wait.clock) = (target, timeout, bench.world.clock)
        return bench.start { [wait] in await wait.run() }
    }

    @Test func nodeThatIsThereEndsTheWait() async throws {
        bench.fleet.say(.online, of: bench.nas)
        let outcome = try start()
        await clock.advance(by: .seconds(1))
        #expect(outcome.value?.status == .yes && outcome.value?.states == ["node nas: online"])
    }

    @Test func theWaitIsForANodeThatReachesItsNetwork() async throws {
        let outcome = try start()
        for state in [FleetNode.State.offline, .disconnected, .lost] {
            await clock.advance(by: .seconds(100))
            bench.fleet.say(state, of: bench.nas)
        }
        await clock.advance(by: .seconds(100))
        #expect(outcome.value == nil)
        bench.fleet.say(.degraded, of: bench.nas, reason: "captivePortal")
        await clock.advance(by: .zero)
        #expect(outcome.value?.status == .yes && outcome.value?.states == ["node nas: degraded: captive portal"])
    }

    @Test(arguments: [NetworkPath.Status.satisfied, .unsatisfied])
    func anUnknownFleetIsNoAnswer(target: NetworkPath.Status) async throws {
        bench.fleet.say(target == .satisfied ? .online : .lost, of: bench.nas)
        bench.fleet.stopBroker()
        let outcome = try start(target, timeout: .seconds(1000))
        await clock.advance(by: .seconds(999))
        #expect(outcome.value == nil)
        await clock.advance(by: .seconds(1))
        #expect(outcome.value?.status == .no && outcome.value?.states.first?.hasPrefix("node nas: unknown: ") == true)
    }

    @Test func aKeptLevelIsNoPresence() async throws {
        // The node was there when the connection was lost, and may be gone.
        bench.fleet.say(.offline, of: bench.nas)
        let outcome = try start(timeout: .seconds(200))
        await clock.advance(by: .seconds(5))
        bench.fleet.stopBroker()
        await clock.advance(by: .seconds(100))
        #expect(outcome.value == nil)
        bench.fleet.say(.online, of: bench.nas)
        bench.fleet.startBroker()
        await clock.advance(by: .seconds(10))
        #expect(outcome.value?.status == .yes)
    }

    @Test func aNodeWithoutAWordIsNotThere() async throws {
        let outcome = try start(.unsatisfied)
        await clock.advance(by: .seconds(1))
        #expect(outcome.value?.status == .yes && outcome.value?.states == ["node nas: has not announced itself"])
    }

    @Test func nodesAndScopesHaveToBeThereAtOnce() async throws {
        let network = bench.world.network
        try network.pull("eth0")
        bench.fleet.say(.online, of: bench.nas)
        let outcome = try start(scopes: [.internet])
        await clock.advance(by: .seconds(5))
        #expect(outcome.value == nil)
        bench.fleet.say(.offline, of: bench.nas)
        try network.plug("eth0")
        await clock.advance(by: .seconds(5))
        #expect(outcome.value == nil)
        bench.fleet.say(.online, of: bench.nas)
        await clock.advance(by: .zero)
        let end = try #require(outcome.value)
        #expect(end.status == .yes && end.states.count == 2 && end.states[0].hasPrefix("internet: satisfied via eth0"), "\(end)")
    }

    @Test func theStatesOfATimeoutAreTheLastKnown() async throws {
        try bench.world.network.pull("eth0")
        bench.fleet.say(.lost, of: bench.nas)
        let outcome = try start(scopes: [.internet], timeout: .seconds(5))
        await clock.advance(by: .seconds(5))
        #expect(outcome.value?.status == .no)
        #expect(outcome.value?.states == ["internet: unsatisfied: no carrier", "node nas: lost"])
    }
}
