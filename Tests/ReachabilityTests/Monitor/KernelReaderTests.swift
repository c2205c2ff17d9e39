import Reachability
import ReachabilityTesting
import Synchronization
import Testing

/// The kernel's reader, with clocks of the test's own.
@Suite(.timeLimit(.minutes(10))) struct KernelReaderTests {
    /// Clocks of a machine that can be suspended by a test.
    private final class Suspender: Sendable {
        private let suspended = Mutex(Duration.zero)

        func suspend(for time: Duration) { suspended.withLock { $0 += time } }

        var clock: KernelClock {
            var clock = KernelClock()
            clock.pretendedSuspension = { [self] in suspended.withLock { $0 } }
            return clock
        }
    }

    @Test func suspensionIsReportedOnceWithTheNextBatch() async throws {
        let machine = Suspender()
        let kernel = KernelNetwork(receiveBuffer: KernelNetwork.receiveBuffer, clock: machine.clock)
        let (batches, running) = kernel.deliveries()
        var iterator = batches.makeAsyncIterator()
        let first = try #require(await iterator.next(isolation: #isolation))
        #expect(first.receiveBuffer.map { $0 > 100_000 } == true)
        machine.suspend(for: .seconds(3600))
        kernel.wake()
        // Other events of this machine make batches, too.
        var batch = first
        while batch.suspensions.isEmpty { batch = try #require(await iterator.next(isolation: #isolation)) }
        #expect(batch.suspensions.count == 1 && batch.suspensions.allSatisfy { ($0 - .seconds(3600)).magnitude < .seconds(1) })
        #expect(first.now.duration(to: batch.now) >= .seconds(3600))
        kernel.wake()
        batch = try #require(await iterator.next(isolation: #isolation))
        #expect(batch.suspensions.isEmpty)
        running.cancel()
        _ = await running.result
    }
}

extension NetworkEventBatch {
    fileprivate var suspensions: [Duration] {
        events.compactMap { if case .resumed(let time) = $0.payload { time } else { nil } }
    }
}

extension Duration {
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
