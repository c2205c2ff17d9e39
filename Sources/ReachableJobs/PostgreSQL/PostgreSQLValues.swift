#if PostgreSQL
internal import FoundationEssentials

/// A parameter of a statement.
enum PostgreSQLValue: Hashable, Sendable {
    /// int8
    case int(Int64?)
    /// text
    case text(String?)
    /// bytea
    case bytes(Data?)
    /// bool
    case bool(Bool?)
    /// int8[]
    case ints([Int64?])
    /// text[]
    case texts([String?])
    /// bool[]
    case bools([Bool?])
    /// bytea[]
    case bytesArray([Data])
    /// uuid[]
    case ids([DurableJobID])

    /// The type's number (pg_type.dat).
    var oid: UInt32 {
        switch self {
        case .int: 20
        case .text: 25
        case .bytes: 17
        case .bool: 16
        case .ints: 1016
        case .texts: 1009
        case .bools: 1000
        case .bytesArray: 1001
        case .ids: 2951
        }
    }
}

/// Parameters in PostgreSQL's binary format, one after the other.
struct PostgreSQLParameters: Sendable {
    /// The number of parameters that a message can count (PQ_QUERY_PARAM_MAX_LIMIT).
    static let limit = 65_535
    /// The largest size of all parameters together; the server takes messages below 1 GiB (PQ_LARGE_MESSAGE_LIMIT).
    static let byteLimit = 512 << 20

    private(set) var bytes: [UInt8] = []
    /// The place of each parameter; `nil` is NULL.
    private(set) var ranges: [Range<Int>?] = []
    private(set) var oids: [UInt32] = []

    /// Encodes the values; throws for those that PostgreSQL cannot store.
    init(_ values: [PostgreSQLValue]) throws(PostgreSQLFailure) {
        guard values.count <= Self.limit else {
            throw PostgreSQLFailure(.invalid, "a statement has at most \(Self.limit) parameters, not \(values.count)")
        }
        for value in values {
            let start = bytes.count
            let isNull = try append(value)
            ranges.append(isNull ? nil : start..<bytes.count)
            oids.append(value.oid)
            guard bytes.count <= Self.byteLimit else {
                throw PostgreSQLFailure(.invalid, "the parameters of a statement have at most \(Self.byteLimit >> 20) MiB")
            }
        }
    }

    /// Appends a value, and returns true if it is NULL.
    private mutating func append(_ value: PostgreSQLValue) throws(PostgreSQLFailure) -> Bool {
        switch value {
        case .int(let value?): append(value)
        case .text(let value?): try append(value)
        case .bytes(let value?): bytes.append(contentsOf: value)
        case .bool(let value?): bytes.append(value ? 1 : 0)
        case .int(nil), .text(nil), .bytes(nil), .bool(nil): return true
        case .ints(let values):
            try appendArray(values, element: 20) { (parameters, value) throws(PostgreSQLFailure) in parameters.append(value) }
        case .texts(let values):
            try appendArray(values, element: 25) { (parameters, value) throws(PostgreSQLFailure) in try parameters.append(value) }
        case .bools(let values):
            try appendArray(values, element: 16) { (parameters, value) throws(PostgreSQLFailure) in
                parameters.bytes.append(value ? 1 : 0)
            }
        case .bytesArray(let values):
            try appendArray(values, element: 17) { (parameters, value) throws(PostgreSQLFailure) in
                parameters.bytes.append(contentsOf: value)
            }
        case .ids(let values):
            try appendArray(values, element: 2950) { (parameters, value) throws(PostgreSQLFailure) in
                parameters.append(value.high)
                parameters.append(value.low)
            }
        }
        return false
    }

    /// Appends an array of one dimension, or of none if it is empty (array_recv of arrayfuncs.c).
    private mutating func appendArray<Element>(
        _ values: [Element?], element: Int32, _ append: (inout Self, Element) throws(PostgreSQLFailure) -> Void
    ) throws(PostgreSQLFailure) {
        self.append(Int32(values.isEmpty ? 0 : 1))
        self.append(Int32(values.contains { $0 == nil } ? 1 : 0))
        self.append(element)
        guard !values.isEmpty else { return }
        guard let count = Int32(exactly: values.count) else {
            throw PostgreSQLFailure(.invalid, "an array has \(values.count) elements")
        }
        self.append(count)
        // The lower bound.
        self.append(Int32(1))
        for value in values {
            let start = bytes.count
            // -1 is NULL's length.
            self.append(Int32(-1))
            guard let value else { continue }
            try append(&self, value)
            guard let length = Int32(exactly: bytes.count - start - 4) else {
                throw PostgreSQLFailure(.invalid, "an array's element is too large")
            }
            bytes.withUnsafeMutableBytes { $0.storeBytes(of: length.bigEndian, toByteOffset: start, as: Int32.self) }
        }
    }

    private mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
    }

    private mutating func append(_ text: String) throws(PostgreSQLFailure) {
        guard !text.utf8.contains(0) else {
            throw PostgreSQLFailure(.invalid, "PostgreSQL cannot store text with the character U+0000")
        }
        bytes.append(contentsOf: text.utf8)
    }
}
#endif
