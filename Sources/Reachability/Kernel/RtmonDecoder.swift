internal import CNetlink

/// Reads what rtmon(8) writes: netlink messages, each behind a stamp of its time.
///
/// The stamp is a message of type 15 (NLMSG_TSTAMP, iproute2) with seconds and microseconds since 1970-01-01T00:00:00Z. The
/// machine's byte order counts, as for all of netlink(7). Bytes that may be anything, in pieces of any size.
struct RtmonDecoder: Sendable {
    enum Step: Sendable {
        case batch(NetworkEventBatch)
        case needsMore
        case end
    }

    /// The size of a stamp.
    static let stampSize = 24
    private static let headerSize = 16
    /// What a stamp begins with: its length and its type.
    private static let stamp: [UInt8] = withUnsafeBytes(of: (UInt32(stampSize), UInt16(15))) { Array($0.prefix(6)) }
    /// No message of the kernel is longer than a dump's datagram.
    private static let longestMessage = Int(CNL_BUFFER_SIZE)

    /// What was read so far.
    private(set) var report = RecordingReport()
    private var buffer: [UInt8] = []
    private var position = 0
    /// The offset of the buffer in the file.
    private var bufferOffset = 0
    private var isAtEnd = false
    /// Whether the last message's length made no sense, so that the next stamp must be looked for.
    private var isLost = false
    /// The batch of the last stamp.
    private var batch: NetworkEventBatch?
    private var firstTime: Duration?

    /// Whether a file that begins so is rtmon's.
    static func recognizes(_ bytes: [UInt8]) -> Bool { bytes.count >= stampSize && bytes.starts(with: stamp) }

    mutating func append(_ bytes: [UInt8]) {
        buffer.removeFirst(position)
        bufferOffset += position
        position = 0
        buffer += bytes
    }

    mutating func finish() { isAtEnd = true }

    /// The next batch: a stamp, and what was announced under it.
    mutating func next() -> Step {
        while true {
            if isLost, !findStamp() { return isAtEnd ? last() : .needsMore }
            guard left >= Self.headerSize else {
                guard isAtEnd else { return .needsMore }
                if left > 0 { report.tornAt = bufferOffset + position }
                return last()
            }
            let length = length
            guard length >= Self.headerSize, length <= Self.longestMessage else {
                report.malformed += 1
                (isLost, position) = (true, position + 1)
                continue
            }
            guard left >= length else {
                guard isAtEnd else { return .needsMore }
                report.tornAt = bufferOffset + position
                return last()
            }
            // Padded to a multiple of four (NLMSG_ALIGN), but for the last one of a file that was cut.
            let paddedLength = (length + 3) & ~3
            guard left >= paddedLength || isAtEnd else { return .needsMore }
            let message = buffer[position..<position + length]
            position += min(paddedLength, left)
            guard length == Self.stampSize, message.starts(with: Self.stamp) else {
                decode(message)
                continue
            }
            if let complete = begin(at: Self.time(message)) { return .batch(complete) }
        }
    }

    private var left: Int { buffer.count - position }

    /// The length that the message at the present position claims.
    private var length: Int { Int(Self.number(buffer[position..<position + 4])) }

    /// Begins a batch, and returns the one before.
    private mutating func begin(at time: Duration) -> NetworkEventBatch? {
        let beginning = firstTime ?? time
        firstTime = beginning
        // The file knows the time of day only, which may jump back; the source's time may not.
        let now = max(time - beginning, batch?.now.sinceBoot ?? .zero)
        report.batches += 1
        defer { batch = NetworkEventBatch(now: BootInstant(sinceBoot: now), wallTime: time) }
        return batch
    }

    private mutating func last() -> Step {
        position = buffer.count
        defer { batch = nil }
        return batch.map { .batch($0) } ?? .end
    }

    private mutating func decode(_ bytes: ArraySlice<UInt8>) {
        bytes.withUnsafeBytes { bytes in
            MessageDecoder.forEach(in: bytes) { message in
                if let event = MessageDecoder.event(message, devices: nil), batch != nil {
                    batch?.events.append(event)
                } else if message.kind == CNL_MALFORMED {
                    report.malformed += 1
                } else {
                    report.skipped += 1
                }
            }
        }
    }

    /// Moves to the next stamp.
    ///
    /// Returns false if there is none in what is there.
    private mutating func findStamp() -> Bool {
        while left >= Self.stamp.count {
            if buffer[position...].starts(with: Self.stamp) {
                isLost = false
                return true
            }
            position += 1
        }
        if isAtEnd { position = buffer.count }
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
