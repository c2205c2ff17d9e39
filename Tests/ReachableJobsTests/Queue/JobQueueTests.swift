import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// A queue on a store in memory, in a world with virtual time.
@Suite(.timeLimit(.minutes(10))) struct JobQueueTests {
    private static let sleeps: TestWorld.Handler = { world, _, _ in try await world.clock.sleep(for: .seconds(1_000_000)) }

    @Test func pushOfSeveralJobsHasARuleForEach() async throws {
        try await TestWorld.gated { world in
            let queue = world.queue()
            let first = try await queue.push(Send("a"), unique: .keep("a")).id
            let events = queue.events
            let receipts = try await queue.push(
                ["a", "b", "b", "c"].map { Send($0) }, uniqueBy: { $0.text == "c" ? nil : .keep($0.text) })
            #expect(receipts.map(\.outcome) == [.kept, .added, .kept, .added])
            #expect(receipts[0].id == first && receipts[1].id == receipts[2].id)
            #expect(try await queue.jobs().compactMap { $0.parameters(as: Send.self)?.text } == ["a", "b", "c"])
            var told: [DurableJobID?] = []
            for await event in events.prefix(4) { told.append(event.job) }
            #expect(told == receipts.map(\.id))
            // All or none.
            var configuration = JobQueue.Configuration()
            configuration.maxJobs = 4
            let small = JobQueue(world.store, bus: world.bus, configuration: configuration)
            await #expect(throws: JobStoreError.self) {
                try await small.push([Send("d"), Send("e")], uniqueBy: { .keep($0.text) })
            }
            #expect(try await queue.jobs().count == 3)
            #expect(try await small.push([Send("d"), Send("a")], uniqueBy: { .keep($0.text) }).map(\.outcome) == [.added, .kept])
        }
    }

    @Test func offlineNothingIsClaimedAndAReconnectStartsAtOnce() async throws {
        try await TestWorld.withQueue(online: false) { world, queue, log in
            for file in ["a", "b", "c"] { try await queue.push(Send(file)) }
            await world.clock.advance(by: .seconds(3600))
            #expect(try await queue.states == [.available, .available, .available])
            #expect(log.value.isEmpty)
            try world.network.plug("eth0")
            await world.settle()
            #expect(log.value == ["a 1", "b 1", "c 1"])
        }
    }

    @Test func aFailingStoreIsReportedOnceAndResultsAreKept() async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let isBroken = Mutex(true)
            var failing = WarpedStore(world.store)
            failing.onFinish = { results, worker in
                if isBroken.withLock(\.self) { throw JobStoreError(.diskFull, "no space is left", next: "free some space") }
                return try await world.store.finish(results, by: worker)
            }
            let queue = world.queue(log, on: failing)
            let events = queue.events
            try await world.running(queue) {
                try await queue.push(Send("a"))
                await world.clock.advance(by: .seconds(2))
                #expect(try await queue.states == [.running])
                isBroken.withLock { $0 = false }
                await world.clock.advance(by: .seconds(30))
            }
            #expect(try await queue.states == [.succeeded])
            #expect(log.value == ["a 1"])
            let seen = await events.texts { kind in
                switch kind {
                case .storeFailed(let error): error?.code.rawValue ?? "works"
                case .succeeded: "succeeded"
                default: nil
                }
            }
            #expect(seen == ["diskFull", "succeeded", "works"])
        }
    }

    @Test func aFailureBacksOffAndIsStored() async throws {
        let fails: TestWorld.Handler = { _, _, attempt in if attempt.number < 3 { throw Trouble() } }
        try await TestWorld.withQueue(handler: fails) { world, queue, log in
            try await queue.push(Send("a"))
            await world.settle()
            let job = try #require(await queue.jobs().first)
            #expect(job.state == .available && job.counters.started == 1 && job.counters.charged == 1)
            #expect(job.lastError == "on fire")
            await world.clock.advance(by: .milliseconds(999))
            #expect(log.value == ["a 1"])
            await world.clock.advance(by: .milliseconds(1))
            #expect(log.value == ["a 1", "a 2"])
            await world.clock.advance(by: .seconds(2))
            #expect(log.value == ["a 1", "a 2", "a 3"])
            #expect(try await queue.states == [.succeeded])
        }
    }

    @Test func restartsForgetNoCounter() async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let (first, second) = (world.queue { _, _, _ in throw Trouble() }, world.queue(log) { _, _, _ in throw Trouble() })
            try await world.running(first) {
                try await first.push(Send("a"))
                await world.settle()
            }
            try await world.running(second) { await world.clock.advance(by: .seconds(10)) }
            #expect(log.value == ["a 2", "a 3"])
            let job = try #require(await second.jobs().first)
            #expect(job.state == .failed && job.failureReason == "attempts" && job.counters.charged == 3)
        }
    }

    @Test func aLossDuringTheAttemptCostsNothing() async throws {
        let loses: TestWorld.Handler = { world, _, attempt in
            guard attempt.number == 1 else { return }
            try world.network.pull("eth0")
            throw Trouble()
        }
        try await TestWorld.withQueue(handler: loses) { world, queue, log in
            try await queue.push(Send("a"))
            await world.clock.advance(by: .seconds(60))
            let job = try #require(await queue.jobs().first)
            #expect(job.state == .available && job.counters.charged == 0 && job.counters.networkFailures == 1)
            try world.network.plug("eth0")
            await world.settle()
            #expect(log.value == ["a 1", "a 2"])
        }
    }

    /// Two failures, then one of the network, then another one.
    @Test(arguments: [(RetryPolicy.ReconnectRule.automatic, 1), (.keepBackoff, 3)])
    func reconnectStartsTheBackoffOver(rule: RetryPolicy.ReconnectRule, index: Int) async throws {
        let fails: TestWorld.Handler = { _, _, attempt in
            if attempt.number == 3 { throw Lost() }
            throw Trouble()
        }
        let policy = RetryPolicy.tests.giveUpAfter(maxAttempts: nil).onReconnect(rule)
        try await TestWorld.withQueue(policy: policy, handler: fails) { world, queue, log in
            try await queue.push(Send("a"))
            await world.clock.advance(by: .seconds(3))
            #expect(log.value == ["a 1", "a 2", "a 3"])
            try world.network.pull("eth0")
            await world.clock.advance(by: .milliseconds(100))
            try world.network.plug("eth0")
            await world.settle()
            #expect(log.value.last == "a 4")
            let job = try #require(await queue.jobs().first)
            #expect(job.counters.failureIndex == index && job.counters.charged == 3)
            #expect(job.softDelay.map { $0.since.duration(to: $0.until) } == .seconds(1 << (index - 1)))
        }
    }

    @Test func aDeadlinePassesOffline() async throws {
        let reports = Recorder<String>()
        let policy = RetryPolicy.tests.onGiveUp { reports.record($0.reason.rawValue) }
        try await TestWorld.withQueue(online: false, policy: policy) { world, queue, _ in
            try await queue.push(Send("a", timeLimit: .seconds(30)))
            await world.clock.advance(by: .seconds(29))
            #expect(try await queue.states == [.available])
            await world.clock.advance(by: .seconds(1))
            let job = try #require(await queue.jobs().first)
            #expect(job.state == .failed && job.failureReason == "deadline")
            #expect(reports.value == ["deadline"])
        }
    }

    /// The same kind and version in a release that cannot decode what others push.
    private struct BadSend: JobParameters {
        static let jobName = "send"
        var text: Int
    }

    @Test func undecodableJobWaitsForTheNextWorkerOnly() async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let (old, next) = (JobQueue(world.store, bus: world.bus), world.queue(log))
            old.registerJob(parameters: BadSend.self, policy: .tests) { _, _ in log.record("decoded") }
            let events = old.events
            let error = "the payload of version 1 cannot be decoded; next: register a handler that can"
            try await world.running(old) {
                let id = try await old.push(Send("a")).id
                await world.clock.advance(by: .seconds(7200))
                #expect(try await old.waitingFor(id) == ["waits for a worker that can decode version 1 of the kind 'send'"])
                #expect(try await next.waitingFor(id).first?.hasSuffix("after the error \(error)") == true)
                let job = try #require(await old.jobs().first)
                #expect(job.counters == DurableJob.Counters() && job.state == .available)
                try await world.running(next) { await world.clock.advance(by: .seconds(3600)) }
                #expect(log.value == ["a 1"])
                #expect(try await next.states == [.succeeded])
            }
            let retries = await events.texts { if case .willRetry(let error) = $0 { error ?? "-" } else { nil } }
            // After 0, 1, 3, 7, 15, 31 and 63 min, and a second each time for other workers.
            #expect(retries == Array(repeating: error, count: 7))
        }
    }

    /// A job that backs off after an attempt, and then comes to a worker that cannot decode it.
    @Test func backoffDoesNotLengthenTheTimeForDecoding() async throws {
        try await TestWorld.gated { world in
            let store = world.store
            let old = JobQueue(store, bus: world.bus)
            old.registerJob(parameters: BadSend.self, policy: .tests) { _, _ in }
            let events = old.events
            try await old.push(Send("a"))
            let worker = try await store.register()
            let job = try #require(try await store.claim(worker).jobs.first)
            let outcome = AttemptResult.Outcome.again(soft: .seconds(1200), isNetwork: false, hard: nil)
            _ = try await store.finish([AttemptResult(job.ticket, outcome, counters: job.job.counters)], by: worker)
            try await world.running(old) { await world.clock.advance(by: .seconds(1200 + 65)) }
            // At once, and after a minute.
            #expect(await events.texts { if case .willRetry = $0 { "again" } else { nil } } == ["again", "again"])
        }
    }

    @Test func aShutdownGivesRunningJobsBack() async throws {
        try await TestWorld.withQueue(handler: Self.sleeps) { world, queue, _ in
            try await queue.push(Send("a"))
            await world.settle()
            #expect(try await queue.states == [.running])
            let cut = world.start { await queue.shutdown(drain: .seconds(5)) }
            await world.clock.advance(by: .seconds(4))
            #expect(try await queue.states == [.running])
            await world.clock.advance(by: .seconds(1))
            let job = try #require(await queue.jobs().first)
            #expect(job.state == .available && job.counters.charged == 0 && job.counters.started == 1)
            #expect(await cut.value == [job.id])
        }
    }

    @Test func anotherRunReturnsAndEventsEndWithTheFirst() async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let queue = world.queue(log)
            let events = queue.events
            try await world.running(queue) {
                await world.settle()
                await queue.run()
                try await queue.push(Send("a"))
                await world.settle()
                #expect(log.value == ["a 1"])
            }
            // Ends: otherwise the test does not.
            #expect(await events.texts { "\($0)" }.contains("succeeded"))
        }
    }

    @Test func aRunningJobIsCancelled() async throws {
        try await TestWorld.withQueue(handler: Self.sleeps) { world, queue, _ in
            let id = try await queue.push(Send("a")).id
            await world.settle()
            #expect(try await queue.cancel(id) == .requested)
            await world.settle()
            #expect(try await queue.states == [.cancelled])
        }
    }

    /// The worker does not hear of the request: the store decides when the claim ends.
    @Test(arguments: [true, false]) func requestedCancellationIsToldOnce(endsItself: Bool) async throws {
        try await TestWorld.gated { world in
            var silent = WarpedStore(world.store)
            silent.onChanges = { AsyncStream { _ in } }
            let queue = world.queue(on: silent) { world, _, _ in
                try await world.clock.sleep(for: .seconds(endsItself ? 5 : 1_000_000))
                throw Trouble()
            }
            let id = try await queue.push(Send("a")).id
            let events = queue.events
            try await world.running(queue) { () async throws in
                await world.settle()
                #expect(try await world.store.cancel([id]) == [.requested])
                // Before the heartbeat tells of the request.
                if endsItself { await world.clock.advance(by: .seconds(5)) }
            }
            #expect(try await queue.states == [.cancelled])
            let ends = await events.texts { kind in
                switch kind {
                case .cancelled, .willRetry, .succeeded, .failed: "\(kind)"
                default: nil
                }
            }
            #expect(ends == ["cancelled"])
        }
    }

    @Test func aRefusedSuccessIsNotPublishedAsOne() async throws {
        try await TestWorld.gated { world in
            var refusing = WarpedStore(world.store)
            refusing.onFinish = { results, worker in
                try await world.store.finish(results, by: worker).map { _ in .refused }
            }
            let queue = world.queue(on: refusing)
            let events = queue.events
            try await world.running(queue) {
                try await queue.push(Send("a"))
                await world.settle()
            }
            #expect(await events.texts { "\($0)" }.dropFirst() == ["attemptStarted(1)", "refused"])
        }
    }

    @Test func aKindRunsNoMoreThanItsLimit() async throws {
        let sleeps: TestWorld.Handler = { world, _, _ in try await world.clock.sleep(for: .seconds(1)) }
        try await TestWorld.withQueue(maxConcurrent: 2, handler: sleeps) { world, queue, log in
            for file in ["a", "b", "c"] { try await queue.push(Send(file)) }
            await world.settle()
            #expect(log.value == ["a 1", "b 1"])
            await world.clock.advance(by: .seconds(1))
            #expect(log.value == ["a 1", "b 1", "c 1"])
        }
    }

    @Test func workerForgetsLanesThatAreGone() async throws {
        try await TestWorld.gated { world in
            let named = Mutex(0)
            var counting = WarpedStore(world.store)
            counting.onClaim = { request in named.withLock { $0 = request.lanes.count } }
            var configuration = JobQueue.Configuration()
            configuration.retention = Retention(succeeded: .seconds(60), failed: .seconds(60))
            let queue = JobQueue(counting, bus: world.bus, configuration: configuration)
            queue.registerJob(parameters: Send.self) { _, _ in }
            try await world.running(queue) {
                let jobs = (1...9).map { Send("a", address: "192.0.2.\($0)") }
                try await queue.push(jobs)
                await world.settle()
                #expect(named.withLock { $0 } == 9)
                await world.clock.advance(by: .seconds(1200))
                // The next claim learns that the lanes are gone, and the one after it names the new ones only.
                for job in jobs.prefix(2) {
                    try await queue.push(job)
                    await world.settle()
                }
                #expect(named.withLock { $0 } == 2)
                try await queue.push(jobs[0])
                await world.settle()
                #expect(try await queue.states == [.succeeded, .succeeded, .succeeded])
            }
        }
    }

    @Test(arguments: [true, false]) func aCrashFreesTheJobAndRefusesTheLateResult(isRepeatable: Bool) async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let first = world.queue(log) { world, _, attempt in
                if attempt.number == 1 { try await world.clock.sleep(for: .seconds(5)) }
            }
            let second = world.queue(log)
            let events = first.events
            try await world.running(first) {
                try await first.push(Send("a", isRepeatable: isRepeatable))
                await world.settle()
                // The first worker of the store. Its tasks go on, and it registers again, like a process that was stopped for long.
                world.store.crash(WorkerID(rawValue: 1))
                try await world.running(second) {
                    await world.settle()
                    let job = try #require(await second.jobs().first)
                    #expect(job.counters.crashes == 1 && job.counters.charged == 0)
                    #expect(log.value == (isRepeatable ? ["a 1", "a 2"] : ["a 1"]))
                    #expect(job.state == (isRepeatable ? .succeeded : .failed))
                    #expect(job.failureReason == (isRepeatable ? nil : "outcomeUnknown"))
                    await world.clock.advance(by: .seconds(5))
                }
            }
            #expect(await events.texts { "\($0)" }.contains("refused"))
        }
    }

    @Test func jobsThatEndedTheirProcessThriceRunOneAtATime() async throws {
        try await TestWorld.gated { world in
            let log = Recorder<String>()
            let running = Atomic(0)
            let queue = world.queue(log) { world, _, _ in
                #expect(running.add(1, ordering: .relaxed).newValue == 1)
                try await world.clock.sleep(for: .seconds(1))
                running.subtract(1, ordering: .relaxed)
            }
            for file in ["a", "b", "c"] { try await queue.push(Send(file)) }
            for _ in 0..<3 {
                let worker = try await world.store.register()
                let tickets = try await world.store.claim(worker).jobs.map(\.ticket)
                #expect(try await world.store.start(tickets, by: worker) == [true, true, true])
                world.store.crash(worker)
            }
            try await world.running(queue) { await world.clock.advance(by: .seconds(10)) }
            #expect(log.value == ["a 4", "b 4", "c 4"])
            #expect(try await queue.states == [.succeeded, .succeeded, .succeeded])
        }
    }
}
