import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@testable import ReachableRetry

/// Sequences that are iterated again after a failure.
@Suite(.timeLimit(.minutes(10))) struct RetryingSequenceTests {
    /// Delivers the elements of each iteration, then fails or ends.
    private final class Feed: AsyncSequence, Sendable {
        typealias Element = Int
        struct Iteration {
            var elements: [Int] = []
            var error: Trouble?
        }

        private let iterations: Mutex<[Iteration]>
        let begun = Atomic(0)
        let dropped = Atomic(0)

        init(_ iterations: [Iteration]) { self.iterations = Mutex(iterations) }

        final class Iterator: AsyncIteratorProtocol {
            private var iteration: Iteration
            private let feed: Feed

            init(_ iteration: Iteration, _ feed: Feed) { (self.iteration, self.feed) = (iteration, feed) }

            deinit { feed.dropped.add(1, ordering: .relaxed) }

            func next() async throws -> Int? {
                if !iteration.elements.isEmpty { return iteration.elements.removeFirst() }
                if let error = iteration.error { throw error }
                return nil
            }
        }

        func makeAsyncIterator() -> Iterator {
            begun.add(1, ordering: .relaxed)
            return Iterator(iterations.withLock { $0.isEmpty ? Iteration() : $0.removeFirst() }, self)
        }
    }

    @Test func failedSequenceIsIteratedAgain() async throws {
        try await Scenario().run { scenario in
            let feed = Feed([.init(elements: [1, 2], error: .other), .init(error: .refused), .init(elements: [3])])
            let reader = scenario.start {
                try await feed.retry(.scenario, on: scenario.bus).reduce(into: [Int]()) { $0.append($1) }
            }
            await scenario.letPass(until: reader)
            try await #expect(reader.value == [1, 2, 3])
            #expect(feed.begun.load(ordering: .relaxed) == 3 && feed.dropped.load(ordering: .relaxed) == 3)
            #expect(scenario.clock.now.offset == .seconds(3) && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    /// An AsyncStream can be read once: its second iteration ends at once, which is no success.
    @Test func aFailedStreamDoesNotEndAsIfComplete() async throws {
        try await Scenario().run { scenario in
            let stream = AsyncThrowingStream<Int, any Error> { continuation in
                for number in 1...2 { continuation.yield(number) }
                continuation.finish(throwing: Trouble.refused)
            }
            let reader = scenario.start {
                var elements: [Int] = []
                do {
                    for try await element in stream.retry(.scenario, on: scenario.bus) { elements.append(element) }
                } catch { return (elements, error as? Trouble) }
                return (elements, nil)
            }
            await scenario.letPass(until: reader)
            let (elements, error) = await reader.value
            #expect(elements == [1, 2] && error == .refused && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func aCutStreamDoesNotEndAsIfComplete() async throws {
        try await Scenario().run { scenario in
            let (stream, continuation) = AsyncStream.makeStream(of: Int.self)
            continuation.yield(1)
            let policy = RetryPolicy.scenario.attemptTimeout(.seconds(5))
            let reader = scenario.start { try await stream.retry(policy, on: scenario.bus).reduce(0, +) }
            await scenario.letPass(until: reader)
            await #expect(throws: RetryError.attemptTimedOut) { try await reader.value }
        }
    }

    @Test func eachAttemptMakesASequence() async throws {
        try await Scenario().run { scenario in
            let policy = RetryPolicy.scenario.attemptTimeout(.seconds(5))
            let numbers = Recorder<Int>()
            let sequence = scenario.bus.sequence(policy) { attempt in
                numbers.record(attempt.number)
                if attempt.number == 1 { throw Trouble.refused }
                return AsyncStream<Int> { continuation in
                    continuation.yield(attempt.number)
                    // The second one is silent until the bus cuts it.
                    if attempt.number > 2 { continuation.finish() }
                }
            }
            let reader = scenario.start { try await sequence.reduce(into: [Int]()) { $0.append($1) } }
            await scenario.letPass(until: reader)
            try await #expect(reader.value == [2, 3])
            #expect(numbers.value == [1, 2, 3] && scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func anEmptySequenceThatIsMadeAnewIsASuccess() async throws {
        try await Scenario().run { scenario in
            let sequence = scenario.bus.sequence(.scenario) { attempt in
                AsyncThrowingStream<Int, any Error> { $0.finish(throwing: attempt.number == 1 ? Trouble.refused : nil) }
            }
            let reader = scenario.start { try await sequence.reduce(0, +) }
            await scenario.letPass(until: reader)
            try await #expect(reader.value == 0)
        }
    }

    @Test func theLastErrorIsThrown() async throws {
        try await Scenario().run { scenario in
            let feed = Feed([.init(elements: [1], error: .other), .init(error: .refused)])
            var iterator = feed.retry(.scenario.giveUpAfter(maxAttempts: 2), on: scenario.bus).makeAsyncIterator()
            try await #expect(iterator.next() == 1)
            scenario.clock.advance(by: .seconds(1))
            let next = scenario.start { [iterator = Unshared(iterator)] in
                var iterator = iterator.value
                return try await iterator.next()
            }
            await scenario.letPass(until: next)
            await #expect(throws: Trouble.refused) { try await next.value }
        }
    }

    /// Four failures with three attempts: an element resets the count.
    @Test(arguments: [true, false]) func elementResetsTheCountIfRequested(resets: Bool) async throws {
        try await Scenario().run { scenario in
            let feed = Feed((1...4).map { .init(elements: [$0], error: .other) } + [.init(elements: [5])])
            let policy = RetryPolicy.scenario.giveUpAfter(maxAttempts: 3)
            let reader = scenario.start {
                var elements: [Int] = []
                do {
                    for try await element in feed.retry(policy, on: scenario.bus, resetsAfterElement: resets) {
                        elements.append(element)
                    }
                } catch { elements.append(-1) }
                return elements
            }
            await scenario.letPass(until: reader)
            #expect(await reader.value == (resets ? [1, 2, 3, 4, 5] : [1, 2, 3, -1]))
            // One second each time, or one and two.
            #expect(scenario.clock.now.offset == (resets ? .seconds(4) : .seconds(3)))
        }
    }

    @Test func iterationNeedsANetworkAndDemand() async throws {
        try await Scenario(online: false).run { scenario in
            let feed = Feed([.init(elements: [1])])
            let sequence = feed.retry(.scenario, on: scenario.bus)
            let iterator = sequence.makeAsyncIterator()
            #expect(scenario.bus.pending.isEmpty && feed.begun.load(ordering: .relaxed) == 0)
            let next = scenario.start { [iterator = Unshared(iterator)] in
                var iterator = iterator.value
                return try await iterator.next()
            }
            await scenario.settle()
            #expect(scenario.bus.pending.map(\.state) == [.waiting])
            #expect(feed.begun.load(ordering: .relaxed) == 0)
            try scenario.network.plug("eth0")
            try await #expect(next.value == 1 && feed.begun.load(ordering: .relaxed) == 1)
        }
    }

    @Test func droppedIterationCancelsItsJob() async throws {
        try await Scenario().run { scenario in
            let feed = Feed([.init(elements: [1, 2])])
            do {
                var iterator = feed.retry(.scenario, on: scenario.bus).makeAsyncIterator()
                try await #expect(iterator.next() == 1 && scenario.bus.pending.map(\.state) == [.running])
            }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0] && feed.dropped.load(ordering: .relaxed) == 1)
        }
    }

    @Test func aCancelledReaderGetsNoElement() async throws {
        try await Scenario(online: false).run { scenario in
            let feed = Feed([.init(elements: [1])])
            let reader = scenario.start { try await feed.retry(.scenario, on: scenario.bus).reduce(0, +) }
            await scenario.settle()
            #expect(scenario.bus.pending.map(\.state) == [.waiting])
            reader.cancel()
            await #expect(throws: CancellationError.self) { try await reader.value }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }

    @Test func deadlineEndsTheWaitForAnElement() async throws {
        try await Scenario().run { scenario in
            let (silence, _) = AsyncStream.makeStream(of: Int.self)
            let policy = RetryPolicy.scenario.giveUpAfter(elapsed: .seconds(5))
            let reader = scenario.start { try await silence.retry(policy, on: scenario.bus).reduce(0, +) }
            await scenario.settle()
            #expect(scenario.bus.pending.map(\.state) == [.running])
            scenario.clock.advance(by: .seconds(5))
            await #expect(throws: RetryError.deadline) { try await reader.value }
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0])
        }
    }
}

/// A value passed from one task to another.
private struct Unshared<Value>: @unchecked Sendable {
    // Unchecked: see its use.
    let value: Value

    init(_ value: Value) { self.value = value }
}
