#if PostgreSQL
internal import CLibPQ
internal import FoundationEssentials

/// The rows that answer a statement.
///
/// Accessors return `nil` for NULL, for a row or column that does not exist, and for a value of another type.
// Sendable: nothing changes a PGresult after it was handed over, and libpq lets threads share such results ("Behavior in Threaded
// Programs"). Only the last reference releases it.
final class PostgreSQLResult: @unchecked Sendable {
    private let result: OpaquePointer
    /// The number of rows.
    let rowCount: Int
    /// The number of columns.
    let columnCount: Int
    /// The number of rows that INSERT, UPDATE, DELETE or SELECT affected; 0 for other statements.
    let affectedRowCount: Int

    /// Takes over a result of libpq.
    init(_ result: OpaquePointer) {
        self.result = result
        rowCount = Int(PQntuples(result))
        columnCount = Int(PQnfields(result))
        affectedRowCount = PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0
    }

    deinit { PQclear(result) }

    /// Returns an int2, int4 or int8.
    func int(_ row: Int, _ column: Int) -> Int64? { withValue(row, column) { PostgreSQLReader.int($0) } }

    /// Returns a text.
    func text(_ row: Int, _ column: Int) -> String? { withValue(row, column) { PostgreSQLReader.text($0) } }

    /// Returns a value's bytes: those of a bytea, or of any other type in its binary format.
    func bytes(_ row: Int, _ column: Int) -> Data? { withValue(row, column) { Data($0) } }

    /// Returns a bool.
    func bool(_ row: Int, _ column: Int) -> Bool? { withValue(row, column) { PostgreSQLReader.bool($0) } }

    /// Returns a job's identity, a uuid or the text of one.
    func id(_ row: Int, _ column: Int) -> DurableJobID? { withValue(row, column) { PostgreSQLReader.id($0) } }

    /// Returns an array of integers.
    func ints(_ row: Int, _ column: Int) -> [Int64?]? {
        withValue(row, column) { PostgreSQLReader.array($0) { PostgreSQLReader.int($0) } }
    }

    /// Returns an array of uuids.
    func ids(_ row: Int, _ column: Int) -> [DurableJobID?]? {
        withValue(row, column) { PostgreSQLReader.array($0) { PostgreSQLReader.id($0) } }
    }

    /// Returns an array of texts.
    func texts(_ row: Int, _ column: Int) -> [String?]? {
        withValue(row, column) { PostgreSQLReader.array($0) { PostgreSQLReader.text($0) } }
    }

    /// Returns an array of bools.
    func bools(_ row: Int, _ column: Int) -> [Bool?]? {
        withValue(row, column) { PostgreSQLReader.array($0) { PostgreSQLReader.bool($0) } }
    }

    /// Returns an array of bytea.
    func bytesArray(_ row: Int, _ column: Int) -> [Data?]? {
        withValue(row, column) { PostgreSQLReader.array($0) { Data($0) } }
    }

    /// Returns true for NULL; also for a row or column that does not exist.
    func isNull(_ row: Int, _ column: Int) -> Bool { withValue(row, column) { _ in true } == nil }

    // libpq prints a warning for numbers outside of the result.
    private func withValue<Value>(_ row: Int, _ column: Int, _ read: (UnsafeRawBufferPointer) -> Value?) -> Value? {
        guard (0..<rowCount).contains(row), (0..<columnCount).contains(column) else { return nil }
        let (row, column) = (Int32(row), Int32(column))
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else { return nil }
        return read(UnsafeRawBufferPointer(start: start, count: max(0, Int(PQgetlength(result, row, column)))))
    }
}

/// Decodes values in PostgreSQL's binary format; `nil` for malformed ones.
enum PostgreSQLReader {
    static func int(_ bytes: UnsafeRawBufferPointer) -> Int64? {
        switch bytes.count {
        case 2: Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 4: Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 8: Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
        default: nil
        }
    }

    static func id(_ bytes: UnsafeRawBufferPointer) -> DurableJobID? {
        guard bytes.count == 16 else { return text(bytes).flatMap { DurableJobID($0) } }
        return DurableJobID(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }

    static func text(_ bytes: UnsafeRawBufferPointer) -> String? { String(validating: bytes, as: UTF8.self) }

    static func bool(_ bytes: UnsafeRawBufferPointer) -> Bool? { bytes.count == 1 ? bytes[0] != 0 : nil }

    /// Returns the elements of an array of at most one dimension (array_send of arrayfuncs.c).
    static func array<Element>(
        _ bytes: UnsafeRawBufferPointer, _ read: (UnsafeRawBufferPointer) -> Element?
    ) -> [Element?]? {
        var rest = bytes[...]
        func length() -> Int? {
            guard rest.count >= 4 else { return nil }
            defer { rest = rest.dropFirst(4) }
            return Int(Int32(bigEndian: UnsafeRawBufferPointer(rebasing: rest.prefix(4)).loadUnaligned(as: Int32.self)))
        }
        // The number of dimensions, the flag for NULLs, the type of the elements.
        guard let dimensions = length(), length() != nil, length() != nil else { return nil }
        if dimensions == 0 { return rest.isEmpty ? [] : nil }
        // Each element has a length of four bytes: a count of more than that is malformed.
        guard dimensions == 1, let count = length(), length() != nil, count >= 0, count <= rest.count / 4 else { return nil }
        var elements: [Element?] = []
        elements.reserveCapacity(count)
        for _ in 0..<count {
            guard let size = length() else { return nil }
            if size == -1 {
                elements.append(nil)
                continue
            }
            guard size >= 0, size <= rest.count else { return nil }
            guard let element = read(UnsafeRawBufferPointer(rebasing: rest.prefix(size))) else { return nil }
            elements.append(element)
            rest = rest.dropFirst(size)
        }
        return rest.isEmpty ? elements : nil
    }
}
#endif
