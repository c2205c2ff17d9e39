/// The numbers of the file format; docs/recording.md describes it.
package enum RecordingFormat {
    /// The first bytes of a file.
    ///
    /// Like PNG's signature, a transfer as text changes them.
    package static let magic: [UInt8] = [0x89] + Array("RCHR\r\n".utf8) + [0x1a]
    /// The version that earlier readers must reject.
    ///
    /// Version 2 added the source, transport and port of queries. Version 3 added what interfaces stand on, alternative names,
    /// lifetimes and next hops of routes, inspections, and events of neighbours and of the resolver's files. Earlier versions can
    /// still be read.
    package static let majorVersion: UInt16 = 3
    /// The earliest supported version.
    package static let earliestVersion: UInt16 = 1
    /// The version of additions that earlier readers skip.
    package static let minorVersion: UInt16 = 0
    /// The size of the file's header: magic, versions, checksum of both.
    package static let headerSize = 16

    /// The first bytes of a record.
    ///
    /// A reader searches for them after damage.
    package static let marker: [UInt8] = [0xf7, 0x52]
    /// The size of a record's header: marker, kind, length, two times, checksum of these, checksum of the payload.
    package static let recordHeaderSize = 32
    /// The maximum size of a payload, so that a reader never waits for more.
    package static let longestPayload = 16 << 20

    package enum Kind {
        package static let session: UInt16 = 1
        package static let batch: UInt16 = 2
        package static let interfaces: UInt16 = 3
        package static let route: UInt16 = 4
        package static let gap: UInt16 = 5
        package static let end: UInt16 = 6
        package static let inspection: UInt16 = 7
        package static let links: UInt16 = 8
    }

    /// The header of a file.
    package static var header: [UInt8] {
        var writer = ByteWriter()
        for byte in magic { writer.append(byte) }
        writer.append(majorVersion)
        writer.append(minorVersion)
        writer.append(Checksum.of(writer.bytes))
        return writer.bytes
    }

    /// Returns a record: its header and its payload.
    package static func record(_ kind: UInt16, now: Duration, wallTime: Duration, _ payload: [UInt8]) -> [UInt8] {
        var writer = ByteWriter()
        for byte in marker { writer.append(byte) }
        writer.append(kind)
        writer.append(UInt32(clamping: payload.count))
        writer.append(now)
        writer.append(wallTime)
        writer.append(Checksum.of(writer.bytes))
        writer.append(Checksum.of(payload))
        return writer.bytes + payload
    }
}

/// CRC-32C, the checksum of iSCSI (RFC 3720 §12.1): detects every burst of up to 32 wrong bits.
package enum Checksum {
    /// The remainders of all bytes for Castagnoli's polynomial, bit-reversed.
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ 0x82f6_3b78 }
    }

    /// Returns the checksum of the bytes.
    package static func of(_ bytes: some Sequence<UInt8>) -> UInt32 {
        let table = table
        return ~bytes.reduce(UInt32.max) { $0 >> 8 ^ table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] }
    }
}

/// One entry of a recording: traffic between a monitor and its source, or a note about the recording.
package struct RecordingEntry: Sendable {
    package enum Content: Sendable {
        /// The recording begins. The scopes are those that the monitor watched.
        case session(scopes: [Scope])
        /// The source delivered a batch.
        case batch(NetworkEventBatch)
        /// The source returned links and addresses.
        case interfaces(Answer<[NetworkInterface]>)
        /// The source answered a lookup.
        case route(RouteQuery, Answer<RouteVerdict>)
        /// The source answered a question about what interfaces stand on.
        case inspection(Inspection, Answer<UInt32?>)
        /// The source returned some links.
        case links([UInt32], Answer<[NetworkInterface]>)
        /// The recorder dropped this number of entries, which came faster than the sink took them.
        case gap(lost: UInt64)
        /// The source ended, with an error or by cancellation.
        case end(ReachabilityError?)
    }

    package struct Answer<Value: Sendable>: Sendable {
        package var result: Result<Value, ReachabilityError>
        /// `true` if the monitor made the request because of the last batch, `false` for any other caller.
        package var isForBatch: Bool

        package init(_ result: Result<Value, ReachabilityError>, isForBatch: Bool) {
            self.result = result
            self.isForBatch = isForBatch
        }
    }

    /// The source's time of the last batch.
    package var now: Duration
    /// The time of day of the last batch.
    package var wallTime: Duration
    package var content: Content

    package init(_ content: Content, now: Duration, wallTime: Duration) {
        self.content = content
        self.now = now
        self.wallTime = wallTime
    }
}

