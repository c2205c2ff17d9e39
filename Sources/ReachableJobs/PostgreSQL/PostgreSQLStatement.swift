#if PostgreSQL
internal import CLibPQ

/// A statement that a connection prepares once: the types of its parameters belong to it.
struct PostgreSQLStatement: Hashable {
    let sql: String
    let types: [UInt32]
}

extension PostgreSQLParameters {
    /// Sends the parameters to a prepared statement, and returns true if libpq took them.
    func send(_ name: String, _ connection: OpaquePointer) -> Bool {
        // A parameter of no bytes still needs an address: none is NULL.
        let buffer = bytes + [0]
        let lengths = ranges.map { Int32($0?.count ?? 0) }
        let formats = [Int32](repeating: 1, count: ranges.count)
        return buffer.withUnsafeBytes { buffer in
            let base = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            let starts = ranges.map { range in range.flatMap { base?.advanced(by: $0.lowerBound) } }
            return PQsendQueryPrepared(connection, name, Int32(ranges.count), starts, lengths, formats, 1) == 1
        }
    }
}

/// The messages that a server sends beside its answers; libpq would print them.
///
/// Only the connection's thread uses it.
final class PostgreSQLNotices {
    /// The last reason for the end of the connection.
    private(set) var fatal: PostgreSQLFailure?

    /// Receives a connection's messages; the connection must end before this object.
    func attach(to connection: OpaquePointer) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        _ = PQsetNoticeReceiver(
            connection,
            { context, result in
                guard let context, let result else { return }
                Unmanaged<PostgreSQLNotices>.fromOpaque(context).takeUnretainedValue().receive(result)
            }, context)
    }

    private func receive(_ result: OpaquePointer) {
        var isFatal = false
        let failure = PostgreSQLFailure(result: result, isFatal: &isFatal)
        // libpq's own remarks have no code.
        if isFatal, failure.sqlstate != nil { fatal = failure }
    }
}
#endif
