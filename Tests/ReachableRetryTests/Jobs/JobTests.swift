import Reachability
import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Cold jobs: they start on demand.
@Suite(.timeLimit(.minutes(10))) struct JobTests {
    @Test func eachValueIsAnIndependentLife() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other, Trouble.other])
            let job = script.job(scenario.bus)
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0] && script.calls.isEmpty)
            let first = scenario.start { try await job.value }
            await scenario.letPass(until: first)
            try await #expect(first.value == 3 && script.calls == [0, 1, 3])
            try await #expect(job.value == 4 && script.calls == [0, 1, 3, 3])
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func jobThatGivesUpThrowsItsLastError() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: Array(repeating: Trouble.refused, count: 9))
            let job = script.job(scenario.bus, .scenario.giveUpAfter(maxAttempts: 2)).onEvent { script.note($0) }
            let task = scenario.start { try await job.value }
            await scenario.letPass(until: task)
            await #expect(throws: Trouble.refused) { try await task.value }
            #expect(
                script.events == [
                    "start 1", "failed refused true", "backing off 1.0", "start 2", "failed refused true", "gave up refused 2",
                ])
        }
    }

    @Test func lifeIsReportedEventByEvent() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other])
            var events = script.job(scenario.bus).events.makeAsyncIterator()
            #expect(script.calls.isEmpty && scenario.bus.pending.isEmpty)
            #expect(await events.next()?.text == "start 1")
            #expect(await events.next()?.text == "failed other true")
            #expect(await events.next()?.text == "backing off 1.0")
            scenario.clock.advance(by: .seconds(1))
            #expect(await events.next()?.text == "start 2")
            #expect(await events.next()?.text == "attempt 2")
            #expect(await events.next()?.text == "succeeded 2")
            #expect(await events.next() == nil)
            #expect(script.calls == [0, 1] && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func noAttemptStartsForUnreadEvents() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            var events = script.job(scenario.bus, id: "job").events.makeAsyncIterator()
            #expect(await events.next()?.text == "waiting for the network")
            #expect(scenario.bus.pending.map(\.state) == [.paused])
            try scenario.network.plug("eth0")
            scenario.clock.advance(by: .seconds(100))
            #expect(script.calls.isEmpty && scenario.bus.isQuiet)
            #expect(await events.next()?.text == "start 1" && script.calls.isEmpty)
            #expect(await events.next()?.text == "attempt 1")
            #expect(script.calls == [100])
        }
    }

    @Test func aSlowReaderUsesUpNoAttempt() async throws {
        try await Scenario(release: .immediate, maxConcurrent: 1).run { scenario in
            let script = Script(scenario)
            var events = script.job(scenario.bus, .scenario.attemptTimeout(.seconds(5))).events.makeAsyncIterator()
            #expect(await events.next()?.text == "start 1")
            // Its place is free for the reader itself.
            let other = scenario.start { try await scenario.bus.retry(.scenario) { _ in 7 } }
            try await #expect(other.value == 7)
            scenario.clock.advance(by: .seconds(20))
            #expect(await events.next()?.text == "attempt 1")
            #expect(script.calls == [20])
        }
    }

    @Test func anAttemptIsReportedAgainAfterAWait() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario)
            var events = script.job(scenario.bus).events.makeAsyncIterator()
            #expect(await events.next()?.text == "start 1")
            try scenario.network.pull("eth0")
            #expect(await events.next()?.text == "waiting for the network")
            try scenario.network.plug("eth0")
            #expect(await events.next()?.text == "start 1")
            #expect(await events.next()?.text == "attempt 1")
        }
    }

    /// A slow reader does not extend the delay.
    @Test func delaysPassBetweenReads() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario, failures: [Trouble.other, Trouble.other])
            var events = script.job(scenario.bus).events.makeAsyncIterator()
            #expect(await events.next()?.text == "start 1")
            #expect(await events.next()?.text == "failed other true")
            scenario.clock.advance(by: .seconds(5))
            #expect(await events.next()?.text == "start 2")
            #expect(await events.next()?.text == "failed other true")
            scenario.clock.advance(by: .milliseconds(500))
            #expect(await events.next()?.text == "backing off 1.5")
            #expect(script.calls == [0, 5])
        }
    }

    @Test func droppedEventsCancelTheJob() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            do {
                var events = script.job(scenario.bus).events.makeAsyncIterator()
                #expect(await events.next()?.text == "waiting for the network" && scenario.bus.pending.count == 1)
            }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
            try scenario.network.plug("eth0")
            #expect(script.calls.isEmpty)
        }
    }

    @Test func cancelledReaderReceivesTheEnd() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus, id: "job")
            let reader = Task { await job.events.texts }
            _ = try await scenario.bus.untilParked("job")
            reader.cancel()
            #expect(await reader.value == ["waiting for the network", "cancelled"])
            let caller = Task { try await job.value }
            _ = try await scenario.bus.untilParked("job")
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0] && script.calls.isEmpty)
        }
    }

    @Test func handlersStackAndReceiveEveryLife() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus).onEvent { script.note($0, by: "a ") }.onEvent { script.note($0, by: "b ") }
            _ = try await job.value
            _ = await job.events.texts
            #expect(
                script.events == [
                    "a start 1", "b start 1", "a attempt 1", "b attempt 1", "a succeeded 1", "b succeeded 1", "a start 1",
                    "b start 1", "a attempt 2", "b attempt 2", "a succeeded 2", "b succeeded 2",
                ])
        }
    }

    @Test func allConditionsHaveToBeSatisfied() async throws {
        try await Scenario().run { scenario in
            let (login, power) = (ConditionSource("login", isSatisfied: false), ConditionSource("power", isSatisfied: false))
            let script = Script(scenario)
            let job = script.job(scenario.bus, id: "job").onlyWhen(login.condition).onlyWhen(power.condition)
            let task = Task { try await job.value }
            try await #expect(scenario.bus.untilParked("job").unmet == ["login", "power"])
            login.set(true)
            try await #expect(scenario.bus.untilParked("job").unmet == ["power"] && script.calls.isEmpty)
            power.set(true)
            try await #expect(task.value == 1)
        }
    }

    @Test func busThatIsShutDownRefusesLives() async throws {
        try await Scenario().run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus)
            await scenario.bus.shutdown(drain: .zero)
            await #expect(throws: RetryError.shutDown) { try await job.value }
            #expect(await job.events.texts == ["gave up \(RetryError.shutDown) -1"])
            #expect(throws: RetryError.shutDown) { try job.submit() }
        }
    }

    @Test func ownersPauseOutlastsAReadersDemand() async throws {
        try await Scenario(online: false).run { scenario in
            let script = Script(scenario)
            let job = script.job(scenario.bus, id: "job")
            let reader = Task { await job.events.texts }
            _ = try await scenario.bus.untilParked("job")
            scenario.bus.pause("job")
            try scenario.network.plug("eth0")
            #expect(scenario.bus.pending.map(\.state) == [.paused] && script.calls.isEmpty)
            scenario.bus.resume("job")
            #expect(await reader.value == ["waiting for the network", "start 1", "attempt 1", "succeeded 1"])
        }
    }
}
