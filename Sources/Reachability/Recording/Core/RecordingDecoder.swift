/// Reads a recording from bytes that arrive in pieces of any size.
///
/// Hand it what there is with ``append(_:)``, or ``finish()`` when nothing follows, and take entries with ``next()`` until it
/// needs more.
package struct RecordingDecoder: Sendable {
    package enum Step: Sendable {
        case entry(RecordingEntry)
        case needsMore
        case end
    }

    private struct Header {
        var kind: UInt16
        var length: Int
        var now: Duration
        var wallTime: Duration
        var checksum: UInt32
    }

    /// What was read so far.
    package private(set) var report = RecordingReport()
    private var buffer: [UInt8] = []
    private var position = 0
    /// The offset of the buffer in the file.
    private var bufferOffset = 0
    private var isAtEnd = false
    private var hasHeader = false
    /// The version of the file's format.
    package private(set) var version = RecordingFormat.majorVersion
    /// Whether the last header was damaged, so that the next one must be looked for.
    private var isLost = false

    package init() {}

    package mutating func append(_ bytes: [UInt8]) {
        buffer.removeFirst(position)
        bufferOffset += position
        position = 0
        buffer += bytes
    }

    package mutating func finish() { isAtEnd = true }

    /// The next entry that can be understood.
    ///
    /// - Throws: if the file is none of ours, or of a later version.
    package mutating func next() throws(ReachabilityError) -> Step {
        if !hasHeader {
            guard try readFileHeader() else {
                guard isAtEnd else { return .needsMore }
                let size = left == 0 ? "is empty" : "ends after \(left) \(left == 1 ? "byte" : "bytes")"
                throw ReachabilityError(.invalidRecording, operation: "reading the header of a recording (the file \(size))")
            }
            hasHeader = true
        }
        while true {
            if isLost, !findMarker() { return isAtEnd ? .end : .needsMore }
            guard left > 0 || !isAtEnd else { return .end }
            guard left >= RecordingFormat.recordHeaderSize else {
                // Of what follows a damaged header nobody can say that it was ever a record.
                return isAtEnd ? (isLost ? .end : torn()) : .needsMore
            }
            guard let header = recordHeader() else {
                if !isLost { report.malformed += 1 }
                isLost = true
                position += 1
                continue
            }
            guard left >= RecordingFormat.recordHeaderSize + header.length else { return isAtEnd ? torn() : .needsMore }
            isLost = false
            position += RecordingFormat.recordHeaderSize
            let payload = buffer[position..<position + header.length]
            position += header.length
            if let entry = entry(header, payload) { return .entry(entry) }
        }
    }

    private var left: Int { buffer.count - position }

    private mutating func torn() -> Step {
        report.tornAt = bufferOffset + position
        position = buffer.count
        return .end
    }

    /// Reads the header of the file.
    ///
    /// Returns false if it is not there yet, as far as one can tell.
    private mutating func readFileHeader() throws(ReachabilityError) -> Bool {
        let bytes = buffer.dropFirst(position).prefix(RecordingFormat.headerSize)
        guard RecordingFormat.magic.starts(with: bytes.prefix(RecordingFormat.magic.count)) else {
            throw ReachabilityError(.invalidRecording, operation: "reading the signature of a recording")
        }
        guard bytes.count == RecordingFormat.headerSize else { return false }
        var reader = ByteReader(bytes.dropFirst(RecordingFormat.magic.count))
        guard let major = try? reader.integer(UInt16.self), (try? reader.integer(UInt16.self)) != nil,
            let checksum = try? reader.integer(UInt32.self), checksum == Checksum.of(bytes.dropLast(4))
        else { throw ReachabilityError(.invalidRecording, operation: "reading the header of a recording") }
        guard (RecordingFormat.earliestVersion...RecordingFormat.majorVersion).contains(major) else {
            throw ReachabilityError(.invalidRecording, operation: "reading a recording of version \(major)")
        }
        version = major
        position += RecordingFormat.headerSize
        return true
    }

    /// Moves to the next place where a record could begin.
    ///
    /// Returns false if there is none in what is there.
    private mutating func findMarker() -> Bool {
        let marker = RecordingFormat.marker
        while let first = buffer[position...].firstIndex(of: marker[0]) {
            position = first
            guard left > 1 else { return false }
            if buffer[first + 1] == marker[1] { return true }
            position += 1
        }
        position = buffer.count
        return false
    }

    /// The header at the present position; `nil` if there is none.
    private func recordHeader() -> Header? {
        let bytes = buffer[position..<position + RecordingFormat.recordHeaderSize]
        guard bytes.starts(with: RecordingFormat.marker) else { return nil }
        var reader = ByteReader(bytes.dropFirst(RecordingFormat.marker.count))
        guard let kind = try? reader.integer(UInt16.self), let length = try? reader.integer(UInt32.self),
            let now = try? reader.duration(), let wallTime = try? reader.duration(),
            let ownChecksum = try? reader.integer(UInt32.self), let checksum = try? reader.integer(UInt32.self),
            ownChecksum == Checksum.of(bytes.dropLast(8)), length <= RecordingFormat.longestPayload
        else { return nil }
        return Header(kind: kind, length: Int(length), now: now, wallTime: wallTime, checksum: checksum)
    }

    /// Reads a payload; counts it if it cannot be understood.
    private mutating func entry(_ header: Header, _ payload: ArraySlice<UInt8>) -> RecordingEntry? {
        guard Checksum.of(payload) == header.checksum else {
            report.malformed += 1
            return nil
        }
        do throws(MalformedBytes) {
            guard
                let entry = try RecordingEntry(
                    header.kind, version: version, now: header.now, wallTime: header.wallTime, payload, skipped: &report.skipped)
            else {
                report.skipped += 1
                return nil
            }
            report.count(entry)
            return entry
        } catch {
            report.malformed += 1
            return nil
        }
    }
}
