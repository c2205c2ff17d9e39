import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// A queue that runs until nothing is left.
@Suite(.timeLimit(.minutes(10))) struct QueueRestTests {
    /// A run, and its end as text.
    private struct Run {
        let task: Task<QueueRest, Never>
        private let ends = Recorder<String>()
        var state: String { ends.value.first ?? "running" }

        init(_ world: TestWorld, _ queue: JobQueue) {
            task = world.start { [ends] in
                let rest = await queue.runUntilEmpty()
                ends.record(Self.text(rest))
                return rest
            }
        }

        private static func text(_ rest: QueueRest) -> String {
            guard case .blocked(let jobs, let count) = rest else { return "\(rest)" }
            let reasons = jobs.map { $0.reasons.map(\.kind.rawValue).joined(separator: " ") }
            return "\(count) blocked: \(reasons.joined(separator: ", "))"
        }
    }

    private static let policy = RetryPolicy.tests.backoff(.constant(.seconds(60)).jitter(.none)).giveUpAfter(maxAttempts: 2)

    /// The handler fails for `broken`, and at first for `fails` and `busy`.
    private func inWorld(
        online: Bool = true, conditions: [Condition] = [], wrap: @escaping @Sendable (MemoryStore) -> any JobStore = { $0 },
        _ body: @escaping @Sendable (TestWorld, JobQueue) async throws -> Void
    ) async throws {
        try await TestWorld.gated(online: online) { world in
            let queue = world.queue(on: wrap(world.store), Self.policy, conditions: conditions) { world, text, attempt in
                switch text {
                case "broken": throw Trouble()
                case "fails" where attempt.number == 1: throw Trouble()
                case "busy" where attempt.number == 1: throw Busy()
                case "chain" where attempt.number == 1: try await world.queue().push(Send("end"))
                default: break
                }
            }
            try await body(world, queue)
        }
    }

    private func claim(_ store: MemoryStore) async throws -> (WorkerID, Claims.Claimed) {
        let worker = try await store.register()
        return (worker, try #require(try await store.claim(worker).jobs.first))
    }

    // MARK: - Jobs that are left

    @Test func emptyQueueEndsAtOnce() async throws {
        try await inWorld { world, queue in
            let run = Run(world, queue)
            await world.settle()
            #expect(run.state == "empty")
            // A queue runs once.
            #expect("\(await queue.runUntilEmpty())" == "stopped")
        }
    }

    @Test func runWaitsForWhatTimeLetsRun() async throws {
        try await inWorld { world, queue in
            try await queue.push([
                Send("chain"), Send("fails", serialKey: "s"), Send("behind", serialKey: "s"), Send("busy", destination: "api"),
                Send("same", destination: "api"), Send("later", delay: .seconds(90)),
            ])
            let run = Run(world, queue)
            await world.clock.advance(by: .milliseconds(89_999))
            #expect(run.state == "running")
            #expect(try await queue.jobs().map(\.state) == Array(repeating: .succeeded, count: 5) + [.available, .succeeded])
            await world.clock.advance(by: .milliseconds(1))
            #expect(run.state == "empty")
            #expect(try await queue.jobs().allSatisfy { $0.state == .succeeded })
        }
    }

    // MARK: - Blocked jobs

    @Test func runWithoutANetworkEndsAtOnce() async throws {
        try await inWorld(online: false) { world, queue in
            try await queue.push([Send("a"), Send("b", delay: .seconds(9))])
            let run = Run(world, queue)
            await world.settle()
            #expect(run.state == "2 blocked: network, notDue network")
        }
    }

    @Test func lossOfTheNetworkEndsTheWait() async throws {
        try await inWorld { world, queue in
            try await queue.push([Send("a"), Send("later", delay: .seconds(3600)), Send("fails")])
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(5))
            #expect(run.state == "running")
            try world.network.pull("eth0")
            await world.settle()
            #expect(run.state == "2 blocked: notDue network, backingOff network")
        }
    }

    @Test func conditionsAndPausesBlock() async throws {
        let login = ConditionSource("logged in", isSatisfied: false)
        try await inWorld(conditions: [login.condition]) { world, queue in
            try await queue.push(Send("a"))
            try await queue.pause()
            let run = Run(world, queue)
            await world.settle()
            #expect(run.state == "1 blocked: paused condition")
        }
    }

    /// Neither one is waited for, but the one that is due is.
    @Test func jobsThatThisWorkerCannotRunAreBlocked() async throws {
        try await inWorld { world, queue in
            let jobs = [("unknown", 1, "{}"), ("send", 2, "{}"), ("send", 1, "no JSON")].map { kind, version, payload in
                NewJob(queue: "default", kind: kind, version: version, payload: Data(payload.utf8))
            }
            _ = try await world.store.push(jobs, limit: nil)
            try await queue.push(Send("later", delay: .seconds(30)))
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(29))
            #expect(run.state == "running")
            await world.clock.advance(by: .seconds(1))
            #expect(run.state == "3 blocked: unregistered, unregistered, undecodable")
            #expect(try await queue.jobs().prefix(3).allSatisfy { $0.state == .available && $0.counters == .init() })
        }
    }

    @Test func jobsBehindAFailedOneAreBlocked() async throws {
        try await inWorld { world, queue in
            try await queue.push([Send("broken", serialKey: "s"), Send("a", serialKey: "s"), Send("b", serialKey: "s")])
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(60))
            // The failed one is finished.
            #expect(run.state == "2 blocked: blocked, blocked")
        }
    }

    @Test func firstOfManyBlockedJobsAreListed() async throws {
        try await inWorld { world, queue in
            let jobs = (0..<150).map { _ in NewJob(queue: "default", kind: "unknown", payload: Data()) }
            _ = try await world.store.push(jobs, limit: nil)
            let run = Run(world, queue)
            guard case .blocked(let first, let count) = await run.task.value else {
                Issue.record("nothing is blocked")
                return
            }
            #expect(first.map(\.id) == jobs.prefix(100).map(\.id) && count == 150)
        }
    }

    // MARK: - Other workers

    @Test func jobOfAnotherWorkerIsAwaited() async throws {
        try await inWorld { world, queue in
            try await queue.push(Send("a"))
            let (other, claimed) = try await claim(world.store)
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(5))
            #expect(run.state == "running")
            #expect(try await world.store.succeed([claimed], by: other) == [.recorded])
            await world.clock.advance(by: StoreLease.heartbeat)
            #expect(run.state == "empty")
        }
    }

    @Test func jobOfAWorkerThatEndedIsRun() async throws {
        try await inWorld { world, queue in
            try await queue.push(Send("a"))
            _ = try await claim(world.store)
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(29))
            #expect(run.state == "running")
            await world.clock.advance(by: .seconds(1))
            #expect(run.state == "empty")
            #expect(try await queue.jobs().map(\.state) == [.succeeded])
        }
    }

    @Test(arguments: [true, false]) func jobOfAnotherKindIsAwaitedForItsKeyOnly(isHead: Bool) async throws {
        try await inWorld { world, queue in
            var head = NewJob(queue: "default", kind: "unknown", payload: Data())
            head.serialKey = "s"
            _ = try await world.store.push([head], limit: nil)
            let (other, claimed) = try await claim(world.store)
            if isHead { try await queue.push(Send("a", serialKey: "s")) }
            let run = Run(world, queue)
            await world.settle()
            #expect(run.state == (isHead ? "running" : "1 blocked: claimed"))
            #expect(try await world.store.succeed([claimed], by: other) == [.recorded])
            await world.settle()
            #expect(run.state == (isHead ? "empty" : "1 blocked: claimed"))
        }
    }

    // MARK: - The end

    @Test(arguments: [true, false]) func runThatIsStoppedSaysSo(byTask: Bool) async throws {
        try await inWorld { world, queue in
            try await queue.push(Send("later", delay: .seconds(90)))
            let run = Run(world, queue)
            await world.clock.advance(by: .seconds(20))
            if byTask { run.task.cancel() } else { await queue.shutdown() }
            await world.settle()
            #expect(run.state == "stopped")
        }
    }

    @Test func waitAsksTheStoreForNothing() async throws {
        let calls = Counter()
        let count: @Sendable (MemoryStore) -> any JobStore = { store in
            var warped = WarpedStore(store)
            warped.onReturn = { method in if ["claim(_:)", "find(_:)"].contains(method) { calls.add() } }
            return warped
        }
        try await inWorld(wrap: count) { world, queue in
            try await queue.push(Send("later", delay: .seconds(3600)))
            let run = Run(world, queue)
            await world.settle()
            let before = calls.value
            await world.clock.advance(by: .milliseconds(3_599_999))
            #expect(run.state == "running")
            #expect(calls.value == before)
            await world.clock.advance(by: .milliseconds(1))
            #expect(run.state == "empty")
        }
    }
}
