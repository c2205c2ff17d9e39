import Reachability
import ReachabilityTesting
import Synchronization
import Testing

@testable import ReachableRetry

/// The reasons why jobs are not running, as text.
@Suite(.timeLimit(.minutes(10))) struct PendingReasonTests {
    private func reasons(_ scenario: Scenario) -> [String] { scenario.bus.pending.map(\.reason) }

    @Test func missingLayerIsNamed() async throws {
        try await Scenario(online: false).run { scenario in
            let login = ConditionSource("logged in", isSatisfied: false)
            await scenario.submit("a", .scenario, .ok())
            await scenario.submit("b", .scenario, when: [login.condition], .ok())
            let address = try #require(IPAddress("203.0.113.5"))
            await scenario.submit("c", .scenario, to: .address(address), .ok())
            #expect(
                reasons(scenario) == [
                    "waits for the network: eth0 has no carrier (noCarrier)",
                    "waits for the network: eth0 has no carrier (noCarrier), and for condition 'logged in'",
                    "waits for a path to 203.0.113.5: eth0 has no carrier (noCarrier)",
                ])
            #expect(scenario.bus.pending.first?.description == "a: waits for the network: eth0 has no carrier (noCarrier)")
            #expect(try await scenario.bus.parked("a").reason == "waits for the network: eth0 has no carrier (noCarrier)")
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(2))
            #expect(reasons(scenario) == ["waits for condition 'logged in'"])
        }
    }

    @Test func eachMissingLayerHasADescription() async throws {
        try await Scenario().run { scenario in
            try scenario.network.rename("eth0", to: "e\u{1b}0")
            try scenario.network.setUp("e\u{1b}0", false)
            await scenario.submit("a", .scenario, .ok())
            #expect(reasons(scenario) == [#"waits for the network: e\x1b0 is shut down (adminDown)"#], "fit for a terminal")
            try scenario.network.removeLink("e\u{1b}0")
            await scenario.settle()
            #expect(reasons(scenario) == [#"waits for the network: e\x1b0 is gone (noInterface)"#])
            try scenario.network.addLink("eth1")
            await scenario.settle()
            #expect(reasons(scenario) == ["waits for the network: eth1 has no usable address (noAddress)"])
            try scenario.network.addAddress("eth1", "192.0.2.9/24")
            await scenario.settle()
            #expect(reasons(scenario) == ["waits for the network: no route leads there (noRoute)"])
            var scope = Scope.internet
            scope.interface = "wlan0"
            await scenario.submit("b", .scenario, to: scope, .ok())
            #expect(
                reasons(scenario).last
                    == "waits for a path to internet%wlan0: there is no interface named wlan0 (noInterface)")
        }
    }

    /// An interface with one missing layer, and routes that refuse.
    @Test func eachQueueReasonHasADescription() async throws {
        try await Scenario().run { scenario in
            let network = scenario.network
            func expect(_ words: String, after change: () throws -> Void) async throws {
                try change()
                await scenario.settle()
                #expect(reasons(scenario) == ["waits for the network: \(words)"])
            }
            try network.setOperationalState("eth0", .dormant)
            await scenario.submit("a", .scenario, .ok())
            try await expect("eth0 is dormant (dormant)") {}
            try await expect("eth0's address is still being checked for duplicates (addressTentative)") {
                try network.removeAddress("eth0", "192.0.2.10/24")
                try network.addAddress("eth0", "2001:db8::10/64", isTentative: true)
                try network.setOperationalState("eth0", .up)
            }
            try await expect("a route says unreachable (unreachable)") {
                try network.addRoute(to: "default", type: .unreachable)
                try network.addAddress("eth0", "192.0.2.10/24")
            }
            try await expect("a route says prohibited (prohibited)") {
                try network.replaceRoute(to: "default", type: .prohibit)
            }
            try await expect("a route is a blackhole (blackhole)") {
                try network.replaceRoute(to: "default", type: .blackhole)
            }
        }
    }

    @Test func hostWithoutAnAddressIsNamed() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("a", .scenario, to: .host("nas.example"), .ok())
            await scenario.advance(to: .seconds(2))
            #expect(reasons(scenario) == ["waits for a path to nas.example: the name does not exist (unresolved)"])
        }
    }

    @Test func waitForTheFirstVerdictIsNamed() async throws {
        let network = SimulatedNetwork.online()
        network.failNextRequests(.max, errno: 16)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        let bus = RetryBus(monitor)
        let job = Task { try await bus.retry(options: JobOptions(id: "a")) { _ in } }
        #expect(try await bus.parked("a").reason == "waits for the network: not known yet")
        job.cancel()
        _ = await job.result
        running.cancel()
        try await running.value
    }

    @Test func delaysHaveTheirReasons() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.milliseconds(3150)))
            await scenario.submit("refused", policy, .fails(Trouble.refused, after: .zero), .ok())
            await scenario.submit("other", policy, .fails(after: .zero), .ok())
            await scenario.submit("busy", policy, .fails(Trouble.busy(retryAfter: .seconds(30)), after: .zero), .ok())
            await scenario.submit("both", policy, .fails(Trouble.busy(retryAfter: .milliseconds(800)), after: .zero), .ok())
            await scenario.submit("slow", policy.attemptTimeout(.milliseconds(1)), .ok(after: .seconds(9)))
            await scenario.submit("running", policy, .ok())
            await scenario.advance(to: .milliseconds(1))
            #expect(
                reasons(scenario) == [
                    "backs off for 3.2 s after a refused connection", "backs off for 3.2 s after the error other",
                    "the server ordered a delay of 30 s",
                    "backs off for 3.2 s after the error busy(retryAfter: Optional(0.8 seconds)), "
                        + "and the server ordered a delay of 799 ms",
                    "backs off for 3.2 s after an attempt that took too long", "attempt 1 is running",
                ])
            scenario.bus.pause("other")
            #expect(reasons(scenario)[1] == "paused until it is resumed, or its reader asks for what comes next")
        }
    }

    @Test func networkErrorsAreDistinguished() async throws {
        let gate = ReleasePolicy.immediate
        try await Scenario(release: gate).run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(5)))
            await scenario.submit("a", policy, .fails(Trouble.unreachable, after: .zero), .ok())
            await scenario.submit("b", policy, .fails(Trouble.unanswered, after: .zero), .ok())
            await scenario.submit("c", policy, .fails(Trouble.timedOut, after: .zero), .ok())
            await scenario.advance(to: .zero)
            #expect(
                reasons(scenario) == [
                    "backs off for 5 s after an unreachable network", "backs off for 5 s after a host that could not be reached",
                    "backs off for 5 s after a connection that timed out",
                ])
        }
    }

    @Test func unstartedLifeIsDescribedAsDue() async throws {
        try await Scenario().run { scenario in
            let running = Task {
                try await scenario.bus.job(options: JobOptions(id: "a")) { _ in }.repeating(every: .seconds(10)).run()
            }
            try await scenario.bus.parked("a")
            scenario.clock.advance(by: .milliseconds(1500))
            #expect(reasons(scenario) == ["is due in 8.5 s"])
            running.cancel()
            _ = await running.result
        }
    }

    @Test func waitForTheCanaryHasAReason() async throws {
        try await Scenario(online: false).run { scenario in
            for id in ["a", "b", "c", "d", "e"] { await scenario.submit(id, .scenario, .ok(after: .seconds(1))) }
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            #expect(reasons(scenario)[1] == "waits for its turn: another job tries the internet first")
            await scenario.advance(to: .seconds(2))
            #expect(
                reasons(scenario) == [
                    "attempt 1 is running", "attempt 1 is running", "waits for its turn: 2 attempts run to the internet",
                    "waits for its turn: 2 attempts run to the internet",
                ])
        }
    }

    @Test func waitAfterTheCanarysFailureHasAReason() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("a", .scenario, .fails(Trouble.unreachable))
            await scenario.submit("b", .scenario, .ok())
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            await scenario.advance(to: .milliseconds(1200))
            #expect(reasons(scenario)[1] == "waits 900 ms for the next try of the internet: others have failed")
        }
    }

    @Test func waitForASteadyPathHasAReason() async throws {
        try await Scenario().run { scenario in
            // The bus follows the network from its first job on.
            await scenario.submit("first", .scenario, .ok())
            try await scenario.at(.seconds(1)) { network in
                for _ in 1...7 {
                    try network.pull("eth0")
                    try network.plug("eth0")
                }
            }
            await scenario.submit("second", .scenario, .ok())
            #expect(reasons(scenario) == ["waits for the network to last 3 s: it changed more than 5 times in 30 s"])
        }
    }

    @Test func waitForAServerDelayHasAReason() async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let first = Task {
                try await bus.retry(.scenario, options: JobOptions(destination: "api.example.org", id: "first")) { attempt in
                    if attempt.number == 1 { throw Trouble.busy(retryAfter: .seconds(30)) }
                }
            }
            try await bus.parked("first")
            let second = Task {
                try await bus.retry(.scenario, options: JobOptions(destination: "api.example.org", id: "second")) { _ in }
            }
            #expect(
                try await bus.parked("second").reason == "waits 30 s: api.example.org ordered a delay, in its answer to first")
            for job in [first, second] {
                job.cancel()
                _ = await job.result
            }
        }
    }

    @Test func waitForTheBusHasAReason() async throws {
        #expect(
            try await reasonOfTheSecond { $0.maxConcurrent = 1 } == "waits for its turn: 1 attempt runs, as many as the bus allows")
        #expect(
            try await reasonOfTheSecond { $0.releasePolicy = .paced(perSecond: 2) }
                == "waits for its turn: the pace allows the next start in 500 ms")
    }

    @Test func bulkSpreadHasAReason() async throws {
        try await Scenario(online: false, seed: 7, release: .spread(over: .seconds(60))).run { scenario in
            let job = Task { try await scenario.bus.retry(options: JobOptions(priority: .bulk, id: "a")) { _ in } }
            try await scenario.bus.parked("a")
            try scenario.network.plug("eth0")
            let reason = try #require(reasons(scenario).first)
            #expect(reason.hasPrefix("waits ") && reason.hasSuffix(" s so that not all machines come back together"))
            job.cancel()
            _ = await job.result
        }
    }

    private func reasonOfTheSecond(_ configure: (inout RetryBus.Configuration) -> Void) async throws -> String {
        let clock = ManualClock()
        var configuration = RetryBus.Configuration()
        configure(&configuration)
        let bus = RetryBus(ReachabilityMonitor(), configuration: configuration, clock: clock)
        let first = Task { try await bus.retry { _ in try await clock.sleep(for: .seconds(1)) } }
        _ = try await clock.nextSleep()
        let second = Task { try await bus.retry(options: JobOptions(id: "second")) { _ in } }
        let reason = try await bus.parked("second").reason
        for job in [first, second] {
            job.cancel()
            _ = await job.result
        }
        return reason
    }

    @Test(arguments: [
        (Duration.zero, "0 ms"), (.nanoseconds(1), "1 ms"), (.milliseconds(999), "999 ms"), (.seconds(1), "1 s"),
        (.milliseconds(1001), "1.1 s"), (.milliseconds(3150), "3.2 s"), (.seconds(30), "30 s"),
    ])
    func durationsAreRoundedUp(duration: Duration, words: String) { #expect(duration.words == words) }
}
