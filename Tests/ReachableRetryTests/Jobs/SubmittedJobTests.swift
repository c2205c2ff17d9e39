import Reachability
import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Submitted jobs, without a waiting caller.
@Suite(.timeLimit(.minutes(10))) struct SubmittedJobTests {
    /// The bus's own stream shows the end of a life.
    private func end(of ids: Set<JobID>, in events: AsyncStream<RetryEvent>) async {
        var open = ids
        for await event in events where [.succeeded, .gaveUp, .cancelled].contains(event.kind) {
            open.remove(event.job)
            if open.isEmpty { return }
        }
    }

    @Test func submittedJobsStartAtTheReconnect() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let events = scenario.bus.events
            let job = script.job(scenario.bus)
            let ids = try [job.submit(detached: true), job.submit(detached: true)]
            #expect(scenario.bus.pending.map(\.id) == ids && scenario.bus.pending.map(\.state) == [.waiting, .waiting])
            // The job has no task, so none can be awake.
            #expect(scenario.bus.isQuiet)
            try scenario.network.plug("eth0")
            await end(of: Set(ids), in: events)
            #expect(script.calls.count == 2 && scenario.bus.pending.isEmpty)
        }
    }

    @Test func handlersReceiveAllEvents() async throws {
        try await Scenario(online: false).run { scenario in
            let (received, receive) = AsyncStream.makeStream(of: String.self)
            let script = Script(scenario, failures: [Trouble.refused])
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 1)
            try script.job(scenario.bus, policy, id: "job").onEvent { receive.yield($0.text) }.submit()
            var listener = received.makeAsyncIterator()
            #expect(await listener.next() == "waiting for the network")
            try scenario.network.plug("eth0")
            #expect(await listener.next() == "start 1")
            #expect(await listener.next() == "failed refused true")
            #expect(await listener.next() == "gave up refused 1")
        }
    }

    @Test func endIsReportedForUnstartedJobs() async throws {
        try await Scenario(online: false).run { scenario in
            let (reports, deliver) = AsyncStream.makeStream(of: GiveUp.self)
            let script = Script(scenario)
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(5)).onGiveUp { deliver.yield($0) }
            let id = try script.job(scenario.bus, policy).submit()
            scenario.clock.advance(by: .seconds(5))
            var listener = reports.makeAsyncIterator()
            let report = await listener.next()
            #expect(report?.job == id && report?.reason == .deadline && report?.attempts == 0 && script.calls.isEmpty)
        }
    }

    @Test func submittedJobsAreCancelledByName() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let events = scenario.bus.events
            let job = script.job(scenario.bus, id: "job")
            try job.submit()
            #expect(throws: RetryError.duplicateID) { try job.submit() }
            scenario.bus.cancel("job")
            await end(of: ["job"], in: events)
            #expect(scenario.bus.pending.isEmpty)
            try scenario.network.plug("eth0")
            #expect(script.calls.isEmpty)
        }
    }

    @Test func submittedJobsAreRetried() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other, Trouble.other])
            let events = scenario.bus.events
            let id = try script.job(scenario.bus).submit()
            let waiting = scenario.start { await end(of: [id], in: events) }
            await scenario.letPass(until: waiting)
            #expect(script.calls == [0, 1, 3])
        }
    }
}
