internal import FoundationEssentials

enum StoredText {
    /// Returns the text that a database keeps for one of the caller's: SQLite's functions end a text at its first NUL, and
    /// PostgreSQL keeps none.
    ///
    /// U+0001 begins an escape, of itself and of NUL.
    static func stored(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 < 2 }) else { return text }
        return text.replacing("\u{1}", with: "\u{1}1").replacing("\0", with: "\u{1}0")
    }

    /// Returns the caller's text for one that a database keeps.
    static func loaded(_ text: String) -> String {
        guard text.utf8.contains(1) else { return text }
        return text.replacing("\u{1}0", with: "\0").replacing("\u{1}1", with: "\u{1}")
    }

    /// Returns the text that keeps a trace context; `nil` if it is empty.
    static func text(of context: [String: String]) -> String? {
        if context.isEmpty { return nil }
        return (try? JSONEncoder().encode(context)).map { stored(String(decoding: $0, as: UTF8.self)) }
    }

    /// Returns the trace context that a text keeps.
    static func context(of text: String?) -> [String: String] {
        guard let text else { return [:] }
        return (try? JSONDecoder().decode([String: String].self, from: Data(loaded(text).utf8))) ?? [:]
    }
}

/// Text that is equal to another if its bytes are, as in databases; Swift's strings are equal in all forms of Unicode.
struct Bytes: Hashable, Comparable {
    let bytes: [UInt8]

    init(_ text: String) { bytes = Array(text.utf8) }

    static func < (left: Bytes, right: Bytes) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }
}
