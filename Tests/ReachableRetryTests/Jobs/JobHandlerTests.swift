import Reachability
import ReachabilityTesting
import Synchronization
import Testing

@testable import ReachableRetry

/// The calls of handlers: in order, one at a time, with each end once.
@Suite(.timeLimit(.minutes(10))) struct JobHandlerTests {
    @TaskLocal static var label = "none"

    @Test(arguments: [true, false]) func handlersReceiveEventsInOrder(detached: Bool) async throws {
        for round in 1...100 {
            try await Scenario(online: false).run { scenario in
                let script = Script(scenario)
                try script.job(scenario.bus).onEvent { script.note($0) }.submit(detached: detached)
                // The event of the wait is delivered during the reconnect.
                try scenario.network.plug("eth0")
                await scenario.bus.shutdown(drain: nil)
                let rest = script.events.first == "waiting for the network" ? script.events.dropFirst() : script.events[...]
                let isOnTime = Array(rest) == ["start 1", "attempt 1", "succeeded 1"] || rest == ["cancelled"]
                #expect(isOnTime, "round \(round): \(script.events)")
            }
        }
    }

    @Test(arguments: [true, false]) func unstartedLifeReportsItsEndOnce(detached: Bool) async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus, id: "job").onEvent { script.note($0) }
            try job.submit(detached: detached)
            try await scenario.bus.parked("job")
            scenario.bus.cancel("job")
            // The shutdown returns after the handlers' last event.
            await scenario.bus.shutdown(drain: nil)
            #expect(script.events == ["waiting for the network", "cancelled"])
        }
    }

    @Test func shutdownAwaitsHandlers() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let count = Atomic(0)
            let job = script.job(scenario.bus).onEvent { event in
                if case .cancelled = event { count.add(1, ordering: .relaxed) }
            }
            for number in 0..<500 { try job.submit(detached: number % 2 == 0) }
            let jobs = await scenario.bus.shutdown(drain: .zero)
            #expect(jobs.count == 500 && count.load(ordering: .relaxed) == 500)
            #expect(jobs.allSatisfy { $0.state == .waiting && $0.reason.hasPrefix("waits for the network: eth0") })
        }
    }

    @Test func eachWaitIsReportedWithItsConditions() async throws {
        try await Scenario(online: false).run { scenario in
            let login = ConditionSource("login", isSatisfied: true)
            let script = Script(scenario, failures: [Trouble.unreachable])
            let (received, receive) = AsyncStream.makeStream(of: String.self)
            var next = received.makeAsyncIterator()
            let job = scenario.bus.job(.scenario, options: JobOptions(when: [login.condition], id: "job")) { _ in
                if script.calls.isEmpty { try scenario.network.pull("eth0") }
                return try script.call()
            }.onEvent { receive.yield($0.text) }
            try job.submit(detached: true)
            #expect(await next.next() == "waiting for the network")
            login.set(false)
            try scenario.network.plug("eth0")
            #expect(await next.next() == "waiting for condition 'login'")
            login.set(true)
            #expect(await next.next() == "start 1")
            #expect(await next.next() == "failed unreachable false")
            #expect(await next.next() == "waiting for the network", "again")
            try scenario.network.plug("eth0")
            #expect(await next.next() == "start 2")
            #expect(await next.next() == "attempt 2")
            #expect(await next.next() == "succeeded 2")
        }
    }

    @Test func droppedReaderCallsTheHandlers() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            do {
                var events = script.job(scenario.bus).onEvent { script.note($0) }.events.makeAsyncIterator()
                #expect(await events.next()?.text == "waiting for the network")
            }
            #expect(script.events == ["waiting for the network", "cancelled"] && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [true, false]) func submittedJobInheritsItsSubmittersContext(detached: Bool) async throws {
        try await Scenario(online: false).run { scenario in
            let (seen, see) = AsyncStream.makeStream(of: String.self)
            let job = scenario.bus.job(.scenario, options: JobOptions(id: "job")) { _ in
                see.yield("\(Self.label) \(Task.currentPriority == .low)")
            }
            try await Task(priority: .low) {
                _ = try Self.$label.withValue("submitter") { try job.submit(detached: detached) }
            }.value
            try await scenario.bus.parked("job")
            try Self.$label.withValue("reconnect") { try scenario.network.plug("eth0") }
            for await text in seen {
                #expect(text == (detached ? "none true" : "submitter true"))
                break
            }
        }
    }

    @Test func policyMayThrowTheReport() async throws {
        try await Scenario(online: false).run { scenario in
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1).throwsReport()
            let job = Task { try await scenario.bus.retry(policy, options: JobOptions(id: "job")) { _ in throw Trouble.refused } }
            try await scenario.bus.parked("job")
            scenario.clock.advance(by: .seconds(4))
            try scenario.network.plug("eth0")
            let report = try await #require(throws: GiveUp.self) { try await job.value }
            #expect(report.reason == .attempts && report.lastError as? Trouble == .refused)
            #expect(
                "\(report)" == "gave up after 1 attempt in 4 s, 4 s of them waiting: as many attempts were charged as the policy "
                    + "allows; the last error: refused")
            let cold = scenario.bus.job(policy.giveUpAfter(elapsed: .zero)) { _ in }
            let late = try await #require(throws: GiveUp.self) { try await cold.value }
            #expect("\(late)" == "gave up after no attempt in 0 ms: the time for the job was over")
        }
    }

    @Test func progressReleasesOtherJobs() async throws {
        try await Scenario(online: false).run { scenario in
            let bus = scenario.bus
            let (first, second) = (Gate(), Gate())
            let canary = Task {
                try await bus.retry(.scenario, options: JobOptions(id: "canary")) { attempt in
                    await first.pass()
                    attempt.reportProgress()
                    await second.pass()
                }
            }
            try await bus.parked("canary")
            let other = Task { try await bus.retry(.scenario, options: JobOptions(id: "other")) { _ in } }
            try await bus.parked("other")
            try scenario.network.plug("eth0")
            await first.untilReached()
            #expect(bus.pending.map(\.state) == [.running, .queued])
            first.open()
            try await other.value
            #expect(bus.pending.map(\.id) == ["canary"])
            second.open()
            try await canary.value
        }
    }

    @Test func progressKeepsChargedFailures() async throws {
        try await Scenario().run { scenario in
            let job = scenario.start {
                try await scenario.bus.retry(.scenario.giveUpAfter(maxAttempts: 2)) { attempt in
                    attempt.reportProgress()
                    throw attempt.number == 3 ? Trouble.refused : Trouble.other
                }
            }
            await scenario.letPass(until: job)
            await #expect(throws: Trouble.other) { try await job.value }
        }
    }
}
