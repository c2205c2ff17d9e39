/// The bytes that have arrived of a download, and the rule that decides whether the next attempt may continue after them.
///
/// A part may be joined to earlier bytes only if both are of the same representation, byte for byte. A strong validator that both
/// responses have shows that: an entity tag or, without a tag, a date of last modification so long before the response that the
/// representation cannot have changed twice within that second (RFC 9110, sections 8.8 and 13.1.5).
///
/// The whole is there if the size that the server named has arrived, or if a response to a request for the whole has ended in good
/// order without naming one.
package struct PartialDownload: Hashable, Sendable {
    /// The role of a response's body.
    package enum Body: Hashable, Sendable {
        /// The bytes after those that have arrived.
        case append
        /// The whole: earlier bytes are void.
        case restart
        /// None: the earlier bytes are the whole.
        case complete
        /// An error's explanation: earlier bytes stay.
        case errorResponse
        /// A part that does not fit: earlier bytes are void, and so is this response.
        case mismatch
    }

    /// The number of bytes that have arrived.
    package private(set) var received: Int64 = 0
    /// The number of bytes in all; `nil` if unknown.
    package private(set) var total: Int64?
    /// The server's name of the representation; `nil` if nothing can be joined to it.
    package private(set) var validator: String?
    /// The part that the running attempt asked for, or that its response has.
    private enum Part: Hashable {
        case whole, rest
        /// A range that the caller has set.
        case own
    }

    private var part = Part.whole
    /// The position behind the last byte that the running response may have; `nil` if unknown.
    private var end: Int64?

    /// Creates a download of which nothing has arrived.
    package init() {}

    /// Creates a download from what an earlier process has kept of it.
    package init(received: Int64, total: Int64?, validator: String?) {
        (self.received, self.total, self.validator) = (received, total, validator)
    }

    /// Returns the headers of the next request: none if it has to start at the first byte.
    ///
    /// - Parameters:
    ///   - isAllowed: `true` if the request may be for a part.
    ///   - hasOwnRange: `true` if the caller asks for a range.
    package mutating func resume(isAllowed: Bool = true, hasOwnRange: Bool = false) -> [(name: String, value: String)] {
        guard isAllowed, !hasOwnRange, received > 0, let validator else {
            part = hasOwnRange ? .own : .whole
            return []
        }
        part = .rest
        return [("Range", "bytes=\(received)-"), ("If-Range", validator)]
    }

    /// Handles the head of a response.
    ///
    /// - Parameters:
    ///   - status: The response's status.
    ///   - header: A function that looks up a header of the response.
    ///   - length: The length of its body; `nil` if unknown.
    package mutating func begin(status: Int, header: (String) -> String?, length: Int64?) -> Body {
        switch status {
        case 206 where part == .rest: return join(header)
        case 416 where part == .rest: return endAtSize(header)
        case 200...299:
            let isOwn = part == .own
            discard()
            // A part that was not asked for, or that calls itself the whole.
            let range = header("Content-Range")
            guard isOwn || status != 206 && range.map({ ContentRange($0)?.isWhole ?? false }) ?? true else { return .mismatch }
            // The chunks show the end (RFC 9112, section 6.3), and an encoded body has another length.
            let isExact = Self.isIdentity(header) && header("Transfer-Encoding") == nil
            total = isExact ? length : nil
            validator = status == 200 ? Self.validator(header) : nil
            end = total
            return .restart
        default: return .errorResponse
        }
    }

    /// Returns `true` if the running response may have so many more bytes.
    package func accepts(_ count: Int) -> Bool { end.map { Int64(count) <= $0 - received } ?? true }

    /// Counts bytes of the body that have arrived.
    package mutating func receive(_ count: Int) {
        let (sum, isOver) = received.addingReportingOverflow(Int64(count))
        received = isOver ? .max : sum
    }

    /// `true` if a response that ended in good order completes the download: a part may be shorter than requested.
    package var isComplete: Bool { total.map { received == $0 } ?? (part != .rest) }

    /// The number of bytes that the next attempt need not ask for.
    package var kept: Int64 { validator == nil ? 0 : received }

    /// Forgets all that has arrived.
    package mutating func discard() { self = PartialDownload() }

    private mutating func join(_ header: (String) -> String?) -> Body {
        guard let range = header("Content-Range").flatMap({ ContentRange($0) }), range.first == received,
            total == nil || range.total == nil || range.total == total, Self.isIdentity(header),
            header(validatingHeader) == validator
        else {
            discard()
            return .mismatch
        }
        total = total ?? range.total
        end = range.last + 1
        return .append
    }

    /// Handles the answer that there is nothing behind the bytes that have arrived: they are the whole if it names their number.
    ///
    /// Otherwise it has changed, though the server did not notice.
    private mutating func endAtSize(_ header: (String) -> String?) -> Body {
        guard let size = header("Content-Range").flatMap(ContentRange.size), size == received, total == nil || total == size,
            header(validatingHeader).map({ $0 == validator }) ?? true
        else {
            discard()
            return .mismatch
        }
        total = size
        return .complete
    }

    /// The header that has the validator.
    private var validatingHeader: String { validator?.hasPrefix("\"") == true ? "ETag" : "Last-Modified" }

    private static func validator(_ header: (String) -> String?) -> String? {
        // An encoded body arrives decoded: positions in it mean nothing to the server.
        guard isIdentity(header), header("Accept-Ranges")?.lowercased() != "none" else { return nil }
        if let tag = header("ETag") { return tag.hasPrefix("\"") && tag.hasSuffix("\"") && tag.count > 1 ? tag : nil }
        guard let modified = header("Last-Modified"), let modifiedAt = HTTPDate.seconds(modified, now: 0),
            let writtenAt = header("Date").flatMap({ HTTPDate.seconds($0, now: 0) })
        else { return nil }
        return writtenAt - modifiedAt >= leastAge ? modified : nil
    }

    /// The least age of a date that validates, in seconds: servers behind one name have different clocks.
    private static let leastAge: Int64 = 60

    private static func isIdentity(_ header: (String) -> String?) -> Bool {
        header("Content-Encoding").map { $0.lowercased() == "identity" } ?? true
    }
}

/// The header `Content-Range` of a part (RFC 9110, section 14.4).
private struct ContentRange {
    /// The position of the part's first byte, from 0.
    var first: Int64
    /// The position of its last byte.
    var last: Int64
    /// The size of the whole; `nil` if the server does not know it.
    var total: Int64?

    /// `true` if it has all bytes.
    var isWhole: Bool { first == 0 && total == last + 1 }

    /// Reads the size from `bytes */10`; `nil` if the text is another.
    static func size(_ text: String) -> Int64? {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercased() == "bytes", words[1].hasPrefix("*/") else { return nil }
        return number(words[1].dropFirst(2))
    }

    /// Reads `bytes 5-9/10` or `bytes 5-9/*`; `nil` if the text is neither.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let sides = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }
        let ends = sides[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]), first <= last, last < .max
        else { return nil }
        if sides[1] != "*" {
            guard let total = Self.number(sides[1]), last < total else { return nil }
            self.total = total
        }
        (self.first, self.last) = (first, last)
    }

    /// Reads digits only: `Int64` alone accepts a sign.
    private static func number(_ text: Substring) -> Int64? { text.first?.isNumber == true ? Int64(text) : nil }
}
