import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10)))
struct RunTests {
    let network = SimulatedNetwork.online()
    let times = Recorder<Duration>()

    @Test func pauseEndsWithEmptyBatch() async throws {
        try await network.running { [times] batch in
            times.record(batch.now.sinceBoot)
            return times.value.count < 4 ? .seconds(times.value.count) : nil
        } _: { network in
            network.clock.advance(by: .seconds(100))
            #expect(times.value == [.zero, .seconds(1), .seconds(3), .seconds(6)])
        }
    }

    @Test func laterPauseReplacesEarlierOne() async throws {
        try await network.running { [times] batch in
            times.record(batch.now.sinceBoot)
            return batch.events.isEmpty ? (batch.now.sinceBoot == .zero ? .seconds(10) : nil) : .seconds(30)
        } _: { network in
            network.clock.advance(by: .seconds(5))
            try network.pull("eth0")
            network.clock.advance(by: .seconds(100))
            #expect(times.value == [.zero, .seconds(5), .seconds(35)])
        }
    }

    @Test func noPauseMeansNoEmptyBatch() async throws {
        try await network.running { [times] batch in
            times.record(batch.now.sinceBoot)
            return batch.events.isEmpty ? .seconds(10) : nil
        } _: { network in
            try network.pull("eth0")
            network.clock.advance(by: .seconds(100))
            #expect(times.value == [.zero, .zero])
        }
    }

    @Test func pauseOfZeroEndsWithNextAdvance() async throws {
        try await network.running { [times] batch in
            times.record(batch.now.sinceBoot)
            return times.value.count < 2 ? .zero : nil
        } _: { network in
            #expect(times.value == [.zero])
            network.clock.advance(by: .zero)
            #expect(times.value == [.zero, .zero])
        }
    }

    @Test func longestPauseDoesNotTrap() async throws {
        network.clock.advance(by: .seconds(1))
        try await network.running { _ in
            Duration(attoseconds: .max)
        } _: { network in
            network.clock.advance(by: .seconds(1))
        }
    }

    @Test func resumeIsDeliveredBeforeOverdueTimers() async throws {
        let texts = Recorder<String>()
        try await network.running { batch in
            texts.record("\(batch.now.sinceBoot): \(batch.events.map(\.text))")
            return batch.now.sinceBoot == .zero ? .seconds(1) : nil
        } _: { network in
            _ = network.clock.schedule(at: .init(offset: .seconds(2))) { texts.record("timer") }
            network.suspend(for: .seconds(60))
            #expect(
                texts.value == [
                    "0.0 seconds: []", "60.0 seconds: [\"resumed(after: 60.0 seconds)\"]", "timer",
                ])
        }
    }

    @Test func nothingIsDeliveredAfterRun() async throws {
        try await network.running { [times] batch in
            times.record(batch.now.sinceBoot)
            return .seconds(1)
        } _: { _ in
        }
        try network.pull("eth0")
        network.wake()
        network.clock.advance(by: .seconds(10))
        #expect(times.value == [.zero])
    }

    @Test func networkRunsOnceAtATime() async throws {
        for _ in 0..<3 {
            try await network.running { _ in
                nil
            } _: { network in
                let error = await #expect(throws: ReachabilityError.self) { try await network.run { _ in nil } }
                #expect(error?.code == .alreadyRun)
            }
        }
    }

    @Test func stopEndsRunWithItsError() async throws {
        let failure = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        let run = Task { [network] in try await network.run { _ in nil } }
        try await network.untilRunning()
        network.stop(throwing: failure)
        await #expect(throws: failure) { try await run.value }
        network.stop(throwing: failure)
        await #expect(throws: failure) { try await network.run { _ in nil } }
        network.stop()
        try await network.run { [times] batch in
            times.record(batch.now.sinceBoot)
            return nil
        }
        #expect(times.value.isEmpty)
    }

    @Test func cancelledTaskDoesNotRunNetwork() async {
        let run = Task { [network, times] in
            await untilCancelled()
            try await network.run { batch in
                times.record(batch.now.sinceBoot)
                return nil
            }
        }
        run.cancel()
        await #expect(throws: CancellationError.self) { try await run.value }
        #expect(times.value.isEmpty)
        #expect(!network.isRunning)
    }

    @Test func waitingForRunEndsWithCancellation() async {
        let waiting = Task { [network] in try await network.untilRunning() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }

    @Test func clockDoesNotRetainNetwork() async throws {
        let clock = ManualClock()
        weak var forgotten: SimulatedNetwork?
        do {
            let network = SimulatedNetwork.online(clock: clock)
            forgotten = network
            try await network.running { _ in
                .seconds(1)
            } _: { _ in
            }
        }
        #expect(forgotten == nil)
    }
}
