import ReachabilityTesting
import Synchronization
import Testing

@testable import ReachableRetry

/// Jobs that an attempt submits to its own bus.
@Suite(.timeLimit(.minutes(10))) struct NestedJobTests {
    @Test func anAttemptMayWaitForItsOwnBus() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            let bus = scenario.bus
            let outer = scenario.start {
                try await bus.retry(.scenario, options: JobOptions(destination: "nas")) { _ in
                    let first = try await bus.retry(.scenario, options: JobOptions(destination: "nas")) { attempt in
                        if attempt.number == 1 { throw Trouble.refused }
                        return 40
                    }
                    return try await first + bus.job(.scenario, options: JobOptions(destination: "nas")) { _ in 2 }.value
                }
            }
            await scenario.letPass(until: outer)
            let value = try await outer.value
            #expect(value == 42)
        }
    }

    @Test func aJobOfAnotherBusIsNotNested() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            var configuration = RetryBus.Configuration()
            configuration.maxConcurrent = 1
            let other = RetryBus(scenario.monitor, configuration: configuration, clock: scenario.clock)
            let (gate, isDone) = (Gate(), Gate())
            let busy = scenario.start {
                try await other.retry(.scenario) { _ in await gate.pass() }
            }
            await gate.untilReached()
            let outer = scenario.start {
                try await scenario.bus.retry(.scenario) { _ in
                    try await other.retry(.scenario, options: JobOptions(id: "inner")) { _ in }
                    await isDone.pass()
                }
            }
            try await #expect(other.parked("inner").state == .queued)
            gate.open()
            await isDone.untilReached()
            isDone.open()
            try await busy.value
            try await outer.value
        }
    }

    @Test func nestedJobIsQueuedAfterItsAttempt() async throws {
        try await Scenario(online: false, maxConcurrent: 1).run { scenario in
            let bus = scenario.bus
            let policy = RetryPolicy.scenario.connectivity(.ignore)
            try await bus.retry(policy) { _ in
                _ = scenario.start { try await bus.retry(.scenario, options: JobOptions(id: "left over")) { _ in } }
                _ = try await bus.parked("left over")
            }
            let gate = Gate()
            let first = scenario.start { try await bus.retry(policy, options: JobOptions(id: "first")) { _ in await gate.pass() } }
            await gate.untilReached()
            try scenario.network.plug("eth0")
            await scenario.settle()
            #expect(bus.pending.first { $0.id == "left over" }?.state == .queued)
            gate.open()
            try await first.value
            await scenario.settle()
            #expect(bus.pending.isEmpty)
        }
    }

    /// The ways in which an attempt begins jobs that outlive it.
    enum Beginning: CaseIterable { case submit, detach, start }

    @Test(arguments: Beginning.allCases) func jobsThatOutliveTheirAttemptReconnect(beginning: Beginning) async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let uploads = Crowd(scenario)
            try await bus.retry { _ in
                for _ in 0..<2 {
                    switch beginning {
                    case .submit: try bus.job { _ in try await uploads.attend(failing: true) }.submit()
                    case .detach: try bus.job { _ in try await uploads.attend(failing: true) }.submit(detached: true)
                    case .start: _ = scenario.start { try await bus.retry { _ in try await uploads.attend(failing: true) } }
                    }
                }
            }
            await scenario.settle()
            try scenario.network.pull("eth0")
            await scenario.world.clock.advance(by: .seconds(10))
            #expect(bus.pending.map(\.state) == [.waiting, .waiting])
            try scenario.network.plug("eth0")
            await scenario.world.clock.advance(by: .seconds(100))
            #expect(bus.pending.isEmpty && uploads.ended == 2)
        }
    }

    @Test func jobsThatFallDueTogetherEnd() async throws {
        try await Scenario(release: .immediate).run { scenario in
            let bus = scenario.bus
            let failures = Atomic(2)
            try await bus.retry { _ in
                for _ in 0..<2 {
                    _ = scenario.start {
                        try await bus.retry(.scenario.backoff(.constant(.seconds(5)))) { _ in
                            if failures.subtract(1, ordering: .relaxed).newValue >= 0 { throw Trouble.other }
                        }
                    }
                }
            }
            await scenario.world.clock.advance(by: .seconds(5))
            #expect(bus.pending.isEmpty)
        }
    }

    @Test(arguments: [true, false]) func submittedJobsKeepToTheLimits(detached: Bool) async throws {
        try await Scenario(release: .immediate, maxConcurrent: 4).run { scenario in
            let crowd = Crowd(scenario)
            try await scenario.bus.retry { _ in
                for _ in 0..<1000 {
                    try scenario.bus.job { _ in try await crowd.attend() }.submit(detached: detached)
                }
                try await scenario.clock.sleep(for: .zero)
            }
            await scenario.world.clock.advance(by: .seconds(300))
            #expect(crowd.ended == 1000 && crowd.peak == 4)
        }
    }

    /// Starts an attempt that awaits jobs in a task group.
    private func awaiting(_ count: Int, of crowd: Crowd, in scenario: Scenario) -> Task<Void, any Error> {
        scenario.start {
            try await scenario.bus.retry { _ in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<count { group.addTask { try await scenario.bus.retry { _ in try await crowd.attend() } } }
                    try await group.waitForAll()
                }
            }
        }
    }

    @Test func aCanaryLetsOneAwaitedJobGo() async throws {
        try await Scenario(online: false).run { scenario in
            let crowd = Crowd(scenario)
            let outer = awaiting(200, of: crowd, in: scenario)
            await scenario.settle()
            try scenario.network.plug("eth0")
            await scenario.settle()
            #expect(crowd.running == 1)
            await scenario.letPass(until: outer)
            #expect(crowd.ended == 200 && crowd.peak <= 17, "the gate's window, and the place of the attempt")
        }
    }

    @Test func awaitedJobsOfAGroupKeepToTheLimits() async throws {
        try await Scenario(release: .immediate, maxConcurrent: 4).run { scenario in
            let crowd = Crowd(scenario)
            let outer = awaiting(200, of: crowd, in: scenario)
            await scenario.letPass(until: outer)
            try await outer.value
            #expect(crowd.ended == 200 && crowd.peak == 4)
        }
    }

    @Test func aJobAcrossAnotherBusUsesThePlaceOfItsAttempt() async throws {
        try await Scenario(maxConcurrent: 1).run { scenario in
            let other = RetryBus(scenario.monitor, configuration: scenario.bus.configuration)
            let outer = scenario.start {
                try await scenario.bus.retry { _ in
                    try await other.retry { _ in try await scenario.bus.retry { _ in 42 } }
                }
            }
            await scenario.settle()
            #expect(scenario.bus.pending.isEmpty)
            try await #expect(outer.value == 42)
        }
    }

    @Test func aNestedJobHeedsTheOrderOfItsServer() async throws {
        try await Scenario().run { scenario in
            let bus = scenario.bus
            let api = JobOptions(destination: "api")
            await #expect(throws: Trouble.busy(retryAfter: .seconds(60))) {
                try await bus.retry(.scenario.giveUpAfter(maxAttempts: 1), options: api) { _ in
                    throw Trouble.busy(retryAfter: .seconds(60))
                }
            }
            let outer = scenario.start {
                try await bus.retry(.scenario, options: JobOptions(destination: "cdn")) { _ in
                    try await bus.retry(.scenario, options: api) { _ in scenario.clock.now.offset }
                }
            }
            await scenario.letPass(until: outer)
            try await #expect(outer.value == .seconds(60))
        }
    }

    @Test func theTimeoutOfANestedJobIsNoTimeoutOfItsAttempt() async throws {
        try await Scenario().run { scenario in
            let payments = Atomic(0)
            let inner = RetryPolicy.scenario.attemptTimeout(.seconds(1)).giveUpAfter(maxAttempts: 1)
            let outer = scenario.start {
                try await scenario.bus.retry(.scenario.retryOnErrors { $0 is Trouble }) { _ in
                    payments.add(1, ordering: .relaxed)
                    try await scenario.bus.retry(inner) { _ in try await scenario.clock.sleep(for: .seconds(60)) }
                }
            }
            await scenario.letPass(until: outer)
            await #expect(throws: RetryError.attemptTimedOut) { try await outer.value }
            #expect(payments.load(ordering: .relaxed) == 1)
        }
    }
}

/// Operations that take a second, and the number of them that run at a time.
private final class Crowd: Sendable {
    private let clock: ManualClock
    private let state = Mutex((running: 0, peak: 0, ended: 0))

    init(_ scenario: Scenario) { clock = scenario.clock }

    var running: Int { state.withLock(\.running) }
    var peak: Int { state.withLock(\.peak) }
    var ended: Int { state.withLock(\.ended) }

    /// - Parameter failing: If true, it fails while the network is away after its time.
    func attend(failing: Bool = false) async throws {
        state.withLock { state in
            state.running += 1
            state.peak = max(state.peak, state.running)
        }
        defer { state.withLock { $0.running -= 1 } }
        try await clock.sleep(for: .seconds(1))
        if failing, clock.now.offset < .seconds(10) { throw Trouble.other }
        state.withLock { $0.ended += 1 }
    }
}
