import Reachability
import Testing

@Suite struct RecordingBufferTests {
    private func batch(_ second: Int) -> RecordingEntry {
        RecordingEntry(
            .batch(NetworkEventBatch(now: .seconds(second), wallTime: .zero)), now: .seconds(second), wallTime: .zero)
    }

    private func answer(_ second: Int) -> RecordingEntry {
        RecordingEntry(
            .route(RouteQuery(to: ip("1.1.1.1")), .init(.success(.refused(errno: 101)), isForBatch: true)), now: .seconds(second),
            wallTime: .zero)
    }

    private func add(_ entry: RecordingEntry, to buffer: inout RecordingBuffer) { buffer.append(entry, entry.bytes) }

    @Test func droppedEntriesLeaveAMark() throws {
        let size = try #require(batch(0).bytes?.count)
        var buffer = RecordingBuffer(limit: 3 * size)
        for second in 0..<6 { add(batch(second), to: &buffer) }
        let first = buffer.take()
        #expect(buffer.lost == 3)
        _ = buffer.take()
        add(batch(6), to: &buffer)
        let second = buffer.take()
        let (entries, report) = try decode(RecordingFormat.header + first + second)
        #expect(entries.map { $0.now.components.seconds } == [0, 1, 2, 3, 6] && report.lost == 3 && report.batches == 4)
    }

    @Test func bufferContinuesWithABatchAfterDrop() throws {
        let size = try #require(batch(0).bytes?.count)
        var buffer = RecordingBuffer(limit: 4 * size)
        for second in 0..<5 { add(batch(second), to: &buffer) }
        var written = buffer.take()
        written += buffer.take()
        // An answer to a dropped batch.
        add(answer(4), to: &buffer)
        add(batch(5), to: &buffer)
        add(answer(5), to: &buffer)
        let (entries, report) = try decode(RecordingFormat.header + written + buffer.take())
        #expect(report.lost == 2 && report.answers == 1 && report.batches == 5)
        #expect(entries.last.map(text) == text(answer(5)))
    }

    @Test func bytesInFlightCount() throws {
        let size = try #require(batch(0).bytes?.count)
        var buffer = RecordingBuffer(limit: size)
        add(batch(0), to: &buffer)
        _ = buffer.take()
        add(batch(1), to: &buffer)
        #expect(buffer.lost == 1 && buffer.isEmpty && buffer.written == 0)
        _ = buffer.take()
        #expect(buffer.written == UInt64(size))
    }

    @Test func endIgnoresLimit() throws {
        var buffer = RecordingBuffer(limit: 0)
        add(batch(0), to: &buffer)
        buffer.finish(RecordingEntry(.end(nil), now: .zero, wallTime: .zero))
        let (_, report) = try decode(RecordingFormat.header + buffer.take())
        #expect(report.lost == 1 && report.isComplete)
    }

    @Test func oversizedEntryIsDropped() {
        let interface = NetworkInterface(index: 1, name: String(repeating: "x", count: RecordingFormat.longestPayload))
        let entry = RecordingEntry(.interfaces(.init(.success([interface]), isForBatch: true)), now: .zero, wallTime: .zero)
        #expect(entry.bytes == nil)
        var buffer = RecordingBuffer(limit: .max)
        add(entry, to: &buffer)
        #expect(buffer.lost == 1)
    }
}
