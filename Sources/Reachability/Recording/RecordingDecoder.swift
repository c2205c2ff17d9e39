/// The contents and the damage of a recording, as far as it was read.
package struct RecordingReport: Hashable, Sendable {
    /// The number of batches.
    package var batches: Int = 0
    /// The number of dumps and lookups, including failed ones.
    package var answers: Int = 0
    /// The number of damaged records or messages, which were skipped.
    package var malformed: Int = 0
    /// The number of records or messages that were skipped because this version does not know them, or because they do not concern
    /// reachability.
    package var skipped: Int = 0
    /// The number of entries that the recorder dropped because they came faster than the sink took them.
    package var lost: UInt64 = 0
    /// `true` if the file ends inside a record, as after a crash or on a full disk.
    ///
    /// Everything before that record is read.
    package var isTorn: Bool { tornAt != nil }
    /// The offset in bytes of the incomplete record; `nil` unless ``isTorn``.
    package var tornAt: Int?
    /// `true` if the recorder marked the end.
    ///
    /// Otherwise its process was killed, or is still recording.
    package var isComplete: Bool = false
    /// The error that ended the recorded source.
    package var failure: ReachabilityError?

    /// Creates the report of an unread recording.
    package init() {}

    mutating func count(_ entry: RecordingEntry) {
        switch entry.content {
        case .session: break
        case .batch: batches += 1
        case .interfaces, .route, .inspection, .links: answers += 1
        case .gap(let lost): self.lost = self.lost.addingReportingOverflow(lost).overflow ? .max : self.lost + lost
        case .end(let error):
            isComplete = true
            failure = error
        }
    }
}

/// Decodes a recording from bytes that arrive in pieces of any size.
///
/// Feed it with ``append(_:)``, or ``finish()`` at the end of the file, and take entries with ``next()`` until it needs more.
package struct RecordingDecoder: Sendable {
    package enum Step: Sendable {
        case entry(RecordingEntry)
        case needsMore
        case end
    }

    /// The part of the file that is read next.
    private enum Phase {
        case fileHeader
        case record
        /// Any bytes up to the next record, after a damaged header.
        case damage
    }

    private struct Header {
        var kind: UInt16
        var length: Int
        var now: Duration
        var wallTime: Duration
        var checksum: UInt32
    }

    /// The report on the entries read so far.
    package private(set) var report = RecordingReport()
    private var input = UnreadBytes()
    private var phase = Phase.fileHeader
    /// The version of the file's format.
    package private(set) var version = RecordingFormat.majorVersion

    package init() {}

    package mutating func append(_ bytes: [UInt8]) { input.append(bytes) }

    package mutating func finish() { input.finish() }

    /// Returns the next entry, and skips damaged ones.
    ///
    /// - Throws: ``ReachabilityError`` if the file is no recording, or of a later version.
    package mutating func next() throws(ReachabilityError) -> Step {
        if phase == .fileHeader {
            guard try readFileHeader() else {
                guard input.isAtEnd else { return .needsMore }
                let size = input.count == 0 ? "is empty" : "ends after \(input.count) \(input.count == 1 ? "byte" : "bytes")"
                throw ReachabilityError(.invalidRecording, operation: "reading the header of a recording (the file \(size))")
            }
            phase = .record
        }
        while true {
            if phase == .damage, !findMarker() { return input.isAtEnd ? .end : .needsMore }
            guard input.count > 0 || !input.isAtEnd else { return .end }
            guard input.count >= RecordingFormat.recordHeaderSize else {
                // After a damaged header the rest may never have been a record.
                return input.isAtEnd ? (phase == .damage ? .end : torn()) : .needsMore
            }
            guard let header = recordHeader() else {
                if phase != .damage { report.malformed += 1 }
                phase = .damage
                input.skip(1)
                continue
            }
            guard input.count >= RecordingFormat.recordHeaderSize + header.length else {
                return input.isAtEnd ? torn() : .needsMore
            }
            phase = .record
            input.skip(RecordingFormat.recordHeaderSize)
            let payload = input.take(header.length)
            if let entry = entry(header, payload) { return .entry(entry) }
        }
    }

    private mutating func torn() -> Step {
        report.tornAt = input.offset
        input.skipAll()
        return .end
    }

    /// Reads the header of the file.
    ///
    /// - Returns: `false` if more bytes are needed.
    private mutating func readFileHeader() throws(ReachabilityError) -> Bool {
        let bytes = input.rest.prefix(RecordingFormat.headerSize)
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
        input.skip(RecordingFormat.headerSize)
        return true
    }

    /// Moves to the next possible start of a record.
    ///
    /// - Returns: `false` if the unread bytes hold none.
    private mutating func findMarker() -> Bool {
        let marker = RecordingFormat.marker
        while let distance = input.rest.firstIndex(of: marker[0]).map({ $0 - input.rest.startIndex }) {
            input.skip(distance)
            guard input.count > 1 else { return false }
            if input.rest.starts(with: marker) { return true }
            input.skip(1)
        }
        input.skipAll()
        return false
    }

    /// Returns the record header at the current position; `nil` if there is none.
    private func recordHeader() -> Header? {
        let bytes = input.rest.prefix(RecordingFormat.recordHeaderSize)
        guard bytes.starts(with: RecordingFormat.marker) else { return nil }
        var reader = ByteReader(bytes.dropFirst(RecordingFormat.marker.count))
        guard let kind = try? reader.integer(UInt16.self), let length = try? reader.integer(UInt32.self),
            let now = try? reader.duration(), let wallTime = try? reader.duration(),
            let ownChecksum = try? reader.integer(UInt32.self), let checksum = try? reader.integer(UInt32.self),
            ownChecksum == Checksum.of(bytes.dropLast(8)), length <= RecordingFormat.longestPayload
        else { return nil }
        return Header(kind: kind, length: Int(length), now: now, wallTime: wallTime, checksum: checksum)
    }

    /// Decodes a payload, or counts it as malformed or skipped.
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

/// The unread bytes of a file that arrives in pieces.
struct UnreadBytes: Sendable {
    private var bytes: [UInt8] = []
    private var position = 0
    /// The offset of `bytes` in the file.
    private var start = 0
    /// `true` if no bytes follow.
    private(set) var isAtEnd = false

    /// The unread bytes that have arrived.
    var rest: ArraySlice<UInt8> { bytes[position...] }

    /// The number of unread bytes that have arrived.
    var count: Int { bytes.count - position }

    /// The offset of the unread bytes in the file.
    var offset: Int { start + position }

    mutating func append(_ piece: [UInt8]) {
        bytes.removeFirst(position)
        start += position
        position = 0
        bytes += piece
    }

    mutating func finish() { isAtEnd = true }

    mutating func skip(_ count: Int) { position += count }

    mutating func skipAll() { position = bytes.count }

    /// Reads and removes the next bytes, which must have arrived.
    mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        defer { position += count }
        return bytes[position..<position + count]
    }
}
