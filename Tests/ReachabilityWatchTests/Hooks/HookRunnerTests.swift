import Reachability
import ReachabilityTesting
import Synchronization
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The runner with programs that the test ends, on a simulated network.
@Suite(.timeLimit(.minutes(10)))
struct HookRunnerTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let hooks = FakeHooks()
    private let messages = LineCollector()

    init() { network = .online(clock: clock) }

    private func session(_ output: LineCollector = LineCollector(), scopes: [Scope] = [.internet]) -> WatchSession {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        let runner = HookRunner(hooks, scopes: scopes, timeLimit: .seconds(30), clock: clock) { [messages] in
            try? messages.write($0)
        }
        return WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration), scopes: scopes, clock: clock, output: output,
            notes: messages, hooks: runner)
    }

    @Test func aProgramRunsForEachLine() async throws {
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session().run(until: signals)
        var facts = await hooks.next()
        #expect(facts.status == "online" && facts.values["EVENT"] == Array("baseline".utf8))
        hooks.finish()
        clock.advance(by: .seconds(2))
        try network.pull("eth0")
        facts = await hooks.next()
        #expect(facts.status == "offline" && facts.values["DURATION"] == Array("2.000000000".utf8))
        hooks.finish()
        try network.plug("eth0")
        #expect(await hooks.next().status == "online")
        hooks.finish()
        signal.yield(15)
        #expect(await end == .done)
        #expect(messages.lines.isEmpty && hooks.count.load(ordering: .acquiring) == 3)
    }

    @Test func theEndOfTheMonitorIsNoChange() async throws {
        let output = LineCollector()
        async let end = session(output).run()
        _ = await hooks.next()
        hooks.finish()
        network.stop(throwing: ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)"))
        _ = await end
        #expect(output.lines.last?.contains("◌ unknown") == true && hooks.count.load(ordering: .acquiring) == 1)
    }

    @Test func onlyTheNewestStateIsRun() async throws {
        let output = LineCollector()
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session(output).run(until: signals)
        _ = await hooks.next()
        _ = await output.next()
        for _ in 1...3 {
            try network.pull("eth0")
            try network.plug("eth0")
            try network.pull("eth0")
        }
        #expect(
            await messages.next().hasSuffix("dropped: newer ones came while a hook ran; next: start long work in its background"))
        var runs = [HookFacts]()
        repeat {
            hooks.finish()
            runs.append(await hooks.next())
        } while runs.last?.values["SEQUENCE"] != Array("7".utf8)
        #expect(runs.last?.status == "offline" && runs.count < 7)
        hooks.finish()
        signal.yield(15)
        #expect(await end == .done)
        #expect(messages.lines.last == "\(7 - runs.count) of 8 transitions dropped in all")
    }

    @Test func aLateProgramIsCancelled() async throws {
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session().run(until: signals)
        _ = await hooks.next()
        #expect(try await clock.nextSleep().offset == .seconds(30))
        clock.advance(by: .seconds(30))
        #expect(await messages.next() == "hook fake runs for longer than 30s and is ended; next: start long work in its background")
        #expect(await hooks.ends.first { _ in true } == true)
        try network.pull("eth0")
        #expect(await hooks.next().status == "offline")
        signal.yield(15)
        #expect(await end == .done)
    }

    @Test func theEndOfWatchAwaitsTheProgram() async throws {
        hooks.isStubborn.store(true, ordering: .relaxed)
        let session = session()
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        let order = LineCollector()
        try await withThrowingTaskGroup { group in
            group.addTask {
                #expect(await session.run(until: signals) == .done)
                try order.write("watch")
            }
            _ = await hooks.next()
            signal.yield(15)
            #expect(await hooks.cancellations.first { _ in true } != nil)
            try order.write("hook")
            hooks.finish()
            try await group.waitForAll()
        }
        #expect(order.lines == ["hook", "watch"])
    }

    @Test func aFailureIsReportedByName() async throws {
        hooks.failure.withLock { $0 = ChildFailure(cause: .exited(3)) }
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session().run(until: signals)
        _ = await hooks.next()
        hooks.finish()
        #expect(await messages.next() == "hook fake: exit code 3")
        signal.yield(15)
        #expect(await end == .done)
    }

    @Test func aFailureThatRepeatsItselfIsReportedOnce() async throws {
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session().run(until: signals)
        let codes: [Int32?] = [3, 3, 4, nil, 4]
        let failures = codes.map { code in code.map { ChildFailure(cause: .exited($0)) } }
        for (number, failure) in failures.enumerated() {
            _ = await hooks.next()
            hooks.failure.withLock { $0 = failure }
            hooks.finish()
            try number.isMultiple(of: 2) ? network.pull("eth0") : network.plug("eth0")
        }
        // The end of the last one is known once the next one starts.
        _ = await hooks.next()
        #expect(messages.lines == [3, 4, 4].map { "hook fake: exit code \($0)" })
        signal.yield(15)
        #expect(await end == .done)
    }

    @Test func aRefusedDirectoryIsReadAgainAtTheNextChange() async throws {
        hooks.problem.withLock { $0 = HookProblem(description: "no such directory", isMissing: true) }
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        let session = session()
        async let end = session.run(until: signals)
        #expect(await messages.next() == "no such directory")
        hooks.problem.withLock { $0 = nil }
        try network.pull("eth0")
        #expect(await hooks.next().status == "offline")
        hooks.failure.withLock { $0 = HookProblem(description: "fake can be written by other users") }
        hooks.finish()
        #expect(await messages.next() == "fake can be written by other users")
        hooks.failure.withLock { $0 = nil }
        try network.plug("eth0")
        // The end of the last one is known once the next one starts.
        _ = await hooks.next()
        signal.yield(15)
        #expect(await end == .done)
        #expect(session.hooks?.counts.refused == 2)
    }

    @Test func aProgramThatCannotBeStartedNowIsStartedAgain() async throws {
        hooks.failure.withLock { $0 = ChildFailure(cause: .notStarted("fake", 11)) }
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        let session = session()
        async let end = session.run(until: signals)
        _ = await hooks.next()
        #expect(try await clock.nextSleep().offset == .seconds(30))
        hooks.finish()
        #expect(
            await messages.next()
                == "hook fake: fake cannot be started now: Resource temporarily unavailable (errno 11); it is tried again")
        while try await clock.nextSleep().offset != .seconds(1) {}
        hooks.failure.withLock { $0 = nil }
        clock.advance(by: .seconds(1))
        #expect(await hooks.next().status == "online")
        hooks.finish()
        signal.yield(15)
        #expect(await end == .done)
        #expect(messages.lines.count == 1)
    }

    @Test func everyScopeHasItsTurn() async throws {
        let scopes = (1...3).map { Scope.address(Samples.address("198.51.100.\($0)")) }
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session(scopes: scopes).run(until: signals)
        var seen: Set<String> = []
        for _ in scopes {
            seen.insert(String(decoding: await hooks.next().values["SCOPE"] ?? [], as: UTF8.self))
            hooks.finish()
        }
        #expect(seen == Set(scopes.map(\.description)))
        signal.yield(15)
        #expect(await end == .done)
    }
}

