/// Bytes that are not what they should be.
package struct MalformedBytes: Error, Hashable {
    package init() {}
}

/// Reads what ``ByteWriter`` writes, from bytes that may be anything.
///
/// It allocates in proportion to what is really there, whatever the bytes say about their number.
package struct ByteReader: Sendable {
    private var rest: ArraySlice<UInt8>
    /// The version of the format that the bytes are in.
    package let version: UInt16

    package init(_ bytes: ArraySlice<UInt8>, version: UInt16 = RecordingFormat.majorVersion) {
        rest = bytes
        self.version = version
    }

    package mutating func bytes(_ count: Int) throws(MalformedBytes) -> ArraySlice<UInt8> {
        guard count >= 0, count <= rest.count else { throw MalformedBytes() }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    package mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) throws(MalformedBytes) -> Value {
        let bytes = try bytes(Value.bitWidth / 8)
        return bytes.reversed().reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
    }

    package mutating func flag() throws(MalformedBytes) -> Bool {
        switch try integer(UInt8.self) {
        case 0: return false
        case 1: return true
        default: throw MalformedBytes()
        }
    }

    package mutating func duration() throws(MalformedBytes) -> Duration { .nanoseconds(try integer(Int64.self)) }

    package mutating func text() throws(MalformedBytes) -> String {
        guard let text = String(validating: try countedBytes(), as: UTF8.self) else { throw MalformedBytes() }
        return text
    }

    package mutating func address() throws(MalformedBytes) -> IPAddress {
        let count: Int
        switch try integer(UInt8.self) {
        case 4: count = 4
        case 6: count = 16
        default: throw MalformedBytes()
        }
        guard let address = IPAddress(bytes: try bytes(count)) else { throw MalformedBytes() }
        return address
    }

    package mutating func optional<Value>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Value
    ) throws(MalformedBytes) -> Value? {
        try flag() ? try body(&self) : nil
    }

    package mutating func optionalNumber() throws(MalformedBytes) -> UInt32? {
        try optional { reader throws(MalformedBytes) in try reader.integer(UInt32.self) }
    }

    package mutating func optionalAddress() throws(MalformedBytes) -> IPAddress? {
        try optional { reader throws(MalformedBytes) in try reader.address() }
    }

    package mutating func array<Element>(
        _ body: (inout ByteReader) throws(MalformedBytes) -> Element
    ) throws(MalformedBytes) -> [Element] {
        let count = try integer(UInt32.self)
        var elements: [Element] = []
        // Not reserved: the number may be a lie, and each element takes at least one byte of what is there.
        for _ in 0..<count { elements.append(try body(&self)) }
        return elements
    }

    /// As many bytes as the number before them says.
    package mutating func countedBytes() throws(MalformedBytes) -> ArraySlice<UInt8> {
        try bytes(Int(try integer(UInt32.self)))
    }
}
