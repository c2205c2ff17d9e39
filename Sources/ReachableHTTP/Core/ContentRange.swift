/// The header field `Content-Range` of a part (RFC 9110, section 14.4).
struct ContentRange: Hashable {
    /// The first byte of the part, from 0.
    var first: Int64
    /// The last byte.
    var last: Int64
    /// The size of the whole; `nil` if the server does not know it.
    var total: Int64?

    /// Reads `bytes 5-9/10` or `bytes 5-9/*`; `nil` if it is neither.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let sides = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }
        let ends = sides[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]), first <= last else { return nil }
        if sides[1] != "*" {
            guard let total = Self.number(sides[1]), last < total else { return nil }
            self.total = total
        }
        (self.first, self.last) = (first, last)
    }

    /// Digits only: `Int64` alone would take a sign, too.
    private static func number(_ text: Substring) -> Int64? { text.first?.isNumber == true ? Int64(text) : nil }
}