extension RecordingEntry {
    /// The entry as a record of the file; `nil` if it is too long.
    package var bytes: [UInt8]? {
        var writer = ByteWriter()
        let kind: UInt16
        switch content {
        case .session(let scopes):
            kind = RecordingFormat.Kind.session
            writer.append(scopes) { $0.append($1) }
        case .batch(let batch):
            kind = RecordingFormat.Kind.batch
            writer.append(batch)
        case .interfaces(let answer):
            kind = RecordingFormat.Kind.interfaces
            writer.append(answer) { writer, interfaces in writer.append(interfaces) { $0.append($1) } }
        case .route(let query, let answer):
            kind = RecordingFormat.Kind.route
            writer.append(query)
            writer.append(answer) { $0.append($1) }
        case .inspection(let inspection, let answer):
            kind = RecordingFormat.Kind.inspection
            writer.append(inspection)
            writer.append(answer) { writer, index in writer.append(index) { $0.append($1) } }
        case .links(let indices, let answer):
            kind = RecordingFormat.Kind.links
            writer.append(indices) { $0.append($1) }
            writer.append(answer) { writer, interfaces in writer.append(interfaces) { $0.append($1) } }
        case .gap(let lost):
            kind = RecordingFormat.Kind.gap
            writer.append(lost)
        case .end(let error):
            kind = RecordingFormat.Kind.end
            writer.append(error) { $0.append($1) }
        }
        guard writer.bytes.count <= RecordingFormat.longestPayload else { return nil }
        return RecordingFormat.record(kind, now: now, wallTime: wallTime, writer.bytes)
    }

    /// Creates an entry from a payload; `nil` if its kind is unknown.
    ///
    /// Ignores bytes after the known fields: later versions may add some. Adds the number of events of unknown kinds to `skipped`.
    package init?(
        _ kind: UInt16, version: UInt16 = RecordingFormat.majorVersion, now: Duration, wallTime: Duration,
        _ payload: ArraySlice<UInt8>, skipped: inout Int
    ) throws(MalformedBytes) {
        var reader = ByteReader(payload, version: version)
        let content: Content
        switch kind {
        case RecordingFormat.Kind.session:
            content = .session(scopes: try reader.array { reader throws(MalformedBytes) in try reader.scope() })
        case RecordingFormat.Kind.batch:
            content = .batch(try reader.batch(now: now, wallTime: wallTime, skipped: &skipped))
        case RecordingFormat.Kind.interfaces:
            content = .interfaces(
                try reader.answer { reader throws(MalformedBytes) in
                    try reader.array { reader throws(MalformedBytes) in try reader.interface() }
                })
        case RecordingFormat.Kind.route:
            let query = try reader.query()
            content = .route(query, try reader.answer { reader throws(MalformedBytes) in try reader.verdict() })
        case RecordingFormat.Kind.inspection:
            let inspection = try reader.inspection()
            content = .inspection(
                inspection, try reader.answer { reader throws(MalformedBytes) in try reader.optionalNumber() })
        case RecordingFormat.Kind.links:
            let indices = try reader.array { reader throws(MalformedBytes) in try reader.integer(UInt32.self) }
            content = .links(
                indices,
                try reader.answer { reader throws(MalformedBytes) in
                    try reader.array { reader throws(MalformedBytes) in try reader.interface() }
                })
        case RecordingFormat.Kind.gap:
            content = .gap(lost: try reader.integer())
        case RecordingFormat.Kind.end:
            content = .end(try reader.optional { reader throws(MalformedBytes) in try reader.error() })
        default: return nil
        }
        self.init(content, now: now, wallTime: wallTime)
    }
}

extension ByteWriter {
    fileprivate mutating func append<Value>(_ answer: RecordingEntry.Answer<Value>, _ body: (inout ByteWriter, Value) -> Void) {
        append(answer.isForBatch)
        switch answer.result {
        case .success(let value):
            append(true)
            body(&self, value)
        case .failure(let error):
            append(false)
            append(error)
        }
    }
}

extension ByteReader {
    fileprivate mutating func answer<Value>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Value
    ) throws(MalformedBytes) -> RecordingEntry.Answer<Value> {
        let isForBatch = try flag()
        return .init(try flag() ? .success(try body(&self)) : .failure(try error()), isForBatch: isForBatch)
    }
}
