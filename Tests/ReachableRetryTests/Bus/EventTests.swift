import Reachability
import ReachabilityTesting
import ReachableRetry
import Testing

/// The events of a bus.
@Suite(.timeLimit(.minutes(10))) struct EventTests {
    @Test func lifeOfAJobIsPublished() async throws {
        try await Scenario(online: false).run { scenario in
            var events = scenario.bus.events.makeAsyncIterator()
            let other = scenario.bus.events
            await scenario.submit("job", .scenario, .fails(Trouble.busy(retryAfter: nil)), .fails(Trouble.unreachable), .ok())
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .milliseconds(6100))
            try await scenario.at(.milliseconds(6150)) { try $0.pull("eth0") }
            try await scenario.at(.seconds(8)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(10))
            await scenario.bus.shutdown(drain: nil)
            var published: [String] = []
            while let event = await events.next(isolation: #isolation) {
                #expect(event.job == "job" && event.scope == .internet)
                var text = "\(event.at / .seconds(1)) \(event.kind.rawValue) \(event.attempt)"
                if let failure = event.failure { text += " \(failure.error) \(failure.fault) \(failure.isCharged)" }
                if let delay = event.delay { text += " \(delay)" }
                if !event.unmet.isEmpty { text += " \(event.unmet)" }
                published.append(text)
            }
            #expect(
                published == [
                    "0.0 waiting 0 [the network]", "5.0 attemptStarted 1",
                    "5.1 attemptFailed 1 busy(retryAfter: nil) overload(retryAfter: nil) true", "5.1 backingOff 1 1.0 seconds",
                    "6.1 attemptStarted 2", "6.2 attemptFailed 2 unreachable network false", "6.2 waiting 2 [the network]",
                    "8.0 attemptStarted 3",
                    "8.1 succeeded 3",
                ])
            var count = 0
            for await _ in other { count += 1 }
            #expect(count == published.count, "each listener has its own stream")
        }
    }

    @Test func endIsReportedOnceWithItsCounts() async throws {
        try await Scenario(online: false).run { scenario in
            let events = scenario.bus.events
            await scenario.submit("job", .scenario.giveUpAfter(elapsed: .seconds(20)), .fails(), .ok(after: .seconds(100)))
            try await scenario.at(.seconds(5)) { try $0.plug("eth0") }
            await scenario.advance(to: .seconds(30))
            await scenario.bus.shutdown(drain: nil)
            var ends: [RetryEvent] = []
            for await event in events where event.kind == .gaveUp { ends.append(event) }
            #expect(ends.count == 1)
            let report = try #require(ends.first?.report)
            #expect(report.reason == .deadline && report.attempts == 2 && report.waited == .seconds(5))
            #expect(report.elapsed == .seconds(20) && report.job == "job")
        }
    }

    @Test func aSlowListenerLosesTheOldestEvents() async throws {
        var configuration = RetryBus.Configuration()
        configuration.bufferedEvents = 3
        let bus = RetryBus(ReachabilityMonitor(), configuration: configuration)
        let events = bus.events
        for _ in 1...5 { try await bus.retry { _ in } }
        await bus.shutdown(drain: nil)
        var received: [RetryEvent] = []
        for await event in events { received.append(event) }
        #expect(received.map(\.kind) == [.succeeded, .attemptStarted, .succeeded])
        #expect(received.map(\.sequence) == [8, 9, 10], "seven are lost")
    }

    @Test func pendingHasTheReasonOfAWait() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.backoff(.constant(.seconds(60))).giveUpAfter(elapsed: .seconds(100))
            await scenario.submit("job", policy, .fails(Trouble.busy(retryAfter: .seconds(30))), .ok())
            var job = try #require(scenario.bus.pending.first)
            #expect(job.id == "job" && job.state == .running && job.attempts == 1 && job.softDelay == nil)
            await scenario.advance(to: .milliseconds(100))
            job = try #require(scenario.bus.pending.first)
            #expect(job.state == .backingOff && job.softDelay == .seconds(60) && job.hardDelay == .seconds(30))
            #expect(job.timeLeft == .milliseconds(99_900) && job.charged == 1)
            #expect(job.lastError as? Trouble == .busy(retryAfter: .seconds(30)))
            try await scenario.at(.seconds(1)) { try $0.pull("eth0") }
            job = try #require(scenario.bus.pending.first)
            #expect(job.state == .waiting && job.unmet == ["internet"] && job.hardDelay == .milliseconds(29_100))
        }
    }

    @Test func testCanWaitForAParkedJob() async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        try await network.untilRunning()
        let bus = RetryBus(monitor, clock: clock)
        try network.pull("eth0")
        async let value = bus.retry(options: JobOptions(id: "photo")) { attempt in attempt.number }
        #expect(try await bus.parked("photo").state == .waiting)
        try network.plug("eth0")
        #expect(try await value == 1)
    }

    @Test func untilParkedCanBeCancelled() async throws {
        let bus = RetryBus(ReachabilityMonitor())
        // Waits already when it is cancelled.
        let meeting = Task.immediate { try await bus.parked("missing") }
        meeting.cancel()
        await #expect(throws: CancellationError.self) { try await meeting.value }
    }

    @Test func shutdownDropsNoEvents() async throws {
        for round in 1...200 {
            let bus = RetryBus(ReachabilityMonitor())
            let events = bus.events
            // Two jobs run already, because each suspends once; two race with the end.
            let running = (1...2).map { _ in Task.immediate { try await bus.retry { _ in await Task.yield() } } }
            let jobs = running + (1...2).map { _ in Task { try await bus.retry { _ in await Task.yield() } } }
            await bus.shutdown(drain: nil)
            var (started, ended) = (0, 0)
            for await event in events {
                if event.kind == .attemptStarted { started += 1 }
                if event.kind == .succeeded { ended += 1 }
            }
            #expect(started >= 2 && started == ended, "round \(round)")
            for job in jobs { _ = await job.result }
        }
    }

    @Test func moreUrgentJobsStartFirst() async throws {
        let clock = ManualClock()
        let network = SimulatedNetwork.online(clock: clock)
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        for await _ in monitor.transitions { break }
        try network.pull("eth0")
        let bus = RetryBus(monitor, clock: clock)
        let events = bus.events
        var jobs: [Task<Void, any Error>] = []
        for (number, priority) in [JobPriority.bulk, .interactive, .normal, .bulk, .interactive].enumerated() {
            jobs.append(Task { try await bus.retry(options: JobOptions(priority: priority, id: JobID("\(number)"))) { _ in } })
            try await bus.parked(JobID("\(number)"))
        }
        #expect(bus.pending.map(\.id) == ["1", "4", "2", "0", "3"])
        try network.plug("eth0")
        for job in jobs { try await job.value }
        await bus.shutdown(drain: nil)
        var started: [JobID] = []
        for await event in events where event.kind == .attemptStarted { started.append(event.job) }
        #expect(started == ["1", "4", "2", "0", "3"])
    }
}
