/// Writes the values of a recording: little-endian, without padding.
package struct ByteWriter: Sendable {
    /// What was written.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    package mutating func append(_ value: Bool) { bytes.append(value ? 1 : 0) }

    package mutating func append(_ value: Duration) { append(value.wholeNanoseconds) }

    /// The number of bytes, then the text in UTF-8.
    package mutating func append(_ text: String) { appendCounted(Array(text.utf8)) }

    package mutating func append(_ address: IPAddress) {
        append(UInt8(address.family == .ipv4 ? 4 : 6))
        bytes.append(contentsOf: address.bytes)
    }

    /// A flag, then the value if there is one.
    package mutating func append<Value>(_ value: Value?, _ body: (inout ByteWriter, Value) -> Void) {
        append(value != nil)
        if let value { body(&self, value) }
    }

    /// The number of elements, then each of them.
    package mutating func append<Element>(_ elements: [Element], _ body: (inout ByteWriter, Element) -> Void) {
        append(UInt32(clamping: elements.count))
        for element in elements { body(&self, element) }
    }

    /// The number of bytes that `body` writes, then these.
    package mutating func appendCounted(_ body: (inout ByteWriter) -> Void) {
        var part = ByteWriter()
        body(&part)
        appendCounted(part.bytes)
    }

    package mutating func appendCounted(_ part: [UInt8]) {
        append(UInt32(clamping: part.count))
        bytes.append(contentsOf: part)
    }
}

extension Duration {
    /// The whole nanoseconds in it, or the nearest number that can be written.
    package var wholeNanoseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000) }
}
