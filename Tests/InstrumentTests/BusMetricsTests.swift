import CoreMetrics
import MetricsTestKit
import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

@Suite(.timeLimit(.minutes(10))) struct BusMetricsTests {
    @Test func attemptsAreCountedByTrigger() async throws {
        try await Bench().run { bench in
            let login = ConditionSource("login", isSatisfied: true)
            let job = try await bench.submitWaiting(
                "job", RetryPolicy.steady.giveUpAfter(maxAttempts: 9), when: [login.condition],
                failing: Trouble.other, Trouble.other, Trouble.other, Trouble.other)
            #expect(try bench.count("retry.attempts", ("trigger", "first")) == 1)
            bench.clock.advance(by: .seconds(60))
            try await bench.bus.parked("job")
            #expect(try bench.count("retry.attempts", ("trigger", "timer")) == 1)
            bench.clock.advance(by: .seconds(10))
            try bench.network.pull("eth0")
            try bench.network.plug("eth0")
            try await bench.bus.parked("job")
            #expect(try bench.count("retry.attempts", ("trigger", "reconnect")) == 1)
            bench.clock.advance(by: .seconds(20))
            bench.bus.retryNow()
            try await bench.bus.parked("job")
            #expect(try bench.count("retry.attempts", ("trigger", "retryNow")) == 1)
            bench.clock.advance(by: .seconds(25))
            login.set(false)
            login.set(true)
            try await job.value
            #expect(try bench.count("retry.attempts", ("trigger", "condition")) == 1)
            #expect(try bench.seconds("retry.seconds.saved") == [50, 40, 35])
            #expect(try bench.seconds("retry.reconnect.to.attempt") == [0])
            #expect(try bench.count("retry.succeeded") == 1 && bench.count("retry.failures", ("fault", "unknown")) == 4)
        }
    }

    @Test func reconnectIsMeasuredUpToItsLastWaitingJob() async throws {
        try await Bench(online: false).run { bench in
            let clock = bench.clock
            let first = Task {
                try await bench.bus.retry(options: JobOptions(destination: "server", id: "first")) { _ in
                    try await clock.sleep(for: .seconds(2))
                }
            }
            try await bench.bus.parked("first")
            let second = try await bench.submitWaiting("second")
            clock.advance(by: .seconds(100))
            try bench.network.plug("eth0")
            _ = try await clock.nextSleep()
            clock.advance(by: .seconds(2))
            try await first.value
            try await second.value
            #expect(try bench.seconds("retry.reconnect.to.attempt") == [0, 2])
            #expect(try bench.seconds("retry.seconds.saved").isEmpty, "no job had a delay")
            #expect(try bench.count("retry.attempts", ("trigger", "reconnect")) == 2)
        }
    }

    @Test func runningJobIsNotCountedAsWaiting() async throws {
        try await Bench().run { bench in
            let clock = bench.clock
            let job = Task {
                try await bench.bus.retry(.steady, options: JobOptions(id: "job")) { attempt in
                    guard attempt.number == 1 else { return }
                    try await clock.sleep(for: .seconds(10))
                    throw Trouble.other
                }
            }
            _ = try await clock.nextSleep()
            clock.advance(by: .seconds(1))
            try bench.network.pull("eth0")
            try bench.network.plug("eth0")
            clock.advance(by: .seconds(9))
            try await job.value
            #expect(try bench.count("retry.attempts", ("trigger", "reconnect")) == 1)
            #expect(try bench.seconds("retry.reconnect.to.attempt").isEmpty)
            #expect(try bench.count("retry.failures", ("fault", "network")) == 1)
        }
    }

    @Test func reconnectSavesNoServerDelay() async throws {
        try await Bench().run { bench in
            let job = try await bench.submitWaiting("job", failing: Trouble.busy)
            try bench.network.pull("eth0")
            bench.clock.advance(by: .seconds(5))
            try bench.network.plug("eth0")
            bench.clock.advance(by: .seconds(25))
            try await job.value
            #expect(try bench.count("retry.attempts", ("trigger", "timer")) == 1)
            #expect(try bench.seconds("retry.seconds.saved") == [30], "the backoff was a minute, the order half of that")
            #expect(try bench.seconds("retry.reconnect.to.attempt").isEmpty)
            #expect(try bench.count("retry.failures", ("fault", "overload")) == 1)
        }
    }

    @Test func jobsAreCountedUntilTheyEnd() async throws {
        try await Bench(online: false).run { bench in
            let pending = try bench.metrics.expectMeter("retry.jobs.pending")
            var jobs: [Task<Void, any Error>] = []
            for number in 1...3 { jobs.append(try await bench.submitWaiting(JobID("\(number)"))) }
            #expect(pending.lastValue == 3)
            bench.bus.cancel("1")
            await #expect(throws: CancellationError.self) { try await jobs[0].value }
            #expect(try pending.lastValue == 2 && bench.count("retry.cancelled") == 1)
            try bench.network.plug("eth0")
            for job in jobs.dropFirst() { try await job.value }
            await #expect(throws: Trouble.self) { try await bench.bus.retry(.steady) { _ in throw Trouble.hopeless } }
            #expect(pending.lastValue == 0 && pending.values.max() == 3)
            #expect(try bench.count("retry.gave.up", ("reason", "permanent")) == 1)
            #expect(try bench.count("retry.failures", ("fault", "unknown")) == 1)
        }
    }

    @Test func givingUpIsCountedByReason() async throws {
        try await Bench(online: false).run { bench in
            let late = try await bench.submitWaiting("late", RetryPolicy.steady.giveUpAfter(elapsed: .seconds(5)))
            let waited = try await bench.submitWaiting("waited", RetryPolicy.steady.connectivity(.wait(upTo: .seconds(7))))
            bench.clock.advance(by: .seconds(10))
            await #expect(throws: RetryError.deadline) { try await late.value }
            await #expect(throws: RetryError.waitLimit) { try await waited.value }
            try bench.network.plug("eth0")
            let once = RetryPolicy.steady.giveUpAfter(maxAttempts: 1)
            await #expect(throws: Trouble.self) { try await bench.bus.retry(once) { _ in throw Trouble.other } }
            let login = ConditionSource("login", isSatisfied: false)
            let hopeless = try await bench.submitWaiting("hopeless", when: [login.condition])
            login.finish()
            await #expect(throws: RetryError.conditionEnded) { try await hopeless.value }
            for reason in ["deadline", "waitLimit", "attempts", "conditionEnded"] {
                #expect(try bench.count("retry.gave.up", ("reason", reason)) == 1, "\(reason)")
            }
        }
    }

    @Test func busesThatShareAFactoryAddUp() async throws {
        let metrics = TestMetrics()
        var configuration = RetryBus.Configuration()
        configuration.metrics = metrics
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let (first, second) = (RetryBus(monitor, configuration: configuration), RetryBus(monitor, configuration: configuration))
        let pending = try metrics.expectMeter("retry.jobs.pending")
        try await first.retry { _ in
            #expect(pending.lastValue == 1)
            try await second.retry { _ in
                #expect(pending.lastValue == 2)
            }
        }
        #expect(pending.lastValue == 0)
    }
}
