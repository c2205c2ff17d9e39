import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// One job on a cable, in virtual time: delays of 1, 2, 4 s, a limit of four charged attempts, 0.1 s each.
@Suite(.timeLimit(.minutes(10))) struct ScenarioTests {
    @Test func s1JobBacksOffWhileOnline() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(), .fails(), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2])
            #expect(scenario.result("job") == "ok")
        }
    }

    @Test func s2WaitForTheNetworkIsNotCharged() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .ok())
            #expect(scenario.bus.pending.first?.unmet == ["internet"])
            #expect(scenario.bus.nextWakeUp == nil)
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [10])
            #expect(scenario.result("job") == "ok")
        }
    }

    @Test func s3NetworkFailureWaitsForTheReconnect() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(Trouble.unreachable), .ok())
            try await scenario.at(.milliseconds(500)) { try $0.pull("eth0") }
            try await scenario.at(.milliseconds(800)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 0.8])
        }
    }

    @Test func s4NextAttemptWaitsForTheNetworkWithoutALimit() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(), .ok())
            try await scenario.at(.milliseconds(500)) { try $0.pull("eth0") }
            #expect(scenario.bus.nextWakeUp == nil, "nothing is timed while it is away")
            try await scenario.at(.seconds(20)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 20])
        }
    }

    @Test func s5ReconnectDoesNotShortenAServerDelay() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(Trouble.busy(retryAfter: .seconds(30))), .ok())
            try await scenario.at(.seconds(5)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(6)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 30.1])
        }
    }

    @Test func s6AttemptBrokenOffByAnOutageIsNotCharged() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(maxAttempts: 1), .fails(after: .seconds(2)), .ok())
            try await scenario.at(.milliseconds(500)) { try $0.pull("eth0") }
            await scenario.advance(to: .seconds(2))
            #expect(scenario.bus.pending.first?.charged == 0)
            try await scenario.at(.milliseconds(2200)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 2.2])
            #expect(scenario.result("job") == "ok")
        }
    }

    @Test func s8OfflineJobGivesUpAtTheDeadline() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario.giveUpAfter(elapsed: .seconds(5)), .ok())
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job").isEmpty)
            #expect(scenario.ended("job") == 5)
            #expect(scenario.result("job") == "\(RetryError.deadline)")
        }
    }

    @Test(arguments: [true, false]) func s9CancelledJobStartsNoAttempt(online: Bool) async throws {
        try await Scenario(online: online).run { scenario in
            let task = await scenario.submit("job", .scenario, .fails(), .ok())
            await scenario.advance(to: .milliseconds(500))
            task.cancel()
            await task.value
            #expect(scenario.result("job") == "CancellationError()")
            if !online { try await scenario.at(.seconds(1)) { try $0.plug("eth0") } }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == (online ? [0] : []))
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func s10OutageDoesNotSpendTheLastAttempt() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(), .fails(), .fails(), .fails(after: .seconds(2)), .ok())
            await scenario.advance(to: .milliseconds(7400))
            #expect(scenario.starts("job") == [0, 1.1, 3.2, 7.3])
            try await scenario.at(.seconds(8)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(30)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1.1, 3.2, 7.3, 30])
            #expect(scenario.result("job") == "ok")
        }
    }

    @Test func s11TwentyRepeatedEventsStartOneAttempt() async throws {
        try await Scenario(online: false).run { scenario in
            await scenario.submit("job", .scenario, .fails(), .ok())
            try await scenario.at(.seconds(10)) { network in
                try network.plug("eth0")
                for _ in 1...20 {
                    network.announce(.overrun)
                    try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0", metric: 100)
                }
            }
            await scenario.advance(to: .milliseconds(10_500))
            try await scenario.at(.milliseconds(10_600)) { network in
                for _ in 1...20 { network.announce(.overrun) }
            }
            #expect(scenario.starts("job") == [10])
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [10, 11.1])
        }
    }

    @Test func s12ReconnectBeforeParkingIsNotLost() async throws {
        try await Scenario().run { scenario in
            let network = scenario.network
            // The network changes while the delay is computed: the job is neither running nor parked.
            let policy = RetryPolicy.scenario.backoff(
                .custom { _ in
                    try? network.pull("eth0")
                    try? network.plug("eth0")
                    return .seconds(60)
                })
            await scenario.submit("job", policy, .fails(), .ok())
            await scenario.advance(to: .milliseconds(300))
            #expect(scenario.starts("job") == [0, 0.1])
        }
    }

    @Test func s13ServerFailuresStayCountedAfterAReconnect() async throws {
        try await Scenario().run { scenario in
            let busy = Act.fails(Trouble.busy(retryAfter: nil))
            await scenario.submit("job", .scenario, busy, busy, .ok())
            try await scenario.at(.milliseconds(500)) { try $0.pull("eth0") }
            try await scenario.at(.milliseconds(800)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 0.8, 2.9], "the second delay is 2 s, not 1 s")
        }
    }

    @Test func s15ResumeEndsALongBackoff() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(), .ok())
            await scenario.advance(to: .seconds(5))
            scenario.network.suspend(for: .seconds(8 * 3600))
            await scenario.settle()
            #expect(scenario.starts("job") == [0, 28805])
        }
    }

    @Test func s16EdgeDuringTheAttemptCountsOnce() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", .scenario, .fails(after: .seconds(2)), .fails(), .ok())
            try await scenario.at(.seconds(1)) { network in
                try network.pull("eth0")
                try network.plug("eth0")
            }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 2, 3.1], "then it backs off by the first delay")
        }
    }

    @Test func s17ReconnectOfAScopeStartsOnlyItsJobs() async throws {
        try await Scenario(online: false).run { scenario in
            let network = scenario.network
            try network.addLink("eth1", hasCarrier: false)
            try network.addAddress("eth1", "198.51.100.10/24")
            let (a, b) = (IPAddress("192.0.2.7"), IPAddress("198.51.100.7"))
            await scenario.submit("a", .scenario, to: .address(try #require(a)), .ok())
            await scenario.submit("b", .scenario, to: .address(try #require(b)), .ok())
            try await scenario.at(.seconds(1)) { try $0.plug("eth1") }
            #expect(scenario.starts("b") == [1])
            #expect(scenario.starts("a").isEmpty)
            try await scenario.at(.seconds(2)) { try $0.plug("eth0") }
            #expect(scenario.starts("a") == [2])
            await scenario.advance(to: .seconds(3))
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
            #expect(scenario.monitor.usage == 0, "their scopes are not watched any more")
        }
    }

    @Test func s18InterfaceSwitchEndsBackoffs() async throws {
        try await Scenario().run { scenario in
            try scenario.network.addLink("wlan0", kind: .wireless)
            try scenario.network.addAddress("wlan0", "198.51.100.10/24")
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(60))), .fails(), .ok())
            try await scenario.at(.seconds(5)) {
                try $0.replaceRoute(to: "default", via: "198.51.100.1", dev: "wlan0")
            }
            #expect(scenario.starts("job") == [0, 5])
        }
    }

    @Test func s19NoStaleTimerFires() async throws {
        try await Scenario().run { scenario in
            let slow = Act.fails(after: .milliseconds(500))
            await scenario.submit("job", .scenario.backoff(.constant(.seconds(10))), slow, slow, slow, .ok())
            try await scenario.at(.seconds(1)) { network in
                try network.pull("eth0")
                try network.plug("eth0")
            }
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 1, 11.5, 22])
        }
    }

    @Test func s20NoDelayFollowsTheLastFailure() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(3))).giveUpAfter(maxAttempts: 3)
            await scenario.submit("job", policy, .fails(Trouble.busy(retryAfter: nil)))
            await scenario.advance(to: .seconds(60))
            #expect(scenario.starts("job") == [0, 3.1, 6.2] && scenario.ended("job") == 6.3)
            #expect(scenario.result("job") == "busy(retryAfter: nil)")
        }
    }
}
