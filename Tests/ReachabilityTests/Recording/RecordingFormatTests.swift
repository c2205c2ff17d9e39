import Reachability
import ReachabilityTesting
import Testing

@Suite struct RecordingFormatTests {
    /// RFC 3720, appendix B.4.
    @Test(
        arguments: [
            (Array(repeating: 0, count: 32), 0x8a91_36aa), (Array(repeating: 0xff, count: 32), 0x62a8_ab43),
            (Array(0...31), 0x46dd_794e), ([], 0),
        ] as [([UInt8], UInt32)])
    func checksumMatchesStandard(_ bytes: [UInt8], _ checksum: UInt32) {
        #expect(Checksum.of(bytes) == checksum)
    }

    /// All later versions read these files: their bytes must not change.
    @Test func versionThreeBytesAreStable() throws {
        let batch = NetworkEventBatch(
            [.linkRemoved(index: 7), .resolverChanged(file: "/a")], now: .seconds(1), wallTime: .seconds(2))
        let bytes = file([RecordingEntry(.batch(batch), now: .seconds(1), wallTime: .seconds(2))])
        let expected: [UInt8] =
            [0x89, 0x52, 0x43, 0x48, 0x52, 0x0d, 0x0a, 0x1a, 3, 0, 0, 0] + little(Checksum.of(bytes.prefix(12)))
            + [0xf7, 0x52, 2, 0, 62, 0, 0, 0] + [0x00, 0xca, 0x9a, 0x3b, 0, 0, 0, 0] + [0x00, 0x94, 0x35, 0x77, 0, 0, 0, 0]
            + little(Checksum.of(bytes[16..<40])) + little(Checksum.of(bytes[48...]))
            + [0] + Array(repeating: 0, count: 33) + [0] + [2, 0, 0, 0] + [2, 0] + [4, 0, 0, 0] + [7, 0, 0, 0]
            + [12, 0] + [6, 0, 0, 0] + [2, 0, 0, 0] + [0x2f, 0x61] + [0]
        #expect(bytes == expected)
    }

    /// A batch of version 1 ends with its events.
    @Test func versionOneBytesAreRead() throws {
        var header: [UInt8] = [0x89, 0x52, 0x43, 0x48, 0x52, 0x0d, 0x0a, 0x1a, 1, 0, 0, 0]
        header += little(Checksum.of(header))
        func record(_ kind: UInt16, _ payload: [UInt8]) -> [UInt8] {
            RecordingFormat.record(kind, now: .seconds(1), wallTime: .seconds(2), payload)
        }
        func event(_ tag: UInt8, _ payload: [UInt8]) -> [UInt8] { [tag, 0] + little(UInt32(payload.count)) + payload }
        let name: [UInt8] = [1, 0, 0, 0, 0x61]
        // Link 7 was removed; host "a" was not found; a lookup of it failed.
        let batch: [UInt8] =
            [0] + Array(repeating: 0, count: 33) + [0] + [3, 0, 0, 0] + event(2, [7, 0, 0, 0]) + event(11, name + [1])
            + event(11, name + [2])
        // A refused lookup of 1.1.1.1 with mark 7.
        let lookup: [UInt8] = [4, 1, 1, 1, 1] + [0] + [1, 7, 0, 0, 0] + [0] + [0] + [1, 1] + [0] + little(101)
        let read = try decode(header + record(2, batch) + record(4, lookup))
        #expect(read.report.malformed == 0 && read.entries.count == 2)
        guard case .batch(let first)? = read.entries.first?.content,
            case .route(let query, let answer)? = read.entries.last?.content
        else {
            Issue.record("\(read)")
            return
        }
        #expect(first.events == [.linkRemoved(index: 7), .host("a", .failed(.notFound)), .host("a", .failed(.noAnswer))])
        #expect(first.now == .seconds(1) && first.impairment == nil)
        #expect(query == RouteQuery(to: ip("1.1.1.1"), mark: 7) && answer.result == .success(.refused(errno: 101)))
    }

