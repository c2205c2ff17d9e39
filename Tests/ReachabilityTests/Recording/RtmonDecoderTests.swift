import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Handmade files of rtmon(8).
@Suite(.timeLimit(.minutes(10))) struct RtmonDecoderTests {
    private static func bytes<Number: FixedWidthInteger>(_ numbers: Number...) -> [UInt8] {
        numbers.flatMap { number in withUnsafeBytes(of: number) { Array($0) } }
    }

    private static func message(_ type: UInt16, _ payload: [UInt8]) -> [UInt8] {
        bytes(UInt32(16 + payload.count)) + bytes(type, 0) + bytes(UInt32(0), 0) + payload
    }

    private static func stamp(_ seconds: UInt32, _ microseconds: UInt32 = 0) -> [UInt8] {
        message(15, bytes(seconds, microseconds))
    }

    /// RTM_DELLINK: struct ifinfomsg with an index, and IFLA_IFNAME "e0".
    private static func linkGone(_ index: UInt32) -> [UInt8] {
        message(17, bytes(UInt16(0), 1) + bytes(index, 0, 0) + bytes(UInt16(7), 3) + [0x65, 0x30, 0, 0])
    }

    /// RTM_NEWNEIGH, which does not concern reachability.
    private static let neighbor = message(28, Array(repeating: 0, count: 12))

    private static let whole = stamp(100, 5) + linkGone(7) + stamp(101) + neighbor + stamp(99) + linkGone(8)

    private func read(_ file: [UInt8], pieces: Int = .max) async throws -> (batches: [NetworkEventBatch], RecordingReport) {
        let source = Pieces(file, pieces)
        let network = try RecordedNetwork { source.next() }
        #expect(!network.hasAnswers && network.scopes.isEmpty)
        let batches = Recorder<NetworkEventBatch>()
        try await network.run { batch in
            batches.record(batch)
            return nil
        }
        return (batches.value, network.report)
    }

    @Test(arguments: [1, 7, 24, 1000]) func timestampStartsBatch(_ pieces: Int) async throws {
        let (batches, report) = try await read(Self.whole, pieces: pieces)
        #expect(batches.map(\.events) == [[.linkRemoved(index: 7)], [], [.linkRemoved(index: 8)]])
        #expect(batches.map(\.wallTime) == [.seconds(100) + .microseconds(5), .seconds(101), .seconds(99)])
        // The time of day was set back; the source's time never goes back.
        let second = Duration.seconds(1) - .microseconds(5)
        #expect(batches.map(\.now.sinceBoot) == [.zero, second, second])
        #expect(report.batches == 3 && report.skipped == 1 && report.malformed == 0 && !report.isTorn)
    }

    @Test func truncatedFileIsReadToTheCut() async throws {
        let events = [Self.linkGone(7), Self.neighbor, Self.linkGone(8)]
        var ends = [24]
        for event in events { ends += [ends[ends.count - 1] + event.count, ends[ends.count - 1] + event.count + 24] }
        ends.removeLast()
        for length in 24...Self.whole.count {
            let (batches, report) = try await read(Array(Self.whole.prefix(length)))
            #expect(report.isTorn == !ends.contains(length), "\(length) bytes")
            #expect(report.tornAt == (ends.contains(length) ? nil : ends.last { $0 < length }), "\(length) bytes")
            #expect(batches.count == 1 + [ends[2], ends[4]].count { $0 <= length }, "\(length) bytes")
        }
    }

    @Test func impossibleLengthSkipsToNextTimestamp() async throws {
        for length in [UInt32(0), 15, 1 << 30, .max] {
            let damaged =
                Self.stamp(1) + Self.bytes(length) + Array(Self.linkGone(7).dropFirst(4)) + Self.stamp(2) + Self.linkGone(8)
            let (batches, report) = try await read(damaged, pieces: 5)
            #expect(batches.flatMap(\.events) == [.linkRemoved(index: 8)] && report.malformed == 1 && batches.count == 2)
        }
    }

    @Test func flippedBitsNeverTrap() async throws {
        for position in 24..<Self.whole.count {
            for bit in 0..<8 {
                var damaged = Self.whole
                damaged[position] ^= 1 << bit
                let (batches, _) = try await read(damaged)
                #expect(!batches.isEmpty)
            }
        }
    }

    @Test(arguments: [1, 2, 5, 6, 1000]) func paddingMayArriveLater(_ pieces: Int) async throws {
        let odd = Self.message(28, Array(repeating: 0, count: 13)) + [0, 0, 0]
        let (batches, report) = try await read(Self.stamp(1) + odd + Self.linkGone(7), pieces: pieces)
        #expect(batches.map(\.events) == [[.linkRemoved(index: 7)]])
        #expect(report.skipped == 1 && report.malformed == 0 && !report.isTorn)
    }

    @Test func eventsAloneLeadToNoVerdict() async throws {
        let network = try RecordedNetwork(Self.whole)
        let monitor = ReachabilityMonitor(network)
        try await monitor.run()
        #expect(monitor.path.status == .unknown && monitor.health.failedRequests > 0)
        #expect(monitor.health.lastFailure?.code == .notRecorded)
    }
}
