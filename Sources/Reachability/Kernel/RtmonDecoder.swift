internal import CNetlink

/// Decodes a file of rtmon(8), iproute2's recorder: netlink messages after timestamps.
///
/// A timestamp is a message of type 15 (NLMSG_TSTAMP, iproute2) with seconds and microseconds since 1970-01-01T00:00:00Z, in the
/// machine's byte order like all of netlink(7). The bytes may be arbitrary and arrive in pieces of any size.
struct RtmonDecoder: Sendable {
    /// The size of a timestamp.
    static let stampSize = 24
    private static let headerSize = 16
    /// The first bytes of a timestamp: its length and its type.
    private static let stamp: [UInt8] = withUnsafeBytes(of: (UInt32(stampSize), UInt16(15))) { Array($0.prefix(6)) }
    /// The maximum length of a message, that of a dump's datagram.
    private static let longestMessage = Int(CNL_BUFFER_SIZE)

    /// The report on the messages read so far.
    private(set) var report = RecordingReport()
    private var input = UnreadBytes()
    /// `true` after an impossible length, until the next timestamp is found.
    private var isLost = false
    /// The batch of the last timestamp.
    private var batch: NetworkEventBatch?
    private var firstTime: Duration?

    /// Returns `true` if a file that starts with these bytes is rtmon's.
    static func recognizes(_ bytes: [UInt8]) -> Bool { bytes.count >= stampSize && bytes.starts(with: stamp) }

    mutating func append(_ bytes: [UInt8]) { input.append(bytes) }

    mutating func finish() { input.finish() }

    /// Returns the next batch: the events after a timestamp.
    mutating func next() -> RecordingDecoder.Step {
        while true {
            if isLost, !findStamp() { return input.isAtEnd ? last() : .needsMore }
            guard input.count >= Self.headerSize else {
                guard input.isAtEnd else { return .needsMore }
                if input.count > 0 { report.tornAt = input.offset }
                return last()
            }
            let length = length
            guard length >= Self.headerSize, length <= Self.longestMessage else {
                report.malformed += 1
                isLost = true
                input.skip(1)
                continue
            }
            guard input.count >= length else {
                guard input.isAtEnd else { return .needsMore }
                report.tornAt = input.offset
                return last()
            }
            // Padded to a multiple of four (NLMSG_ALIGN), except at the end of a truncated file.
            let paddedLength = (length + 3) & ~3
            guard input.count >= paddedLength || input.isAtEnd else { return .needsMore }
            let message = input.take(length)
            input.skip(min(paddedLength - length, input.count))
            guard length == Self.stampSize, message.starts(with: Self.stamp) else {
                decode(message)
                continue
            }
            if let complete = begin(at: Self.time(message)) { return complete }
        }
    }

    /// The length in the header of the next message.
    private var length: Int { Int(Self.number(input.rest.prefix(4))) }

    /// Starts a batch, and returns the one before.
    private mutating func begin(at time: Duration) -> RecordingDecoder.Step? {
        let beginning = firstTime ?? time
        firstTime = beginning
        // The file holds the time of day, which may jump back; the source's time must not.
        let now = max(time - beginning, batch?.now.sinceBoot ?? .zero)
        report.batches += 1
        defer { batch = NetworkEventBatch(now: BootInstant(sinceBoot: now), wallTime: time) }
        return batch.map(Self.step)
    }

    private mutating func last() -> RecordingDecoder.Step {
        input.skipAll()
        defer { batch = nil }
        return batch.map(Self.step) ?? .end
    }

    private static func step(_ batch: NetworkEventBatch) -> RecordingDecoder.Step {
        .entry(RecordingEntry(.batch(batch), now: batch.now.sinceBoot, wallTime: batch.wallTime))
    }

    private mutating func decode(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { bytes in
            MessageDecoder.forEach(in: bytes) { message, start in
                if let event = MessageDecoder.event(message, of: start, devices: nil), batch != nil {
                    batch?.events.append(event)
                } else if message.kind == CNL_MALFORMED {
                    report.malformed += 1
                } else {
                    report.skipped += 1
                }
            }
        }
    }

    /// Moves to the next timestamp.
    ///
    /// - Returns: `false` if the unread bytes hold none.
    private mutating func findStamp() -> Bool {
        while input.count >= Self.stamp.count {
            if input.rest.starts(with: Self.stamp) {
                isLost = false
                return true
            }
            input.skip(1)
        }
        if input.isAtEnd { input.skipAll() }
        return false
    }

    private static func time(_ stamp: ArraySlice<UInt8>) -> Duration {
        let payload = stamp.dropFirst(headerSize)
        return .seconds(Int64(number(payload.prefix(4)))) + .microseconds(Int64(number(payload.dropFirst(4).prefix(4))))
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
    }
}
