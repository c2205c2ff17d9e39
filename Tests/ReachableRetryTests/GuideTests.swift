import Foundation
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// The code and the claims of the guide "Offline-first in ten minutes".
@Suite(.timeLimit(.minutes(10))) struct GuideTests {
    @Test func guideShowsTheCompiledFiles() throws {
        try Documents.expect(
            "Sources/ReachableRetry/ReachableRetry.docc/OfflineFirstInTenMinutes.md",
            toShowTheFilesOf: ["Tests/ReachableRetryTests/Guide"])
    }

    @Test func thePlainLoopEndsWithTheFirstFailure() async throws {
        let server = FakeServer(failingWith: POSIXError(.ENETUNREACH))
        await #expect(throws: POSIXError.self) { try await upload([Photo(name: "a"), Photo(name: "b")], to: server) }
        #expect(await server.stored.isEmpty)
    }

    @Test func theSteadyLoopWaitsOutAPulledCable() async throws {
        try await Scenario().run { scenario in
            let events = scenario.bus.events
            let stored = Recorder<String>()
            let isPulled = Mutex(false)
            let server = ScriptedServer { photo in
                if photo.name == "b", isPulled.withLock({ isPulled in !exchange(&isPulled, with: true) }) {
                    try scenario.network.pull("eth0")
                    throw POSIXError(.ECONNRESET)
                }
                stored.record(photo.name)
            }
            let uploading = Task {
                try await upload([Photo(name: "a"), Photo(name: "b"), Photo(name: "c")], to: server, over: scenario.bus)
            }
            let failed = try #require(await events.first { $0.kind == .attemptFailed })
            #expect(failed.failure?.fault == .network && failed.failure?.isCharged == false)
            _ = await events.first { $0.kind == .waiting }
            #expect(stored.value == ["a"])
            try scenario.network.plug("eth0")
            try await uploading.finished()
            #expect(stored.value == ["a", "b", "c"])
            #expect(scenario.clock.now.offset == .zero, "nothing was waited for but the cable")
        }
    }

    struct Judged: Sendable, CustomTestStringConvertible {
        var error: any Error
        var fault: AttemptFailure.Fault
        var isCharged = true
        /// True shortly after a reconnect.
        var isFresh = false

        var testDescription: String { "\(error)\(isFresh ? " after a reconnect" : "")" }
    }

    @Test(arguments: [
        Judged(error: Refusal(status: 503, retryAfter: .seconds(30)), fault: .overload(retryAfter: .seconds(30))),
        Judged(error: Refusal(status: 500), fault: .server),
        Judged(error: Refusal(status: 401), fault: .unknown),
        Judged(error: Refusal(status: 404), fault: .request),
        Judged(error: POSIXError(.ENETUNREACH), fault: .network, isCharged: false),
        Judged(error: POSIXError(.ECONNREFUSED), fault: .server),
        Judged(error: POSIXError(.ETIMEDOUT), fault: .server),
        Judged(error: POSIXError(.ETIMEDOUT), fault: .network, isCharged: false, isFresh: true),
        Judged(error: POSIXError(.ECONNRESET), fault: .unknown),
        Judged(error: URLError(.cannotFindHost), fault: .server),
        Judged(error: URLError(.cannotFindHost), fault: .network, isCharged: false, isFresh: true),
        Judged(error: URLError(.cannotConnectToHost), fault: .server, isFresh: true),
        Judged(error: URLError(.timedOut), fault: .unknown),
    ]) func policyDistinguishesFaults(_ judged: Judged) async throws {
        try await Scenario().run { scenario in
            let events = scenario.bus.events
            // A bus counts a reconnect only after its first verdict.
            try await scenario.bus.retry { _ in }
            if judged.isFresh {
                try scenario.network.pull("eth0")
                try scenario.network.plug("eth0")
            }
            let server = FakeServer(failingWith: judged.error)
            let adding = Task { try await Album().add(Photo(name: "a"), to: server, over: scenario.bus) }
            let failure = try #require(await events.first { $0.kind == .attemptFailed }?.failure)
            #expect(failure.fault == judged.fault && failure.isCharged == judged.isCharged)
            scenario.bus.cancel("a")
            _ = try? await adding.finished()
        }
    }

    @Test func offlineJobGivesUpAtItsWaitLimit() async throws {
        try await Scenario(online: false).run { scenario in
            let reports = Recorder<String>()
            let policy = RetryPolicy.hurried { report in reports.record(report) }
            let uploading = Task { try await scenario.bus.retry(policy, options: JobOptions(id: "a")) { _ in } }
            try await scenario.bus.parked("a")
            scenario.clock.advance(by: .seconds(599))
            #expect(try await scenario.bus.parked("a").attempts == 0)
            scenario.clock.advance(by: .seconds(1))
            await #expect(throws: RetryError.waitLimit) { try await uploading.finished() }
            #expect(reports.value == ["a gave up (waitLimit): 0 attempts, 600.0 seconds of waiting"])
        }
    }

    @Test func jobGivesUpAfterFiveAttemptsOfAMinute() async throws {
        try await Scenario().run { scenario in
            let clock = scenario.clock
            let policy = RetryPolicy.hurried { _ in }.backoff(.immediate)
            let uploading = Task { try await scenario.bus.retry(policy) { _ in try await clock.sleep(for: .seconds(3600)) } }
            for _ in 1...5 {
                _ = try await clock.nextSleep()
                clock.advance(by: .seconds(60))
            }
            await #expect(throws: RetryError.attemptTimedOut) { try await uploading.finished() }
            #expect(clock.now.offset == .seconds(300))
        }
    }

    @Test func jobsWithABudgetStopRetryingTogether() async throws {
        try await Scenario().run { scenario in
            let reports = Recorder<GiveUp>()
            let policy = RetryPolicy.sparing(.throttling()).backoff(.immediate).onGiveUp { report in
                reports.record(report)
            }
            for _ in 1...3 {
                let uploading = Task { try await scenario.bus.retry(policy) { _ in throw Refusal(status: 503) } }
                await #expect(throws: Refusal.self) { try await uploading.finished() }
            }
            #expect(reports.value.map(\.attempts) == [5, 1, 1])
            #expect(reports.value.allSatisfy { $0.reason == .budget })
        }
    }

    @Test func gateReleasesOneThenTwoThenFourJobs() async throws {
        try await Scenario().run { scenario in
            let (network, bus) = (scenario.network, RetryBus.considerate(over: scenario.monitor))
            try network.pull("eth0")
            let log = Mutex((now: 0, most: 0, order: [String]()))
            let server = ScriptedServer { photo in
                log.withLock { log in
                    log.now += 1
                    log.most = max(log.most, log.now)
                    log.order.append(photo.name)
                }
                // Lets other uploads start before this one ends.
                await Task.yield()
                log.withLock { $0.now -= 1 }
            }
            let photos = (0..<40).map { Photo(name: "\($0 % 20)") }
            let uploading = Task { try await backUp(photos, to: server, over: bus) }
            for photo in photos.prefix(20) { try await bus.parked(JobID(photo.name)) }
            try network.plug("eth0")
            // The spread is drawn from real random numbers, and passes on the bus's real clock: `retryNow` ends it.
            bus.retryNow()
            try await uploading.finished()
            #expect(log.withLock { Set($0.order).count == $0.order.count && $0.order.count == 20 && $0.most <= 8 })
        }
    }

    @Test func albumCountsItsUploads() async throws {
        try await Scenario().run { scenario in
            let (album, server) = (Album(), FakeServer(failingWith: Refusal(status: 500)))
            let adding = Task { try await album.add(Photo(name: "a"), to: server, over: scenario.bus) }
            try await scenario.bus.parked("a")
            #expect(await album.progress == "a, attempt 1")
            retryNow(scenario.bus)
            try await adding.finished()
            #expect(await album.progress == "a, attempt 2")
            #expect(await album.stored.map(\.name) == ["a"])
        }
    }

    @Test func theAccountsUploadsWaitForALogin() async throws {
        try await Scenario().run { scenario in
            let (account, server) = (Account(), FakeServer(failingWith: Refusal(status: 401)))
            let uploading = Task { try await account.upload(Photo(name: "a"), to: server, over: scenario.bus) }
            #expect(try await scenario.bus.parked("a").unmet == ["login"])
            account.logIn()
            let job = try await scenario.bus.parked("a")
            #expect(job.unmet == ["login"] && job.attempts == 1 && job.charged == 1)
            account.logIn()
            try await uploading.finished()
            #expect(scenario.clock.now.offset == .zero)
        }
    }

    @Test func anAnswerFromBeforeTheLoginEndsNoLogin() async throws {
        try await Scenario().run { scenario in
            let account = Account()
            let gate = Gate()
            let attempts = Mutex<[String: Int]>([:])
            let server = ScriptedServer { photo in
                let number = attempts.withLock { attempts in
                    attempts[photo.name, default: 0] += 1
                    return attempts[photo.name, default: 0]
                }
                if photo.name == "late", number == 1 { await gate.pass() }
                if number == 1 { throw Refusal(status: 401) }
            }
            account.logIn()
            let late = Task { try await account.upload(Photo(name: "late"), to: server, over: scenario.bus) }
            await gate.untilReached()
            let first = Task { try await account.upload(Photo(name: "first"), to: server, over: scenario.bus) }
            #expect(try await scenario.bus.parked("first").unmet == ["login"])
            account.logIn()
            try await first.finished()
            gate.open()
            try await late.finished()
            #expect(scenario.clock.now.offset == .zero, "the login voids the delay of the one that comes late")
        }
    }

    @Test func pendingListNamesEachReason() async throws {
        try await Scenario().run { scenario in
            let gate = Gate()
            let running = Task { try await scenario.bus.retry(options: JobOptions(id: "running")) { _ in await gate.pass() } }
            await gate.untilReached()
            let busy = Task {
                try await scenario.bus.retry(.upload, options: JobOptions(id: "busy")) { attempt in
                    if attempt.number == 1 { throw Refusal(status: 503, retryAfter: .seconds(30)) }
                }
            }
            try await scenario.bus.parked("busy")
            let account = Account()
            let server = FakeServer()
            let waiting = Task { try await account.upload(Photo(name: "waiting"), to: server, over: scenario.bus) }
            try await scenario.bus.parked("waiting")
            #expect(
                waitingList(of: scenario.bus) == ["running: attempt 1", "busy: again in 30.0 seconds", "waiting: waits for login"])
            retryNow(scenario.bus)
            #expect(waitingList(of: scenario.bus).contains("busy: again in 30.0 seconds"), "the server's order stands")
            gate.open()
            try await running.finished()
            scenario.clock.advance(by: .seconds(30))
            try await busy.finished()
            account.logIn()
            try await waiting.finished()
            #expect(waitingList(of: scenario.bus).isEmpty)
        }
    }

    @Test func aDiscardedPhotoIsNotUploaded() async throws {
        try await Scenario(online: false).run { scenario in
            let server = FakeServer()
            let adding = Task { try await Album().add(Photo(name: "a"), to: server, over: scenario.bus) }
            try await scenario.bus.parked("a")
            discard(Photo(name: "a"), on: scenario.bus)
            await #expect(throws: CancellationError.self) { try await adding.finished() }
            try scenario.network.plug("eth0")
            #expect(await server.stored.isEmpty && scenario.bus.pending.isEmpty)
        }
    }

    @Test func shutdownAwaitsAttemptsButNotTheNetwork() async throws {
        try await Scenario().run { scenario in
            let gate = Gate()
            let running = Task { try await scenario.bus.retry(options: JobOptions(id: "running")) { _ in await gate.pass() } }
            await gate.untilReached()
            try scenario.network.pull("eth0")
            let waiting = Task { try await scenario.bus.retry(options: JobOptions(id: "waiting")) { _ in } }
            try await scenario.bus.parked("waiting")
            let quitting = Task { () async throws in await quit(scenario.bus) }
            await #expect(throws: CancellationError.self) { try await waiting.finished() }
            gate.open()
            try await running.finished()
            try await quitting.finished()
            await #expect(throws: RetryError.shutDown) { try await scenario.bus.retry { _ in } }
        }
    }
}

/// A scripted server.
private struct ScriptedServer: PhotoServer {
    let answer: @Sendable (Photo) async throws -> Void

    init(_ answer: @escaping @Sendable (Photo) async throws -> Void) { self.answer = answer }

    func store(_ photo: Photo) async throws { try await answer(photo) }
}
