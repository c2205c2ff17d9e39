import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// The scenarios in which a gate releases jobs.
@Suite(.timeLimit(.minutes(10))) struct GateScenarioTests {
    @Test func s7TenFlapsCostAtMostOneAttemptEach() async throws {
        try await Scenario(online: false).run { scenario in
            for number in 0..<5 { await scenario.submit("\(number)", .scenario, .fails(after: .seconds(1)), .ok()) }
            for flap in 1...10 {
                try await scenario.at(.milliseconds(flap * 100 - 50)) { try $0.plug("eth0") }
                let started = (0..<5).reduce(0) { $0 + scenario.starts("\($1)").count }
                #expect(started <= flap, "at most one canary per edge")
                try await scenario.at(.milliseconds(flap * 100)) { try $0.pull("eth0") }
            }
            await scenario.advance(to: .seconds(10))
            #expect(scenario.bus.pending.count == 5 && scenario.bus.pending.allSatisfy { $0.charged == 0 })
            try await scenario.at(.seconds(100)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(200))
            #expect((0..<5).allSatisfy { scenario.result("\($0)") == "ok" })
        }
    }

    @Test func s9NothingStartsAfterCancellation() async throws {
        try await Scenario(online: false).run { scenario in
            // One job waits, one backs off, and one is queued behind the first.
            let waiting = await scenario.submit("waiting", .scenario, .ok())
            waiting.cancel()
            await waiting.value
            await scenario.submit("canary", .scenario, .fails(Trouble.unreachable, after: .seconds(2)), .ok())
            let held = await scenario.submit("held", .scenario, .ok())
            try await scenario.at(.seconds(1)) { try $0.plug("eth0") }
            #expect(scenario.bus.pending.map(\.state) == [.running, .queued])
            held.cancel()
            await held.value
            await scenario.advance(to: .milliseconds(3100))
            let backingOff = try #require(scenario.bus.pending.first)
            #expect(backingOff.state == .backingOff)
            scenario.bus.cancel(backingOff.id)
            await scenario.advance(to: .seconds(100))
            #expect(scenario.starts("canary") == [1] && scenario.starts("held").isEmpty && scenario.starts("waiting").isEmpty)
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func s14BrokenPathCostsAFewAttempts() async throws {
        try await Scenario(online: false, release: .gated).run { scenario in
            for number in 0..<100 { await scenario.submit("\(number)", .scenario, reachedFrom: .seconds(13)) }
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .milliseconds(12_999))
            let attempts = (0..<100).reduce(0) { $0 + scenario.starts("\($1)").count }
            #expect((2...15).contains(attempts), "\(attempts) attempts")
            #expect(scenario.bus.pending.count == 100 && scenario.bus.pending.allSatisfy { $0.charged == 0 })
            await scenario.advance(to: .seconds(60))
            #expect((0..<100).allSatisfy { scenario.result("\($0)") == "ok" })
        }
    }

    /// An attempt stops connecting after 20 s; the next job starts after 5 s.
    @Test func s21DroppedPacketsCostAFewAttempts() async throws {
        try await Scenario(online: false, release: .gated).run { scenario in
            for number in 0..<1000 {
                await scenario.submit(
                    "\(number)", .scenario, reachedFrom: .seconds(70), before: .fails(Trouble.timedOut, after: .seconds(20)))
            }
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(40))
            #expect(scenario.bus.pending.allSatisfy { $0.charged == 0 })
            await scenario.advance(to: .milliseconds(69_999))
            let attempts = (0..<1000).reduce(0) { $0 + scenario.starts("\($1)").count }
            #expect((2...15).contains(attempts), "\(attempts) attempts")
            await scenario.advance(to: .seconds(300))
            #expect((0..<1000).allSatisfy { scenario.result("\($0)") == "ok" })
        }
    }

    @Test func s22FailedNameLookupsLoseNoRequest() async throws {
        let policy = RetryPolicy.scenario.errno { $0 as? Trouble == .noNameServer ? -3 : nil }
        try await Scenario(online: false, release: .gated).run { scenario in
            for number in 0..<1000 {
                await scenario.submit(
                    "\(number)", policy, reachedFrom: .seconds(13), before: .fails(Trouble.noNameServer, after: .milliseconds(20)))
            }
            try await scenario.at(.seconds(10)) { try $0.plug("eth0") }
            await scenario.advance(to: .milliseconds(12_999))
            #expect(scenario.bus.pending.count == 1000 && scenario.bus.pending.allSatisfy { $0.charged == 0 })
            await scenario.advance(to: .seconds(60))
            for number in 0..<1000 {
                let sent = scenario.starts("\(number)").count { $0 >= 13 }
                #expect(sent == 1 && scenario.result("\(number)") == "ok", "\(number)")
            }
        }
    }
}
