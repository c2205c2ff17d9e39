import Reachability

/// A JSON value (RFC 8259) that keeps the order of its members.
enum JSONValue: Hashable {
    case null
    case bool(Bool)
    /// A number in JSON's own notation.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// A key with its value.
    struct Member: Hashable {
        var key: String
        var value: JSONValue

        init(_ key: String, _ value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    /// A whole number.
    static func integer(_ value: some BinaryInteger) -> JSONValue { .number("\(value)") }

    /// A number, or `null` for one that JSON cannot say.
    static func double(_ value: Double) -> JSONValue { value.isFinite ? .number("\(value)") : .null }

    /// A length of time in seconds, exact to the nanosecond.
    static func seconds(_ duration: Duration) -> JSONValue {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = abs(attoseconds / 1_000_000_000)
        let sign = seconds < 0 || attoseconds < 0 ? "-" : ""
        return .number("\(sign)\(seconds.magnitude).\(zeroPadded(nanoseconds, 9))")
    }

    /// A string, or `null`.
    static func optional(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }
}

extension JSONValue: CustomStringConvertible {
    /// The value on one line, without superfluous white space.
    var description: String {
        var text = ""
        // A transition takes some 800 bytes.
        text.reserveCapacity(1024)
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .number(let value): text += value
        case .string(let value): Self.write(value, to: &text)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                Self.write(member.key, to: &text)
                text += ":"
                member.value.write(to: &text)
            }
            text += "}"
        }
    }

    /// Whether a byte is a printable character of ASCII that JSON takes as it is.
    private static func isPlain(_ byte: UInt8) -> Bool {
        (0x20...0x7e).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// Loses nothing, and is harmless on a terminal: what ``UnicodeScalar/isHarmless`` rules out is written `\u`.
    private static func write(_ string: String, to text: inout String) {
        // Nearly all there is to write.
        if string.utf8.allSatisfy({ isPlain($0) }) {
            text += "\""
            text += string
            text += "\""
            return
        }
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case _ where scalar.isHarmless: text.unicodeScalars.append(scalar)
            default:
                for unit in String(scalar).utf16 { text += "\\u" + hexadecimal(unit, digits: 4) }
            }
        }
        text += "\""
    }
}
