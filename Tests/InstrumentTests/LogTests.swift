import InMemoryLogging
import Logging
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

@Suite(.timeLimit(.minutes(10))) struct LogTests {
    @Test func theLifeOfAJobIsLogged() async throws {
        try await Bench(online: false).run { bench in
            let job = try await bench.submitWaiting("job", failing: Trouble.busy)
            bench.clock.advance(by: .seconds(4))
            try bench.network.plug("eth0")
            try await bench.bus.parked("job")
            bench.clock.advance(by: .seconds(60))
            try await job.value
            let entries = bench.entries("retry.")
            #expect(
                entries.map { "\($0.level) \($0.message)" } == [
                    "debug job waits for the network or a condition", "debug attempt starts", "info attempt failed",
                    "debug job backs off", "debug attempt starts", "debug job succeeded",
                ])
            #expect(entries.allSatisfy { $0.metadata["retry.job.id"] == "job" && $0.metadata["retry.destination"] == "server" })
            #expect(entries.allSatisfy { $0.metadata["retry.scope"] == "internet" })
            #expect(entries.map { $0.metadata["retry.attempt"] } == ["0", "1", "1", "1", "2", "2"])
            #expect(entries[1].metadata["retry.trigger"] == "reconnect" && entries[1].metadata["retry.since.reconnect"] == "0.0")
            #expect(entries[2].error as? Trouble == .busy && entries[2].metadata["retry.failure.fault"] == "overload")
            #expect(entries[2].metadata["retry.failure.charged"] == "true" && entries[2].metadata["retry.waited"] == "4.0")
            #expect(entries[3].metadata["retry.delay"] == "60.0" && entries[4].metadata["retry.trigger"] == "timer")
        }
    }

    /// One warning for a bus that cannot see the network, not one for each job.
    @Test func missingMonitorIsWarnedOfOnce() async throws {
        let bench = try Bench()
        func warnings() -> [String] { bench.log.entries.filter { $0.level == .warning }.map { "\($0.message)" } }
        try await bench.bus.retry(RetryPolicy.steady.connectivity(.ignore)) { _ in }
        #expect(warnings().isEmpty, "a job that ignores the network misses nothing")
        for _ in 1...3 { try await bench.bus.retry { _ in } }
        try await bench.bus.retry(to: .address(IPAddress(family: .ipv4, value: 7))) { _ in }
        #expect(warnings().count == 1 && warnings().first?.contains("next: call its run()") == true)
    }

    @Test func runningMonitorCausesNoWarning() async throws {
        try await Bench().run { bench in
            try await bench.bus.retry { _ in }
            #expect(bench.log.entries.allSatisfy { $0.level < .warning })
        }
    }

    @Test func twoClocksAreWarnedOf() throws {
        let bench = try Bench()
        let configuration = bench.bus.configuration
        #expect(bench.log.entries.isEmpty)
        _ = RetryBus(bench.monitor, configuration: configuration)
        _ = RetryBus(bench.monitor, configuration: configuration, clock: bench.clock)
        #expect(bench.log.entries.isEmpty)
        _ = RetryBus(bench.monitor, configuration: configuration, clock: ContinuousClock())
        #expect(bench.log.entries.map(\.level) == [.warning])
    }

    @Test func theEndOfAJobIsLoggedWithItsReason() async throws {
        try await Bench().run { bench in
            let job = try await bench.submitWaiting(
                "job", RetryPolicy.steady.giveUpAfter(elapsed: .seconds(8)), failing: Trouble.other)
            try bench.network.pull("eth0")
            try bench.network.plug("eth0")
            try await job.value
            let reconnect = try #require(bench.entries("retry.trigger").last)
            #expect(reconnect.metadata["retry.saved"] == "60.0")
            let late = try await bench.submitWaiting(
                "late", RetryPolicy.steady.giveUpAfter(elapsed: .seconds(8)), failing: Trouble.other)
            bench.clock.advance(by: .seconds(8))
            await #expect(throws: Trouble.other) { try await late.value }
            let end = try #require(bench.entries("retry.").last)
            #expect(end.message == "job gave up" && end.level == .debug && end.error as? Trouble == .other)
            #expect(end.metadata["retry.gave.up.reason"] == "deadline" && end.metadata["retry.elapsed"] == "8.0")
            let cancelled = try await bench.submitWaiting("cancelled", failing: Trouble.other)
            bench.bus.cancel("cancelled")
            _ = await cancelled.result
            #expect(bench.entries("retry.").last?.message == "job was cancelled")
        }
    }

    @Test func networkTransitionsAreLogged() async throws {
        try await Bench().run { bench in
            try bench.network.rename("eth0", to: "e\u{1b}[2J")
            try bench.network.pull("e\u{1b}[2J")
            bench.clock.advance(by: .seconds(2))
            try bench.network.plug("e\u{1b}[2J")
            let entries = bench.entries("reachability.scope")
            #expect(
                entries.map { "\($0.level) \($0.message)" } == ["debug the path changed", "info offline", "info online"])
            let offline = entries[1].metadata
            #expect(offline["reachability.state"] == "unsatisfied" && offline["reachability.reason"] == "noCarrier")
            #expect(offline["reachability.kinds"] == ["offline"] && offline["reachability.scope"] == "internet")
            #expect(offline["reachability.cause"] == #"e\x1b[2J lost carrier"#, "fit for a terminal")
            #expect(entries[2].metadata["network.interface.name"] == #"e\x1b[2J"#)
            #expect(entries[2].metadata["reachability.epoch"] == "2")
        }
    }

    @Test(arguments: [true, false]) func endOfAFailedMonitorIsLogged(hasFailed: Bool) async throws {
        let bench = try Bench()
        let running = Task { try await bench.monitor.run() }
        for await _ in bench.monitor.transitions { break }
        if hasFailed {
            bench.network.stop(throwing: ReachabilityError(.netlinkUnavailable, operation: "test"))
            await #expect(throws: ReachabilityError.self) { try await running.value }
        } else {
            running.cancel()
            try await running.value
        }
        let end = try #require(bench.entries("reachability.mode").last)
        #expect(end.metadata["reachability.mode"] == "blind" && end.level == (hasFailed ? .info : .debug))
    }

    @Test func blindMonitorLogsItsReason() async throws {
        let bench = try Bench()
        bench.network.failNextRequests(.max, errno: 24)
        let running = Task { try await bench.monitor.run() }
        for await transition in bench.monitor.transitions {
            #expect(transition.cause.kind == .blinded)
            break
        }
        running.cancel()
        try await running.value
        let entry = try #require(bench.entries("reachability.mode").first)
        #expect(entry.level == .info && entry.metadata["reachability.mode"] == "blind")
        #expect((entry.error as? ReachabilityError)?.errno == 24)
    }

    @Test func entriesBelowTheLevelAreNotWritten() async throws {
        try await Bench(level: .info).run { bench in
            let job = try await bench.submitWaiting("job", failing: Trouble.other)
            bench.clock.advance(by: .seconds(60))
            try await job.value
            #expect(bench.entries("retry.").map(\.message) == ["attempt failed"])
        }
    }
}
