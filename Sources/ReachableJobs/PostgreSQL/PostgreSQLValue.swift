#if PostgreSQL
internal import FoundationEssentials

/// A type whose values PostgreSQL reads and writes in its binary format.
protocol PostgreSQLValue {
    /// The number of the type (pg_type.dat).
    static var oid: UInt32 { get }
    static var arrayOID: UInt32 { get }
    init?(postgreSQL bytes: UnsafeRawBufferPointer)
    func append(to bytes: inout [UInt8])
}

extension PostgreSQLValue where Self: FixedWidthInteger {
    static var oid: UInt32 { 20 }
    static var arrayOID: UInt32 { 1016 }

    init?(postgreSQL bytes: UnsafeRawBufferPointer) {
        switch bytes.count {
        case 2: self.init(clamping: Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 4: self.init(clamping: Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 8: self.init(clamping: Int64(bigEndian: bytes.loadUnaligned(as: Int64.self)))
        default: return nil
        }
    }

    func append(to bytes: inout [UInt8]) { bytes.append(bigEndian: Int64(self)) }
}

extension Int64: PostgreSQLValue {}

extension Int: PostgreSQLValue {}

extension Bool: PostgreSQLValue {
    static var oid: UInt32 { 16 }
    static var arrayOID: UInt32 { 1000 }

    init?(postgreSQL bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 1 else { return nil }
        self = bytes[0] != 0
    }

    func append(to bytes: inout [UInt8]) { bytes.append(self ? 1 : 0) }
}

/// text, in the form of ``StoredText``: PostgreSQL keeps no U+0000.
extension String: PostgreSQLValue {
    static var oid: UInt32 { 25 }
    static var arrayOID: UInt32 { 1009 }

    init?(postgreSQL bytes: UnsafeRawBufferPointer) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        self = StoredText.loaded(text)
    }

    func append(to bytes: inout [UInt8]) { bytes.append(contentsOf: StoredText.stored(self).utf8) }
}

extension Data: PostgreSQLValue {
    static var oid: UInt32 { 17 }
    static var arrayOID: UInt32 { 1001 }

    init?(postgreSQL bytes: UnsafeRawBufferPointer) { self.init(bytes) }

    func append(to bytes: inout [UInt8]) { bytes.append(contentsOf: self) }
}

extension DurableJobID: PostgreSQLValue {
    static var oid: UInt32 { 2950 }
    static var arrayOID: UInt32 { 2951 }

    init?(postgreSQL bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        self.init(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }

    func append(to bytes: inout [UInt8]) {
        bytes.append(bigEndian: high)
        bytes.append(bigEndian: low)
    }
}

struct PostgreSQLParameter: Sendable {
    let oid: UInt32
    let bytes: [UInt8]?

    static func value<Value: PostgreSQLValue>(_ value: Value?) -> PostgreSQLParameter {
        let bytes = value.map { value in
            var bytes: [UInt8] = []
            value.append(to: &bytes)
            return bytes
        }
        return PostgreSQLParameter(oid: Value.oid, bytes: bytes)
    }

    /// Encodes an array of one dimension, or of none if it is empty (array_recv of arrayfuncs.c).
    static func array<Value: PostgreSQLValue>(_ values: [Value?]?) -> PostgreSQLParameter {
        guard let values else { return PostgreSQLParameter(oid: Value.arrayOID, bytes: nil) }
        var bytes: [UInt8] = []
        // The number of dimensions, the flag for NULLs, the type of the elements; of the dimension the length and the lower bound.
        let head = [values.isEmpty ? 0 : 1, values.contains { $0 == nil } ? 1 : 0, Int(Value.oid)]
        for word in values.isEmpty ? head : head + [values.count, 1] { bytes.append(bigEndian: Int32(clamping: word)) }
        for value in values {
            let start = bytes.count
            // -1 is NULL's length.
            bytes.append(bigEndian: Int32(-1))
            guard let value else { continue }
            value.append(to: &bytes)
            let length = Int32(clamping: bytes.count - start - 4)
            bytes.withUnsafeMutableBytes { $0.storeBytes(of: length.bigEndian, toByteOffset: start, as: Int32.self) }
        }
        return PostgreSQLParameter(oid: Value.arrayOID, bytes: bytes)
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
#endif
