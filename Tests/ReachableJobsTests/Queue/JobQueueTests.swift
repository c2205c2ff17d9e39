import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// A queue on a store in memory, in a world with virtual time.
@Suite(.timeLimit(.minutes(10))) struct JobQueueTests {
    private struct Upload: JobParameters {
        static let jobName = "upload"
        var file: String
        var serialKey: String?
        var timeLimit: Duration?
        var isRepeatable: Bool

        init(_ file: String, serialKey: String? = nil, timeLimit: Duration? = nil, isRepeatable: Bool = true) {
            (self.file, self.serialKey, self.timeLimit, self.isRepeatable) = (file, serialKey, timeLimit, isRepeatable)
        }

        var options: DurableOptions {
            DurableOptions(timeLimit: timeLimit, serialKey: serialKey, isRepeatable: isRepeatable)
        }
    }

    private struct Trouble: Error, CustomStringConvertible {
        var description = "the server is on fire"
    }

    /// The calls that the handlers of a test have seen.
    private final class Log: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }
        func note(_ line: String) { lines.withLock { $0.append(line) } }
    }

    private static let policy = RetryPolicy.default.backoff(.exponential(initial: .seconds(1)).jitter(.none))
        .giveUpAfter(maxAttempts: 3)

    /// A process that works on a store.
    private struct Process: Sendable {
        let queue: JobQueue
        let log = Log()

        init(
            _ world: TestWorld, _ store: any JobStore, _ policy: RetryPolicy = JobQueueTests.policy, maxConcurrent: Int? = nil,
            _ handler: @escaping @Sendable (String, DurableAttempt) async throws -> Void = { _, _ in }
        ) {
            queue = JobQueue(store, bus: world.bus)
            queue.registerJob(parameters: Upload.self, policy: policy, maxConcurrent: maxConcurrent) { [log] upload, attempt in
                log.note("\(upload.file) \(attempt.number)")
                try await handler(upload.file, attempt)
            }
        }
    }

    private func inWorld(_ body: @escaping @Sendable (TestWorld, MemoryStore) async throws -> Void) async throws {
        var configuration = RetryBus.Configuration()
        configuration.releasePolicy = .gated(jitter: false)
        try await TestWorld(busConfiguration: configuration).run { world in
            try await body(world, MemoryStore(clock: world.clock.manual))
        }
    }

    private func states(_ queue: JobQueue) async throws -> [DurableJob.State] { try await queue.jobs().map(\.state) }

    @Test func aPushedJobRuns() async throws {
        try await inWorld { world, store in
            let process = Process(world, store)
            let running = world.start { await process.queue.run() }
            await world.settle()
            try await process.queue.push(Upload("a"))
            await world.settle()
            #expect(process.log.all == ["a 1"])
            #expect(try await states(process.queue) == [.succeeded])
            #expect(await process.queue.shutdown().isEmpty)
            await running.value
        }
    }

    @Test func pushOfSeveralJobsHasARuleForEach() async throws {
        try await inWorld { world, store in
            let queue = Process(world, store).queue
            let first = try await queue.push(Upload("a"), unique: .keep("a")).id
            let events = queue.events
            let receipts = try await queue.push(
                ["a", "b", "b", "c"].map { Upload($0) }, uniqueBy: { $0.file == "c" ? nil : .keep($0.file) })
            #expect(receipts.map(\.outcome) == [.kept, .added, .kept, .added])
            #expect(receipts[0].id == first && receipts[1].id == receipts[2].id)
            #expect(try await queue.jobs().compactMap { $0.parameters(as: Upload.self)?.file } == ["a", "b", "c"])
            var told: [DurableJobID?] = []
            for await event in events.prefix(4) { told.append(event.job) }
            #expect(told == receipts.map(\.id))
            // All or none.
            var configuration = JobQueue.Configuration()
            configuration.maxJobs = 4
            let small = JobQueue(store, bus: world.bus, configuration: configuration)
            await #expect(throws: JobStoreError.self) {
                try await small.push([Upload("d"), Upload("e")], uniqueBy: { .keep($0.file) })
            }
            #expect(try await queue.jobs().count == 3)
            #expect(
                try await small.push([Upload("d"), Upload("a")], uniqueBy: { .keep($0.file) }).map(\.outcome) == [.added, .kept])
        }
    }

    @Test func aJobOfAnEarlierProcessRuns() async throws {
        try await inWorld { world, store in
            let first = Process(world, store)
            try await first.queue.push(Upload("a"))
            let second = Process(world, store)
            let running = world.start { await second.queue.run() }
            await world.settle()
            #expect(first.log.all.isEmpty && second.log.all == ["a 1"])
            running.cancel()
            await running.value
        }
    }

    @Test func offlineNothingIsClaimedAndAReconnectStartsAtOnce() async throws {
        try await inWorld { world, store in
            try world.network.pull("eth0")
            let process = Process(world, store)
            let running = world.start { await process.queue.run() }
            for file in ["a", "b", "c"] { try await process.queue.push(Upload(file)) }
            await world.clock.advance(by: .seconds(3600))
            #expect(try await states(process.queue) == [.available, .available, .available])
            #expect(process.log.all.isEmpty)
            try world.network.plug("eth0")
            await world.settle()
            #expect(process.log.all == ["a 1", "b 1", "c 1"])
            running.cancel()
            await running.value
        }
    }

    @Test func aFailureBacksOffAndIsStored() async throws {
        try await inWorld { world, store in
            let process = Process(world, store) { _, attempt in if attempt.number < 3 { throw Trouble() } }
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a"))
            await world.settle()
            let job = try #require(await process.queue.jobs().first)
            #expect(job.state == .available && job.counters.started == 1 && job.counters.charged == 1)
            #expect(job.lastError == "the server is on fire")
            await world.clock.advance(by: .milliseconds(999))
            #expect(process.log.all == ["a 1"])
            await world.clock.advance(by: .milliseconds(1))
            #expect(process.log.all == ["a 1", "a 2"])
            await world.clock.advance(by: .seconds(2))
            #expect(process.log.all == ["a 1", "a 2", "a 3"])
            #expect(try await states(process.queue) == [.succeeded])
            running.cancel()
            await running.value
        }
    }

    @Test func restartsForgetNoCounter() async throws {
        try await inWorld { world, store in
            let first = Process(world, store) { _, _ in throw Trouble() }
            let firstRun = world.start { await first.queue.run() }
            try await first.queue.push(Upload("a"))
            await world.settle()
            firstRun.cancel()
            await firstRun.value
            let second = Process(world, store) { _, _ in throw Trouble() }
            let running = world.start { await second.queue.run() }
            await world.clock.advance(by: .seconds(10))
            #expect(second.log.all == ["a 2", "a 3"])
            let job = try #require(await second.queue.jobs().first)
            #expect(job.state == .failed && job.failureReason == "attempts" && job.counters.charged == 3)
            running.cancel()
            await running.value
        }
    }

    @Test func aLossDuringTheAttemptCostsNothing() async throws {
        try await inWorld { world, store in
            let process = Process(world, store) { [network = world.network] _, attempt in
                guard attempt.number == 1 else { return }
                try network.pull("eth0")
                throw Trouble()
            }
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a"))
            await world.clock.advance(by: .seconds(60))
            let job = try #require(await process.queue.jobs().first)
            #expect(job.state == .available && job.counters.charged == 0 && job.counters.networkFailures == 1)
            try world.network.plug("eth0")
            await world.settle()
            #expect(process.log.all == ["a 1", "a 2"])
            running.cancel()
            await running.value
        }
    }

    private struct Lost: Error {}

    /// Two failures, then one of the network, then another one.
    @Test(arguments: [(RetryPolicy.ReconnectRule.automatic, 1), (.keepBackoff, 3)])
    func reconnectStartsTheBackoffOver(rule: RetryPolicy.ReconnectRule, index: Int) async throws {
        try await inWorld { world, store in
            let policy = Self.policy.giveUpAfter(maxAttempts: nil).onReconnect(rule).classify { $0 is Lost ? .network : nil }
            let process = Process(world, store, policy) { _, attempt in
                if attempt.number == 3 { throw Lost() }
                throw Trouble()
            }
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a"))
            await world.clock.advance(by: .seconds(3))
            #expect(process.log.all == ["a 1", "a 2", "a 3"])
            try world.network.pull("eth0")
            await world.clock.advance(by: .milliseconds(100))
            try world.network.plug("eth0")
            await world.settle()
            #expect(process.log.all.last == "a 4")
            let job = try #require(await process.queue.jobs().first)
            #expect(job.counters.failureIndex == index && job.counters.charged == 3)
            #expect(job.softDelay.map { $0.since.duration(to: $0.until) } == .seconds(1 << (index - 1)))
            running.cancel()
            await running.value
        }
    }

    @Test func serialJobsRunOneAfterTheOther() async throws {
        try await inWorld { world, store in
            let process = Process(world, store) { file, attempt in if file == "a", attempt.number == 1 { throw Trouble() } }
            let running = world.start { await process.queue.run() }
            for file in ["a", "b", "c"] { try await process.queue.push(Upload(file, serialKey: "document")) }
            await world.settle()
            #expect(process.log.all == ["a 1"])
            await world.clock.advance(by: .seconds(1))
            #expect(process.log.all == ["a 1", "a 2", "b 1", "c 1"])
            running.cancel()
            await running.value
        }
    }

    @Test func aDeadlinePassesOffline() async throws {
        try await inWorld { world, store in
            try world.network.pull("eth0")
            let reports = Log()
            let policy = JobQueueTests.policy.onGiveUp { reports.note($0.reason.rawValue) }
            let process = Process(world, store, policy)
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a", timeLimit: .seconds(30)))
            await world.clock.advance(by: .seconds(29))
            #expect(try await states(process.queue) == [.available])
            await world.clock.advance(by: .seconds(1))
            let job = try #require(await process.queue.jobs().first)
            #expect(job.state == .failed && job.failureReason == "deadline")
            #expect(reports.all == ["deadline"])
            running.cancel()
            await running.value
        }
    }

    private struct Call: JobParameters {
        static let jobName = "call"
        var address: String
        var options: DurableOptions { DurableOptions(to: IPAddress(address).map(Scope.address) ?? .internet) }
    }

    /// The same kind and version in the next release, which can decode what this one pushed.
    private struct NextUpload: JobParameters {
        static let jobName = "upload"
        var file: String
    }

    /// The same kind and version in a release that cannot.
    private struct BadUpload: JobParameters {
        static let jobName = "upload"
        var file: Int
    }

    @Test func undecodableJobWaitsForTheNextWorkerOnly() async throws {
        try await inWorld { world, store in
            let (old, next) = (JobQueue(store, bus: world.bus), JobQueue(store, bus: world.bus))
            let log = Log()
            old.registerJob(parameters: BadUpload.self, policy: Self.policy) { _, _ in log.note("decoded") }
            next.registerJob(parameters: NextUpload.self, policy: Self.policy) { upload, _ in log.note(upload.file) }
            let retries = Log()
            let events = old.events
            let listening = world.start {
                for await event in events { if case .willRetry(let error) = event.kind { retries.note(error ?? "-") } }
            }
            let oldRun = world.start { await old.run() }
            let id = try await old.push(NextUpload(file: "a")).id
            await world.clock.advance(by: .seconds(7200))
            let words = ["waits for a worker that can decode version 1 of the kind 'upload'"]
            #expect(try await old.waitingFor(id) == words)
            let error = "the payload of version 1 cannot be decoded; next: register a handler that can"
            #expect(try await next.waitingFor(id).first?.hasSuffix("after the error \(error)") == true)
            let job = try #require(await old.jobs().first)
            #expect(job.counters == DurableJob.Counters() && job.state == .available)
            // After 0, 1, 3, 7, 15, 31 and 63 min, and a second each time for other workers.
            #expect(retries.all == Array(repeating: error, count: 7))
            let nextRun = world.start { await next.run() }
            await world.clock.advance(by: .seconds(3600))
            #expect(log.all == ["a"])
            #expect(try await states(next) == [.succeeded])
            for run in [oldRun, nextRun] {
                run.cancel()
                await run.value
            }
            await listening.value
        }
    }

    @Test func aShutdownGivesRunningJobsBack() async throws {
        try await inWorld { world, store in
            let process = Process(world, store) { [clock = world.clock] _, _ in try await clock.sleep(for: .seconds(1_000_000)) }
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a"))
            await world.settle()
            #expect(try await states(process.queue) == [.running])
            let cut = world.start { await process.queue.shutdown(drain: .seconds(5)) }
            await world.clock.advance(by: .seconds(4))
            #expect(try await states(process.queue) == [.running])
            await world.clock.advance(by: .seconds(1))
            await running.value
            let job = try #require(await process.queue.jobs().first)
            #expect(job.state == .available && job.counters.charged == 0 && job.counters.started == 1)
            #expect(await cut.value == [job.id])
        }
    }

    @Test func anotherRunReturnsAndEventsEndWithTheFirst() async throws {
        try await inWorld { world, store in
            let process = Process(world, store)
            let running = world.start { await process.queue.run() }
            let events = process.queue.events
            await world.settle()
            await process.queue.run()
            try await process.queue.push(Upload("a"))
            await world.settle()
            #expect(process.log.all == ["a 1"])
            running.cancel()
            await running.value
            // Ends: otherwise the test does not.
            var kinds: [String] = []
            for await event in events { kinds.append("\(event.kind)") }
            #expect(kinds.contains("succeeded"))
        }
    }

    @Test func aRunningJobIsCancelled() async throws {
        try await inWorld { world, store in
            let process = Process(world, store) { [clock = world.clock] _, _ in try await clock.sleep(for: .seconds(1_000_000)) }
            let running = world.start { await process.queue.run() }
            let id = try await process.queue.push(Upload("a")).id
            await world.settle()
            #expect(try await process.queue.cancel(id) == .requested)
            await world.settle()
            #expect(try await states(process.queue) == [.cancelled])
            running.cancel()
            await running.value
        }
    }

    /// The worker does not hear of the request: the store decides when the claim ends.
    @Test(arguments: [true, false]) func requestedCancellationIsToldOnce(endsItself: Bool) async throws {
        try await inWorld { world, store in
            var silent = WarpedStore(store)
            silent.hinting = { AsyncStream { _ in } }
            let process = Process(world, silent) { [clock = world.clock] _, _ in
                try await clock.sleep(for: .seconds(endsItself ? 5 : 1_000_000))
                throw Trouble()
            }
            let id = try await process.queue.push(Upload("a")).id
            let events = process.queue.events
            let running = world.start { await process.queue.run() }
            await world.settle()
            #expect(try await store.cancel([id]) == [.requested])
            // Before the heartbeat tells of the request.
            if endsItself { await world.clock.advance(by: .seconds(5)) }
            running.cancel()
            await running.value
            #expect(try await states(process.queue) == [.cancelled])
            var ends: [String] = []
            for await event in events {
                switch event.kind {
                case .cancelled, .willRetry, .succeeded, .failed: ends.append("\(event.kind)")
                default: break
                }
            }
            #expect(ends == ["cancelled"])
        }
    }

    @Test func unknownKindsAndVersionsWait() async throws {
        try await inWorld { world, store in
            let process = Process(world, store)
            let running = world.start { await process.queue.run() }
            let unknown = NewJob(queue: "default", kind: "unknown", payload: Data("{}".utf8))
            let newer = NewJob(queue: "default", kind: "upload", version: 2, payload: Data("{}".utf8))
            let unreadable = NewJob(queue: "default", kind: "upload", payload: Data("no JSON".utf8))
            _ = try await store.push([unknown, newer, unreadable], limit: nil)
            await world.clock.advance(by: .seconds(60))
            let jobs = try await process.queue.jobs()
            #expect(jobs.map(\.state) == [.available, .available, .available])
            #expect(jobs.map(\.counters.charged) == [0, 0, 0])
            #expect(jobs.map(\.counters.started) == [0, 0, 0])
            #expect(jobs[2].lastError?.contains("cannot be decoded") == true)
            #expect(
                try await process.queue.pending(jobs.map(\.id)).map(\.reason) == [
                    "waits for a worker with the kind 'unknown': it is not registered here",
                    "waits for a worker with version 2 of the kind 'upload': registered here is 1",
                    "waits for a worker that can decode version 1 of the kind 'upload'",
                ])
            // Neither a reboot nor another day changes that.
            await world.clock.advance(by: .seconds(86_400))
            #expect(try await states(process.queue) == [.available, .available, .available])
            running.cancel()
            await running.value
        }
    }

    @Test func aRefusedSuccessIsNotPublishedAsOne() async throws {
        try await inWorld { world, store in
            var refusing = WarpedStore(store)
            refusing.finishing = { (results, _) throws(JobStoreError) in results.map { _ in .refused } }
            let process = Process(world, refusing)
            let (events, seen) = (process.queue.events, Log())
            let listening = world.start { for await event in events { seen.note("\(event.kind)") } }
            let running = world.start { await process.queue.run() }
            try await process.queue.push(Upload("a"))
            await world.settle()
            #expect(seen.all.dropFirst() == ["attemptStarted(1)", "refused"])
            for task in [listening, running] {
                task.cancel()
                await task.value
            }
        }
    }

    @Test func aKindRunsNoMoreThanItsLimit() async throws {
        try await inWorld { world, store in
            let process = Process(world, store, maxConcurrent: 2) { [clock = world.clock] _, _ in
                try await clock.sleep(for: .seconds(1))
            }
            let running = world.start { await process.queue.run() }
            await world.settle()
            for file in ["a", "b", "c"] { try await process.queue.push(Upload(file)) }
            await world.settle()
            #expect(process.log.all == ["a 1", "b 1"])
            await world.clock.advance(by: .seconds(1))
            #expect(process.log.all == ["a 1", "b 1", "c 1"])
            running.cancel()
            await running.value
        }
    }

    @Test func workerForgetsLanesThatAreGone() async throws {
        try await inWorld { world, store in
            let named = Mutex(0)
            let counting = WarpedStore(store).changingRequests({ request in named.withLock { $0 = request.lanes.count } })
            var configuration = JobQueue.Configuration()
            configuration.retention = Retention(succeeded: .seconds(60), failed: .seconds(60))
            let queue = JobQueue(counting, bus: world.bus, configuration: configuration)
            queue.registerJob(parameters: Call.self) { _, _ in }
            let running = world.start { await queue.run() }
            let addresses = (1...9).map { "192.0.2.\($0)" }
            try await queue.push(addresses.map { Call(address: $0) })
            await world.settle()
            #expect(named.withLock { $0 } == 9)
            await world.clock.advance(by: .seconds(1200))
            // The next claim learns that the lanes are gone, and the one after it names the new ones only.
            for address in addresses.prefix(2) {
                try await queue.push(Call(address: address))
                await world.settle()
            }
            #expect(named.withLock { $0 } == 2)
            try await queue.push(Call(address: addresses[0]))
            await world.settle()
            #expect(try await states(queue) == [.succeeded, .succeeded, .succeeded])
            running.cancel()
            await running.value
        }
    }

    @Test func aPausedQueueStartsNothing() async throws {
        try await inWorld { world, store in
            let process = Process(world, store)
            let running = world.start { await process.queue.run() }
            try await process.queue.pause()
            try await process.queue.push(Upload("a"))
            await world.clock.advance(by: .seconds(60))
            #expect(process.log.all.isEmpty)
            try await process.queue.resume()
            await world.settle()
            #expect(process.log.all == ["a 1"])
            running.cancel()
            await running.value
        }
    }

    @Test(arguments: [true, false]) func aCrashFreesTheJobAndRefusesTheLateResult(isRepeatable: Bool) async throws {
        try await inWorld { world, store in
            let first = Process(world, store) { [clock = world.clock] _, attempt in
                if attempt.number == 1 { try await clock.sleep(for: .seconds(5)) }
            }
            let second = Process(world, store)
            let refusals = Log()
            let firstRun = world.start { await first.queue.run() }
            let events = first.queue.events
            let listening = world.start {
                for await event in events { if case .refused = event.kind { refusals.note("refused") } }
            }
            try await first.queue.push(Upload("a", isRepeatable: isRepeatable))
            await world.settle()
            // The first worker of the store. Its tasks go on, and it registers again, like a process that was stopped for long.
            store.crash(WorkerID(rawValue: 1))
            let secondRun = world.start { await second.queue.run() }
            await world.settle()
            let job = try #require(await second.queue.jobs().first)
            #expect(job.counters.crashes == 1 && job.counters.charged == 0)
            #expect(first.log.all + second.log.all == (isRepeatable ? ["a 1", "a 2"] : ["a 1"]))
            #expect(job.state == (isRepeatable ? .succeeded : .failed))
            #expect(job.failureReason == (isRepeatable ? nil : "outcomeUnknown"))
            await world.clock.advance(by: .seconds(5))
            #expect(!refusals.all.isEmpty)
            for run in [firstRun, secondRun] {
                run.cancel()
                await run.value
            }
            listening.cancel()
            await listening.value
        }
    }

    @Test func jobsThatEndedTheirProcessThriceRunOneAtATime() async throws {
        try await inWorld { world, store in
            let running = Mutex(0)
            let process = Process(world, store) { [clock = world.clock] _, _ in
                #expect(
                    running.withLock { count in
                        count += 1
                        return count == 1
                    })
                try await clock.sleep(for: .seconds(1))
                running.withLock { $0 -= 1 }
            }
            for file in ["a", "b", "c"] { try await process.queue.push(Upload(file)) }
            for _ in 0..<3 {
                let worker = try await store.register(queue: "default", node: "node")
                let request = ClaimRequest(worker: worker, limit: 10, lanes: [.init(lane: 1)], lastKnownLane: 1)
                let tickets = try await store.claim(request).jobs.map(\.ticket)
                #expect(try await store.start(tickets, by: worker) == [true, true, true])
                store.crash(worker)
            }
            let run = world.start { await process.queue.run() }
            await world.clock.advance(by: .seconds(10))
            #expect(process.log.all == ["a 4", "b 4", "c 4"])
            #expect(try await states(process.queue) == [.succeeded, .succeeded, .succeeded])
            run.cancel()
            await run.value
        }
    }

    @Test func twoProcessesShareTheWork() async throws {
        try await inWorld { world, store in
            let sleep: @Sendable (String, DurableAttempt) async throws -> Void = { [clock = world.clock] _, _ in
                try await clock.sleep(for: .seconds(1))
            }
            let (first, second) = (Process(world, store, maxConcurrent: 1, sleep), Process(world, store, maxConcurrent: 1, sleep))
            let runs = [first, second].map { process in world.start { await process.queue.run() } }
            await world.settle()
            for file in ["a", "b", "c", "d"] { try await first.queue.push(Upload(file)) }
            await world.settle()
            #expect(first.log.all.count == 1 && second.log.all.count == 1)
            await world.clock.advance(by: .seconds(2))
            #expect((first.log.all + second.log.all).sorted() == ["a 1", "b 1", "c 1", "d 1"])
            for run in runs {
                run.cancel()
                await run.value
            }
        }
    }
}