    /// An interface of version 2 ends with the point-to-point flag, and a query with its port.
    @Test func versionTwoBytesAreRead() throws {
        var header: [UInt8] = [0x89, 0x52, 0x43, 0x48, 0x52, 0x0d, 0x0a, 0x1a, 2, 0, 0, 0]
        header += little(Checksum.of(header))
        func record(_ kind: UInt16, _ payload: [UInt8]) -> [UInt8] {
            RecordingFormat.record(kind, now: .seconds(1), wallTime: .seconds(2), payload)
        }
        func text(_ text: String) -> [UInt8] { little(UInt32(text.utf8.count)) + text.utf8 }
        let link = little(7) + text("eth0") + text("wired") + [1, 1, 6] + little(3) + little(0) + [0]
        let lookup: [UInt8] = [4, 1, 1, 1, 1] + [0, 0, 0, 0] + [0] + [6] + [0] + [1, 1] + [0] + little(101)
        let read = try decode(header + record(3, [1, 1] + little(2) + link + link) + record(4, lookup))
        #expect(read.report.malformed == 0 && read.entries.count == 2)
        guard case .interfaces(let dump)? = read.entries.first?.content,
            case .route(let query, _)? = read.entries.last?.content
        else {
            Issue.record("\(read)")
            return
        }
        let expected = NetworkInterface(index: 7, name: "eth0", carrierChanges: 3)
        #expect(dump.result == .success([expected, expected]) && query == RouteQuery(to: ip("1.1.1.1")))
    }

    private func little(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }

    @Test(arguments: 0..<40) func writtenEntriesAreReadBack(_ seed: UInt64) throws {
        var random = RandomEntries(seed: seed)
        let entries = random.entries(50)
        let (read, report) = try decode(file(entries), pieces: 1 + random.below(300))
        #expect(read.map(text) == entries.map(text), "seed \(seed)")
        #expect(report.malformed == 0 && report.skipped == 0 && !report.isTorn, "seed \(seed)")
    }

    @Test func truncatedFileIsReadToTheCut() throws {
        var random = RandomEntries(seed: 1)
        let entries = random.entries(8)
        let whole = file(entries)
        var ends = [RecordingFormat.headerSize]
        for entry in entries { ends.append(ends[ends.count - 1] + (entry.bytes?.count ?? 0)) }
        for length in RecordingFormat.headerSize..<whole.count {
            let (read, report) = try decode(whole.prefix(length), pieces: 1 + random.below(100))
            let complete = ends.count { $0 <= length } - 1
            #expect(read.map(text) == entries.prefix(max(complete, 0)).map(text), "\(length) bytes")
            #expect(report.isTorn == !ends.contains(length) && report.malformed == 0, "\(length) bytes")
            #expect(report.tornAt == (ends.contains(length) ? nil : ends.last { $0 < length }), "\(length) bytes")
        }
    }

    @Test func partialHeaderIsRejected() throws {
        for length in 0..<RecordingFormat.headerSize {
            let bytes = Array(RecordingFormat.header.prefix(length))
            let error = #expect(throws: ReachabilityError.self) { _ = try decode(bytes, pieces: 5) }
            #expect(error?.code == .invalidRecording)
            #expect(error?.operation.contains(length == 0 ? "the file is empty" : "ends after \(length) byte") == true)
            #expect(throws: ReachabilityError.self) { _ = try RecordedNetwork(bytes) }
        }
    }

    @Test func flippedBitDamagesOneRecord() throws {
        var random = RandomEntries(seed: 2)
        let entries = random.entries(3)
        let whole = file(entries)
        var ends = [RecordingFormat.headerSize]
        for entry in entries { ends.append(ends[ends.count - 1] + (entry.bytes?.count ?? 0)) }
        for position in whole.indices {
            for bit in 0..<8 {
                var damaged = whole
                damaged[position] ^= 1 << bit
                guard position >= RecordingFormat.headerSize else {
                    #expect(throws: ReachabilityError.self) { _ = try decode(damaged) }
                    continue
                }
                let (read, report) = try decode(damaged)
                let spoiled = ends.count { $0 <= position } - 1
                var expected = entries
                expected.remove(at: spoiled)
                #expect(read.map(text) == expected.map(text), "bit \(bit) of byte \(position)")
                #expect(report.malformed == 1 && !report.isTorn, "bit \(bit) of byte \(position)")
            }
        }
    }

