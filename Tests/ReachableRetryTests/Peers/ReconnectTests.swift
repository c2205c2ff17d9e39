import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// Reconnects that cause storms or get lost in other libraries.
///
/// No release policy limits the jobs here.
@Suite(.timeLimit(.minutes(10))) struct ReconnectTests {
    private static let long = RetryPolicy.peer(.constant(.seconds(60)), attempts: 4)

    /// Other libraries start all jobs at each flap, and charge them.
    @Test func tenFlapsStartOneAttemptEachAndChargeNothing() async throws {
        try await Scenario(online: false, release: .immediate).run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(after: .milliseconds(100)))
            for flap in 1...10 {
                try await scenario.at(.milliseconds(100 * flap)) { try $0.plug("eth0") }
                try await scenario.at(.milliseconds(100 * flap + 50)) { try $0.pull("eth0") }
            }
            await scenario.advance(to: .seconds(3))
            #expect(scenario.starts("job") == (1...10).map { Double($0) / 10 })
            let job = try #require(scenario.bus.pending.first)
            #expect(job.state == .waiting && job.charged == 0 && job.networkFailures == 10)
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job").last == 5 && scenario.ended("job") == 5.1, "then one failure ends it")
        }
    }

    /// On a clock that includes suspend, all delays are due at the resume, before the carrier is back.
    @Test(arguments: [true, false]) func jobsDueDuringSuspensionWaitForTheNetwork(isTold: Bool) async throws {
        try await Scenario(release: .immediate).run { scenario in
            let names = (0..<100).map(String.init)
            for name in names { await scenario.submit(name, Self.long, .fails(), .ok()) }
            await scenario.advance(to: .seconds(1))
            try scenario.network.changeSilently { kernel throws(SimulationError) in try kernel.removeRoute(to: "default") }
            if isTold {
                scenario.network.suspend(for: .seconds(3600))
            } else {
                // The timers fire first; the monitor receives the loss 0.5 s later.
                scenario.clock.jump(by: .seconds(3600))
            }
            await scenario.settle()
            try await scenario.at(.seconds(3601.5)) { $0.announce(.overrun) }
            await scenario.advance(to: .seconds(3604.9))
            #expect(names.allSatisfy { scenario.starts($0) == [0] }, "nothing starts without a route")
            try await scenario.at(.seconds(3605)) { try $0.addRoute(to: "default", via: "192.0.2.1") }
            await scenario.advance(to: .seconds(3700))
            #expect(names.allSatisfy { scenario.starts($0) == [0, 3605] && scenario.result($0) == "ok" })
        }
    }

    /// Traffic moves to another interface while an attempt uses the old address.
    ///
    /// Other libraries interrupt all connections. This one continues the attempt; a failure is then the network's fault.
    @Test(arguments: [nil, .zero] as [Duration?], [true, false])
    func attemptContinuesAcrossASwitch(grace: Duration?, succeeds: Bool) async throws {
        try await Scenario(release: .immediate).run { scenario in
            try scenario.network.addLink("wlan0", kind: .wireless)
            try scenario.network.addAddress("wlan0", "198.51.100.10/24")
            let policy = Self.long.giveUpAfter(maxAttempts: 1).interruptsAttempt(
                grace.map { .whenUnsatisfied(grace: $0) } ?? .never)
            let first = succeeds ? Act.ok(after: .seconds(10)) : .fails(after: .seconds(10))
            await scenario.submit("job", policy, first, .ok(after: .seconds(10)))
            try await scenario.at(.seconds(5)) { try $0.replaceRoute(to: "default", via: "198.51.100.1", dev: "wlan0") }
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("job") == (succeeds ? [0] : [0, 10]))
            #expect(scenario.ended("job") == (succeeds ? 10 : 20) && scenario.result("job") == "ok")
        }
    }

    private static let cases: [PeerCase] = [
        // Other libraries sleep until 3 s and charge the attempt, or wait for 30 s and more.
        PeerCase(
            name: "an outage that ends after the attempt", policy: .scenario, acts: [.fails(after: .seconds(2)), .ok()],
            changes: [(0.5, .down), (2.2, .up)], starts: [0, 2.2], ends: 2.3),
        PeerCase(
            name: "an outage within the attempt", policy: .scenario, acts: [.fails(after: .seconds(2)), .ok()],
            changes: [(0.5, .down), (0.7, .up)], starts: [0, 2], ends: 2.1),
        // Other libraries spend four attempts on the outage and give up before its end.
        PeerCase(
            name: "submitted offline", policy: .scenario, acts: [.fails(), .fails(), .ok()], isOnline: false,
            changes: [(10, .up)], starts: [10, 11.1, 13.2], ends: 13.3),
        // Other libraries end the server's delay at 6 s, or restart it there.
        PeerCase(
            name: "an order, and reconnects before and after it", policy: .scenario,
            acts: [.fails(Trouble.busy(retryAfter: .seconds(30))), .fails(), .ok()],
            changes: [(5, .down), (6, .up), (20, .down), (40, .up)], starts: [0, 40, 42.1], ends: 42.2),
        // Other libraries reset all delays for every fault.
        PeerCase(
            name: "a busy server's delays go on", policy: .scenario.giveUpAfter(maxAttempts: 5),
            acts: [.fails(Trouble.busy(retryAfter: nil))], changes: [(0.5, .flap), (1, .flap)],
            starts: [0, 0.5, 1, 5.1, 13.2], ends: 13.3, result: "busy(retryAfter: nil)", reason: .attempts),
    ]

    @Test(arguments: cases) func reconnectsCountExactlyOnce(peer: PeerCase) async throws { try await peer.check() }
}
