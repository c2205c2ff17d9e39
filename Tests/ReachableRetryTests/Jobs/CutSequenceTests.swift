import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// Retried sequences whose attempt the bus cut: a cancelled stream returns `nil`, which is not the end of its source.
@Suite(.timeLimit(.minutes(10))) struct CutSequenceTests {
    /// The first iteration never delivers an element, the second one delivers one and ends.
    private final class Source: AsyncSequence, Sendable {
        typealias Element = Int
        typealias Failure = Never

        private let iterations = Atomic(0)
        private let begins = AsyncStream.makeStream(of: Void.self)

        func makeAsyncIterator() -> AsyncStream<Int>.Iterator {
            let number = iterations.add(1, ordering: .relaxed).newValue
            defer { begins.continuation.yield() }
            return AsyncStream<Int> { continuation in
                guard number > 1 else { return }
                continuation.yield(7)
                continuation.finish()
            }.makeAsyncIterator()
        }

        /// Suspends until an iteration begins.
        func begun() async { for await _ in begins.stream { break } }
    }

    private static let policy = RetryPolicy(.immediate)

    private func elements(
        _ source: Source, _ policy: RetryPolicy, on scenario: Scenario
    ) async -> Task<[Int], any Error> {
        let reader = Task { try await source.retry(policy, on: scenario.bus).reduce(into: [Int]()) { $0.append($1) } }
        await source.begun()
        return reader
    }

    @Test func timeoutRestartsTheIteration() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let reader = await elements(source, Self.policy.attemptTimeout(.seconds(5)), on: scenario)
            scenario.clock.advance(by: .seconds(5))
            try await #expect(reader.value == [7])
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func lossRestartsTheIteration() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let policy = Self.policy.interruptsAttempt(.whenUnsatisfied(grace: .seconds(1)))
            let reader = await elements(source, policy, on: scenario)
            try scenario.network.pull("eth0")
            scenario.clock.advance(by: .seconds(1))
            try scenario.network.plug("eth0")
            try await #expect(reader.value == [7])
        }
    }

    @Test func deadlineEndsTheSequence() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let reader = await elements(source, Self.policy.giveUpAfter(elapsed: .seconds(5)), on: scenario)
            scenario.clock.advance(by: .seconds(5))
            await #expect(throws: RetryError.deadline) { try await reader.value }
        }
    }

    @Test func cancellationByNameEndsTheSequence() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let reader = await elements(source, Self.policy, on: scenario)
            scenario.bus.cancel(try #require(scenario.bus.pending.first?.id))
            await #expect(throws: CancellationError.self) { try await reader.value }
        }
    }

    @Test func cancellationOfTheReaderEndsTheSequence() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let reader = await elements(source, Self.policy, on: scenario)
            reader.cancel()
            await #expect(throws: CancellationError.self) { try await reader.value }
        }
    }

    @Test func shutdownEndsTheSequence() async throws {
        try await Scenario().run { scenario in
            let source = Source()
            let reader = await elements(source, Self.policy, on: scenario)
            await scenario.bus.shutdown(drain: .zero)
            await #expect(throws: CancellationError.self) { try await reader.value }
        }
    }
}
