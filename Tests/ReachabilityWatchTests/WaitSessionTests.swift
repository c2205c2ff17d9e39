import Reachability
import ReachabilityTesting
import Testing

@testable import CommandKit
@testable import reachability_watch

@Suite(.timeLimit(.minutes(10)))
struct WaitSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let monitor: ReachabilityMonitor
    private let scopes = ["198.51.100.1", "198.51.100.2"].map { Scope.address(Samples.address($0)) }

    init() throws {
        network = .online(clock: clock)
        monitor = ReachabilityMonitor(network)
    }

    private func session(_ scopes: [Scope] = [.internet]) -> WaitSession {
        WaitSession(monitor: monitor, scopes: scopes, clock: clock)
    }

    /// Waits for the monitor's first snapshot.
    private func monitorRuns() async {
        for await health in monitor.healthUpdates where health.mode == .live { return }
    }

    /// Makes the scopes reachable alternately, never both at once.
    private func openByTurns(_ count: Int) throws {
        var (open, closed) = ("198.51.100.1/32", "198.51.100.2/32")
        try network.addRoute(to: open, dev: "eth0")
        for _ in 0..<count {
            try network.batch { kernel in
                try kernel.removeRoute(to: open)
                try kernel.addRoute(to: closed, dev: "eth0")
            }
            swap(&open, &closed)
        }
    }

    @Test func aSatisfiedScopeNeedsNoMonitor() async {
        #expect(await session().run().status == .yes)
        #expect(monitor.health.mode == .starting)
    }

    @Test func aZeroTimeoutChecksOnce() async throws {
        try network.removeRoute(to: "default")
        var session = session()
        session.timeout = .zero
        #expect(await session.run().status == .no)
        #expect(monitor.health.mode == .starting)
    }

    @Test func waitReturnsWhenTheNetworkComes() async throws {
        try network.removeRoute(to: "default")
        async let outcome = session().run()
        await monitorRuns()
        try network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
        #expect(await outcome.status == .yes)
    }

    @Test func allScopesMustBeSatisfiedAtOnce() async throws {
        try network.removeRoute(to: "default")
        async let outcome = session(scopes).run()
        await monitorRuns()
        try openByTurns(3)
        try network.addRoute(to: "198.51.100.0/24", dev: "eth0")
        let end = await outcome
        #expect(end.status == .yes)
        #expect(end.paths.map(\.status) == [.satisfied, .satisfied])
    }

    @Test(arguments: 1...10)
    func alternatingScopesNeverSatisfyWait(_ round: Int) async throws {
        try network.removeRoute(to: "default")
        var session = session(scopes)
        session.timeout = .seconds(5)
        async let outcome = session.run()
        await monitorRuns()
        _ = try await clock.nextSleep()
        try openByTurns(200)
        clock.advance(by: .seconds(5))
        #expect(await outcome.status == .no)
    }

    @Test func waitReturnsWhenTheNetworkGoes() async throws {
        var session = session()
        session.target = .unsatisfied
        async let outcome = session.run()
        await monitorRuns()
        try network.removeRoute(to: "default")
        #expect(await outcome.status == .yes)
    }

    @Test func aTimeoutReportsTheMissingPaths() async throws {
        try network.removeRoute(to: "default")
        var session = session(scopes)
        session.timeout = .seconds(5)
        async let outcome = session.run()
        await monitorRuns()
        _ = try await clock.nextSleep()
        clock.advance(by: .seconds(5))
        let end = await outcome
        #expect(end.status == .no)
        #expect(
            session.summary(of: end)
                == ["timed out: 198.51.100.1: unsatisfied: no route; 198.51.100.2: unsatisfied: no route"])
    }

    @Test func aTimeoutNamesTheInterfaceToMend() async throws {
        try network.pull("eth0")
        let name = "nas.example"
        var session = session(scopes + [.host(name)])
        session.timeout = .zero
        let end = await session.run()
        let verdicts = (scopes.map { "\($0)" }).map { "\($0): unsatisfied: no carrier" } + ["\(name): unknown"]
        #expect(
            session.summary(of: end) == [
                "timed out: \(verdicts.joined(separator: "; "))",
                "missing: carrier on eth0: plug in the cable, or join a wireless network",
                "next:    ip -details link show dev eth0",
            ])
        session.target = .unsatisfied
        #expect(session.summary(of: end).count == 1, "nothing is to be mended")
    }

    @Test func aFailedMonitorReportsItsError() async throws {
        try network.removeRoute(to: "default")
        let error = ReachabilityError(.netlinkUnavailable, operation: "recvmsg")
        async let outcome = session().run()
        await monitorRuns()
        network.stop(throwing: error)
        let end = await outcome
        #expect(end.status == .unavailable)
        #expect(end.error == error)
    }

    @Test func anEndedMonitorIsUnknown() async throws {
        try network.removeRoute(to: "default")
        let running = Task { try await monitor.run() }
        await monitorRuns()
        running.cancel()
        _ = await running.result
        // The session's own attempt to run the ended monitor is refused.
        let outcome = await session().run()
        #expect(outcome.status == .unknown)
        #expect(outcome.error?.code == .alreadyRun)
    }

    @Test func aSingleFailedRequestIsRepeated() async throws {
        try network.removeRoute(to: "default")
        network.failNextRequests(1, errno: 16)
        async let outcome = session().run()
        await monitorRuns()
        try network.addRoute(to: "default", via: "192.0.2.1", dev: "eth0")
        #expect(await outcome.status == .yes)
    }
}
