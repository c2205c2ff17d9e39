import Reachability

/// Text or bytes from outside this program, with an encoding for each destination.
///
/// Names of interfaces, words of commands and errors of other programs may hold escape sequences, quotes, line breaks,
/// right-to-left overrides, and bytes that are not UTF-8. An encoded text has no effect on its destination but to be shown.
package struct ForeignText: Hashable, Sendable {
    private enum Content: Sendable {
        case text(String)
        /// In the library's encoding.
        case name(String)
        /// Not UTF-8.
        case bytes([UInt8])
    }

    private let content: Content

    /// Creates it from a text, in which a backslash is a backslash.
    package init(_ text: String) { content = .text(text) }

    /// Creates it from bytes, as the system keeps arguments and file names.
    package init(_ bytes: [UInt8]) { content = String(validating: bytes, as: UTF8.self).map(Content.text) ?? .bytes(bytes) }

    /// Creates it from a name in the library's encoding (``InterfaceName``), or a text that holds such names.
    package init(name: String) { content = .name(name) }

    /// Creates it from a name as ``terminal`` shows it, so that printed names can be typed.
    ///
    /// Keeps other escapes: `\x5c` and `\xff` belong to the encoding of names.
    package init(typedName text: String) {
        var name = ""
        var rest = Substring(text)
        while let character = rest.unicodeScalars.popFirst() {
            guard character == "\\", let (scalar, end) = Self.escapedScalar(rest), !scalar.isHarmless else {
                name.unicodeScalars.append(character)
                continue
            }
            name.unicodeScalars.append(scalar)
            rest = rest[end...]
        }
        content = .name(name)
    }

    /// The text; of bytes that are not UTF-8, those and each backslash are written `\xNN`.
    package var text: String {
        switch content {
        case .text(let text), .name(let text): text
        case .bytes(let bytes): InterfaceName.text(bytes)
        }
    }

    /// The bytes as they came.
    package var bytes: [UInt8] {
        switch content {
        case .text(let text): Array(text.utf8)
        case .name(let name): Self.decoded(name)
        case .bytes(let bytes): bytes
        }
    }

    /// The bytes as UTF-8; `nil` if they are not.
    package var utf8: String? { String(validating: bytes, as: UTF8.self) }

    /// Returns true if the bytes are the same.
    package static func == (one: ForeignText, other: ForeignText) -> Bool { one.bytes == other.bytes }

    /// Hashes the bytes.
    package func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension ForeignText {
    /// The text for terminals and logs: on one line, with invisible characters written `\xNN` or `\u{…}`.
    package var terminal: String { escapedForTerminal(text) }

    /// The text as a JSON string with its quotation marks (RFC 8259 §7), without loss.
    package var json: String {
        var json = ""
        writeJSON(to: &json)
        return json
    }

    /// Appends the text as a JSON string; characters unsafe for terminals (``UnicodeScalar/isHarmless``) are written `\u`.
    package func writeJSON(to json: inout String) {
        let text = text
        json += "\""
        defer { json += "\"" }
        // The usual case.
        guard !text.utf8.allSatisfy({ Self.isPlain($0) }) else {
            json += text
            return
        }
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case _ where scalar.isHarmless: json.unicodeScalars.append(scalar)
            default:
                for unit in String(scalar).utf16 { json += "\\u" + hexadecimal(unit, digits: 4) }
            }
        }
    }

    /// The text between the quotation marks of a label's value in the text format of Prometheus.
    ///
    /// The format escapes only backslash, quotation mark and line feed; every other character reaches the people who read the
    /// metric. The value is therefore ``terminal``: different names stay different, because names have no other backslashes.
    package var prometheusLabel: String { Self.replacing(in: terminal) { ["\\": "\\\\", "\"": "\\\""][$0] } }

    /// The text of ``terminal`` for HTML and SVG, between tags and in quoted attributes.
    ///
    /// A reference such as `&#x202e;` would bring the character back to life, and XML forbids references to most controls (XML 1.0
    /// §4.1): so invisible characters stay escaped.
    package var html: String {
        Self.replacing(in: terminal) { ["&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;", "'": "&#39;"][$0] }
    }

    /// The bytes as the value of an environment variable, without loss: programs compare them with names of the system.
    ///
    /// A zero byte, which would end the value (environ(7)) and which no name has, is written `\x00`.
    package var environmentValue: [UInt8] {
        let bytes = bytes
        return bytes.contains(0) ? bytes.flatMap { $0 == 0 ? Array(#"\x00"#.utf8) : [$0] } : bytes
    }

    /// The bytes of ``environmentValue`` with a zero byte behind them, for calls of the C library.
    package var cString: [CChar] { environmentValue.map(CChar.init(bitPattern:)) + [0] }

    /// The text of ``terminal`` for the journal: journald shows other lines as "blob data".
    ///
    /// Before digits `<` is written `\x3c`: at the beginning of a line, and of each part of a line that journald divides
    /// (LineMax=, journald.conf(5)), `<3>` is the priority (sd-daemon(3)).
    package var journal: String {
        let text = terminal
        guard text.utf8.contains(UInt8(ascii: "<")) else { return text }
        let scalars = Array(text.unicodeScalars)
        var line = ""
        for (scalar, next) in zip(scalars, scalars.dropFirst() + [" "]) {
            if scalar == "<", ("0"..."9").contains(next) { line += #"\x3c"# } else { line.unicodeScalars.append(scalar) }
        }
        return line
    }

    private static func replacing(in text: String, _ replacement: (Unicode.Scalar) -> String?) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if let replacement = replacement(scalar) { result += replacement } else { result.unicodeScalars.append(scalar) }
        }
        return result
    }

    /// Returns `true` for printable ASCII that JSON needs no escape for.
    private static func isPlain(_ byte: UInt8) -> Bool {
        (0x20...0x7e).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
}

extension ForeignText {
    /// Returns the bytes of a name in the library's encoding.
    private static func decoded(_ name: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = Array(name.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\\"), rest.first == UInt8(ascii: "x"), let value = number(rest.dropFirst().prefix(2)) {
                bytes.append(value)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }

    /// Returns the value of two hexadecimal digits.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt8? {
        guard digits.count == 2, digits.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }) else { return nil }
        return UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
    }

    /// Returns the scalar of an escape, `x` with two digits or `u` with digits in braces, and the escape's end.
    private static func escapedScalar(_ text: Substring) -> (Unicode.Scalar, String.Index)? {
        var rest = text.unicodeScalars
        switch rest.popFirst() {
        case "x":
            let digits = rest.prefix(2)
            guard let value = number(Array(Substring(digits).utf8)[...]), value < 0x80 else { return nil }
            return (Unicode.Scalar(value), digits.endIndex)
        case "u":
            guard rest.popFirst() == "{", let end = rest.firstIndex(of: "}"),
                let scalar = UInt32(Substring(rest[..<end]), radix: 16).flatMap(Unicode.Scalar.init)
            else { return nil }
            return (scalar, rest.index(after: end))
        default:
            return nil
        }
    }
}