    @Test(arguments: 0..<200) func invalidPayloadsNeverTrap(_ seed: UInt64) throws {
        var random = RandomEntries(seed: seed)
        // The checksums are valid, so the payload is decoded.
        var bytes = RecordingFormat.header
        for _ in 0..<20 {
            var payload = Array((random.entry().bytes ?? []).dropFirst(RecordingFormat.recordHeaderSize))
            for _ in 0..<random.below(4) where !payload.isEmpty { payload[random.below(payload.count)] = UInt8(random.below(256)) }
            bytes += RecordingFormat.record(
                UInt16(random.below(8)), now: random.time(), wallTime: random.time(), payload.dropLast(random.below(3)))
        }
        let (read, report) = try decode(bytes, pieces: 64)
        // A decoded entry may contain a skipped event.
        #expect(read.count + report.malformed <= 20 && read.count + report.malformed + report.skipped >= 20, "seed \(seed)")
    }

    @Test func wrongCountAllocatesNothing() throws {
        // The payload claims 4 billion interfaces.
        let bytes = RecordingFormat.header + RecordingFormat.record(3, now: .zero, wallTime: .zero, [1, 1, 255, 255, 255, 255, 0])
        #expect(try decode(bytes).report.malformed == 1)
    }

    @Test func excessiveLengthIsMalformed() throws {
        var long = RecordingFormat.record(2, now: .zero, wallTime: .zero, [])
        var header = ByteWriter()
        for byte in long.prefix(4) { header.append(byte) }
        header.append(UInt32.max)
        for byte in long[8..<24] { header.append(byte) }
        header.append(Checksum.of(header.bytes))
        long = header.bytes + [0, 0, 0, 0]
        let entry = RecordingEntry(.gap(lost: 3), now: .zero, wallTime: .zero)
        let (read, report) = try decode(RecordingFormat.header + long + (entry.bytes ?? []))
        #expect(read.map(text) == [text(entry)] && report.malformed == 1 && report.lost == 3)
    }

    @Test func unknownRecordsAndEventsAreSkipped() throws {
        let before = RecordingEntry(.gap(lost: 1), now: .zero, wallTime: .zero)
        let after = RecordingEntry(.end(nil), now: .zero, wallTime: .zero)
        var batch = ByteWriter()
        for byte in [0] + Array(repeating: 0, count: 34) as [UInt8] { batch.append(byte) }
        batch.append(UInt32(1))
        batch.append(UInt16(999))
        batch.appendCounted([1, 2, 3])
        let file =
            RecordingFormat.header + (before.bytes ?? [])
            + RecordingFormat.record(77, now: .zero, wallTime: .zero, [1, 2, 3])
            + RecordingFormat.record(2, now: .zero, wallTime: .zero, batch.bytes + [0, 9, 9]) + (after.bytes ?? [])
        let (read, report) = try decode(file)
        #expect(read.count == 3 && report.skipped == 2 && report.malformed == 0 && report.isComplete && report.batches == 1)
    }

    @Test func otherFilesAreRejected() throws {
        for bytes in [Array("#!/bin/sh\n".utf8), Array(repeating: 0, count: 100)] as [[UInt8]] {
            #expect(throws: ReachabilityError.self) { _ = try decode(bytes) }
            let error = #expect(throws: ReachabilityError.self) { _ = try RecordedNetwork(bytes) }
            #expect(error?.code == .invalidRecording)
        }
    }

    @Test func laterVersionIsRejected() {
        var header = ByteWriter()
        for byte in RecordingFormat.magic { header.append(byte) }
        header.append(UInt16(4))
        header.append(UInt16(0))
        header.append(Checksum.of(header.bytes))
        let bytes = header.bytes
        let error = #expect(throws: ReachabilityError.self) { _ = try decode(bytes) }
        #expect(error?.operation.contains("version 4") == true && error?.code == .invalidRecording)
    }
}
