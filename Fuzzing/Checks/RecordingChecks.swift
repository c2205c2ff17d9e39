import Synchronization

@testable import Reachability

/// The rules for any file that claims to be a recording, ours or rtmon's.
enum RecordingChecks {
    static func check(_ bytes: [UInt8]) async throws {
        try await checkReplay(bytes)
        // Again with correct checksums, which a fuzzer cannot guess.
        let sealed = sealed(bytes)
        if sealed != bytes { try await checkReplay(sealed) }
        try checkEntries(sealed)
    }

    // MARK: - Replaying

    private static func checkReplay(_ bytes: [UInt8]) async throws {
        guard let network = try? RecordedNetwork(bytes) else { return }
        let heard = await batches(network)
        let size = 1 + bytes.count % 61
        let rest = Mutex(bytes[...])
        let pieces = try RecordedNetwork(reading: {
            rest.withLock { rest in
                defer { rest = rest.dropFirst(size) }
                return Array(rest.prefix(size))
            }
        })
        try Finding.check(await batches(pieces) == heard, "pieces of \(size) bytes give other batches")
        try Finding.check(pieces.report == network.report, "pieces of \(size) bytes give another report")
        try await checkTransitions(try RecordedNetwork(bytes))
    }

    /// The content of a batch.
    struct Delivery: Equatable, Sendable {
        var events: [NetworkEvent]
        var times: [Duration]
        var hasMore: Bool
        var counts: [Int?]

        init(_ batch: NetworkEventBatch) {
            events = batch.events
            times = [batch.now.sinceBoot, batch.wallTime]
            hasMore = batch.hasMore
            counts = [batch.spoofed, batch.malformed, batch.drops, batch.reopens, batch.receiveBuffer]
        }
    }

    /// Returns all batches of a replay.
    static func batches(_ network: RecordedNetwork) async -> [Delivery] {
        let collected = Mutex<[Delivery]>([])
        try? await network.run { batch in
            collected.withLock { $0.append(Delivery(batch)) }
            return nil
        }
        return collected.withLock(\.self)
    }

    /// Checks the transitions of a monitor on a replay.
    private static func checkTransitions(_ network: RecordedNetwork) async throws {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.bufferedTransitions = .max
        let monitor = ReachabilityMonitor(network, configuration: configuration)
        let scopes = [.internet] + network.scopes.prefix(4)
        let streams = scopes.map { (monitor.transitions(to: $0, raw: true), monitor.transitions(to: $0)) }
        // A file may end with an error.
        try? await monitor.run()
        try Finding.check(monitor.path.status == .unknown, "the path is known after the end")
        for (raw, damped) in streams {
            try await checkOrder(raw, isRaw: true)
            try await checkOrder(damped, isRaw: false)
        }
    }

    private static func checkOrder(_ stream: AsyncStream<Transition>, isRaw: Bool) async throws {
        var last: Transition?
        for await next in stream {
            defer { last = next }
            guard let last else {
                try Finding.check(next.isBaseline || next.cause.kind == .ended, "the first transition is no baseline")
                continue
            }
            try Finding.check(next.sequence == last.sequence + 1, "\(next.sequence) follows \(last.sequence)")
            try Finding.check(next.epoch >= last.epoch, "epoch \(next.epoch) follows \(last.epoch)")
            try Finding.check(!isRaw || next.epoch - last.epoch <= 1, "epoch \(next.epoch) follows \(last.epoch)")
            try Finding.check(next.previous?.status == last.current.status, "`previous` differs from the last transition")
            try Finding.check(
                next.kinds.contains(.online) == (next.current.isSatisfied && !last.current.isSatisfied),
                "`online` does not match the change")
            try Finding.check(next.flapPenalty.isFinite && next.flapPenalty >= 0, "a penalty of \(next.flapPenalty)")
        }
    }

    // MARK: - Writing again

    /// Entries can be written and read again.
    private static func checkEntries(_ bytes: [UInt8]) throws {
        guard let entries = try? entries(bytes) else { return }
        let written = file(entries)
        try Finding.check(try file(Self.entries(written)) == written, "written entries read differently")
    }

    private static func entries(_ bytes: [UInt8]) throws -> [RecordingEntry] {
        var decoder = RecordingDecoder()
        decoder.append(bytes)
        decoder.finish()
        var entries: [RecordingEntry] = []
        while case .entry(let entry) = try decoder.next() { entries.append(entry) }
        return entries
    }

    private static func file(_ entries: [RecordingEntry]) -> [UInt8] {
        entries.reduce(RecordingFormat.header) { $0 + ($1.bytes ?? []) }
    }

    /// Returns the file with correct checksums, as far as its lengths are valid.
    static func sealed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        func seal(_ range: Range<Int>, at place: Int) {
            var writer = ByteWriter()
            writer.append(Checksum.of(bytes[range]))
            bytes.replaceSubrange(place..<place + 4, with: writer.bytes)
        }
        guard bytes.count >= RecordingFormat.headerSize, bytes.starts(with: RecordingFormat.magic) else { return bytes }
        seal(0..<RecordingFormat.headerSize - 4, at: RecordingFormat.headerSize - 4)
        var place = RecordingFormat.headerSize
        while bytes.count - place >= RecordingFormat.recordHeaderSize, bytes[place...].starts(with: RecordingFormat.marker) {
            let payload = place + RecordingFormat.recordHeaderSize
            let length = bytes[place + 4..<place + 8].reversed().reduce(0) { $0 << 8 | Int($1) }
            seal(place..<place + 24, at: place + 24)
            guard length <= bytes.count - payload else { break }
            seal(payload..<payload + length, at: place + 28)
            place = payload + length
        }
        return bytes
    }
}
