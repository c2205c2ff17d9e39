extension RecordingEntry {
    /// The entry as a record of the file; `nil` if it is too long for one.
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

    /// Reads a payload; `nil` if its kind is unknown.
    ///
    /// What follows the known fields is ignored: later versions may add to them. Adds to `skipped` how many events of unknown
    /// kinds were left out.
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

    mutating func append(_ error: ReachabilityError) {
        append(error.code.rawValue)
        append(error.errno)
        append(error.operation)
    }
}

extension ByteReader {
    fileprivate mutating func answer<Value>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Value
    ) throws(MalformedBytes) -> RecordingEntry.Answer<Value> {
        let isForBatch = try flag()
        return .init(try flag() ? .success(try body(&self)) : .failure(try error()), isForBatch: isForBatch)
    }

    mutating func error() throws(MalformedBytes) -> ReachabilityError {
        let code = ReachabilityError.Code(rawValue: try text())
        let errno = try integer(Int32.self)
        return ReachabilityError(code, errno: errno, operation: try text())
    }
}
