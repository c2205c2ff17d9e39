import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

@Suite(.timeLimit(.minutes(10)))
struct RecordingSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork

    init() { network = .online(clock: clock) }

    private static let noInterruption = AsyncStream<Int32> { _ in }

    private func recordSession(
        _ sink: @escaping @Sendable ([UInt8]) throws(ReachabilityError) -> Void, scopes: [Scope] = [.internet],
        timeLimit: Duration? = nil
    ) -> RecordSession {
        RecordSession(source: network, scopes: scopes, timeLimit: timeLimit, clock: clock, sink: sink)
    }

    /// Records for a minute while `body` changes the network.
    private func record(_ scopes: [Scope], _ body: () throws -> Void) async throws -> [UInt8] {
        let bytes = Recorder<UInt8>()
        let session = recordSession({ bytes.record(contentsOf: $0) }, scopes: scopes, timeLimit: .seconds(60))
        async let outcome = session.run(until: Self.noInterruption)
        _ = try await clock.nextSleep()
        try await network.untilRunning()
        try body()
        clock.advance(by: .seconds(60))
        #expect(await outcome == .init(end: .done, lost: 0))
        return bytes.value
    }

    private func session(
        _ network: RecordedNetwork, _ output: LineCollector, notes: LineCollector = LineCollector()
    ) -> ReplaySession {
        ReplaySession(network: network, isRaw: true, output: output, notes: notes)
    }

    @Test func replayFollowsTheOrderOfTimes() async throws {
        let scopes = ["192.0.2.99", "198.51.100.9"].map { Scope.address(Samples.address($0)) }
        let bytes = try await record(scopes) {
            for _ in 0..<2 {
                clock.advance(by: .seconds(1))
                try network.addRoute(to: "198.51.100.9/32", type: .prohibit)
                clock.advance(by: .seconds(1))
                try network.addRoute(to: "192.0.2.99/32", type: .prohibit)
                clock.advance(by: .seconds(1))
                try network.removeRoute(to: "198.51.100.9/32")
                try network.removeRoute(to: "192.0.2.99/32")
            }
        }
        let (output, notes) = (LineCollector(), LineCollector())
        #expect(await session(try RecordedNetwork(bytes), output, notes: notes).run() == .done)
        let order = output.lines.map { ($0.contains("198.51.100.9") ? "b" : "a") + ($0.contains("online") ? "+" : "-") }
        #expect(order == ["a+", "b+", "b-", "a-", "a+", "b+", "b-", "a-", "a+", "b+"])
        #expect(notes.lines.isEmpty)
    }

    @Test func aPacedReplayWritesTheSameLines() async throws {
        let bytes = try await record([.internet]) {
            try network.pull("eth0")
            clock.advance(by: .seconds(3))
            try network.plug("eth0")
        }
        let (fast, paced) = (LineCollector(), LineCollector())
        #expect(await session(try RecordedNetwork(bytes), fast).run() == .done)
        var slow = session(try RecordedNetwork(bytes, pace: .following(ContinuousClock(), speed: 1_000_000)), paced)
        slow.isPaced = true
        #expect(await slow.run() == .done)
        #expect(fast.lines.count == 3 && paced.lines == fast.lines)
        #expect(fast.lines[2].contains("after 3s"))
    }

    @Test func aFailedWriteEndsTheRecording() async throws {
        let error = ReachabilityError(.fileFailed, errno: 28, operation: "write(x)")
        let session = recordSession { _ throws(ReachabilityError) in throw error }
        #expect(await session.run(until: Self.noInterruption).end == .writingFailed(error))
    }

    @Test func anInterruptionCompletesTheRecording() async throws {
        let bytes = Recorder<UInt8>()
        let (interruption, interrupt) = AsyncStream.makeStream(of: Int32.self)
        let session = recordSession { bytes.record(contentsOf: $0) }
        async let outcome = session.run(until: interruption)
        try await network.untilRunning()
        interrupt.yield(15)
        #expect(await outcome == .init(end: .done, lost: 0))
        let network = try RecordedNetwork(bytes.value)
        try await network.run { _ in nil }
        #expect(network.report.isComplete && !network.report.isTorn)
    }

    @Test func theSourcesErrorEndsTheRecording() async throws {
        let bytes = Recorder<UInt8>()
        let session = recordSession { bytes.record(contentsOf: $0) }
        async let outcome = session.run(until: Self.noInterruption)
        try await network.untilRunning()
        let error = ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)")
        network.stop(throwing: error)
        #expect(await outcome.end == .monitorEnded(error))
        let (output, notes) = (LineCollector(), LineCollector())
        #expect(await self.session(try RecordedNetwork(bytes.value), output, notes: notes).run() == .done)
        #expect(output.lines.count == 2 && output.lines.last?.contains("◌ unknown") == true)
        #expect(notes.lines.contains { $0.contains("ended by an error") })
    }

    @Test func damageInARecordingIsReported() async throws {
        let bytes = try await record([.internet]) { try network.pull("eth0") }
        var damaged = Array(bytes.dropLast(5))
        damaged[damaged.count / 2] ^= 1
        let (output, notes) = (LineCollector(), LineCollector())
        #expect(await session(try RecordedNetwork(damaged), output, notes: notes).run() == .done)
        #expect(notes.lines.contains { $0.contains("1 damaged record left out") })
        #expect(
            notes.lines.contains {
                $0.contains("ends in the middle of an entry at byte ") && $0.contains("; everything before it was replayed")
            })
    }

    @Test func aClosedOutputEndsTheReplay() async throws {
        let bytes = try await record([.internet]) { try network.pull("eth0") }
        let output = LineCollector { _ throws(OutputFailure) in throw .readerGone }
        #expect(await session(try RecordedNetwork(bytes), output).run() == .outputFailed(.readerGone))
    }

    @Test(arguments: [("max", nil), ("1", 1), ("0.5", 0.5), ("1000000", 1_000_000)] as [(String, Double?)])
    func parsesSpeeds(_ text: String, _ factor: Double?) throws {
        #expect(try SpeedArgument(text).factor == factor)
    }

    @Test(arguments: ["", "0", "-1", "fast", "inf", "nan", "1e3", "1x", "1000001", ".", "0x2"])
    func rejectsOtherSpeeds(_ text: String) {
        #expect(throws: InvalidArgument.self) { try SpeedArgument(text) }
    }
}