/// One program that runs until the test ends it, or its task is cancelled.
final class FakeHooks: HookPrograms {
    /// True for each end by cancellation.
    let ends: AsyncStream<Bool>
    let cancellations: AsyncStream<Void>
    /// True for a program that ignores its cancellation.
    let isStubborn = Atomic(false)
    let failure = Mutex<(any Error)?>(nil)
    /// The problem of the whole directory.
    let problem = Mutex<HookProblem?>(nil)
    /// The number of starts.
    let count = Atomic(0)
    private let end: AsyncStream<Bool>.Continuation
    private let cancel: AsyncStream<Void>.Continuation
    private let (starts, start) = AsyncStream.makeStream(of: HookFacts.self)
    private let running = Mutex<CheckedContinuation<Void, Never>?>(nil)

    init() {
        (ends, end) = AsyncStream.makeStream()
        (cancellations, cancel) = AsyncStream.makeStream()
    }

    func names() throws(HookProblem) -> [String] {
        if let problem = problem.withLock(\.self) { throw problem }
        return ["fake"]
    }

    func run(_: String, _ facts: HookFacts) async throws -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                running.withLock { $0 = continuation }
                count.wrappingAdd(1, ordering: .acquiringAndReleasing)
                start.yield(facts)
                if Task.isCancelled, !isStubborn.load(ordering: .relaxed) { finish() }
            }
        } onCancel: {
            cancel.yield()
            if !isStubborn.load(ordering: .relaxed) { finish() }
        }
        end.yield(Task.isCancelled)
        if Task.isCancelled { throw ChildFailure(cause: .signaled(15), interruption: .timeLimit) }
        if let failure = failure.withLock(\.self) { throw failure }
        return true
    }

    /// Waits for the next start.
    func next() async -> HookFacts {
        for await facts in starts { return facts }
        return .numbered(0)
    }

    /// Ends the running program.
    func finish() {
        let continuation = running.withLock { running in
            defer { running = nil }
            return running
        }
        continuation?.resume()
    }
}
