/// What has arrived of a download that several attempts share, and whether the next one may go on where the last one broke off.
///
/// A part may be joined to what is there only if both are of the same representation, byte for byte. The server tells by a strong
/// validator: an entity tag, or a date of last modification if there is no tag, and if the response was written so much later that
/// the representation cannot have changed twice within the second that the date names (RFC 9110, sections 8.8 and 13.1.5).
package struct PartialDownload: Hashable, Sendable {
    /// How a response's body is to be taken.
    package enum Body: Hashable, Sendable {
        /// It follows what is there.
        case append
        /// It is the whole: what is there is void.
        case restart
        /// It says why there is nothing: what is there stays.
        case refusal
        /// It fits nothing: what is there is void, and so is this response.
        case mismatch
    }

    /// How many bytes have arrived.
    package private(set) var received: Int64 = 0
    /// How many there are in all; `nil` if that is not known.
    package private(set) var total: Int64?
    /// What the server names the representation by; `nil` if nothing can be joined to it.
    private var validator: String?
    /// Whether the running attempt asked for the rest only.
    private var isResuming = false

    /// Makes a download of which nothing has arrived.
    package init() {}

    /// The header fields of the next request, by name: none if it has to start anew.
    ///
    /// - Parameter isAllowed: whether the request may be for a part.
    package mutating func resume(isAllowed: Bool = true) -> [(name: String, value: String)] {
        guard isAllowed, received > 0, let validator else {
            isResuming = false
            return []
        }
        isResuming = true
        return [("Range", "bytes=\(received)-"), ("If-Range", validator)]
    }

    /// A response begins.
    ///
    /// - Parameters:
    ///   - status: its status.
    ///   - header: looks up a header field of it.
    ///   - length: how long its body is; `nil` if that is not known.
    package mutating func begin(status: Int, header: (String) -> String?, length: Int64?) -> Body {
        switch status {
        case 206 where isResuming: return join(header)
        case 416 where isResuming:
            // There is less than has arrived: it has changed, though the server did not see that.
            discard()
            return .mismatch
        case 200...299:
            discard()
            // A part that nobody asked for here was asked for by the caller, whose whole it is.
            total = Self.isIdentity(header) ? length : nil
            validator = status == 200 ? Self.validator(header) : nil
            return .restart
        default: return .refusal
        }
    }

    /// So many bytes of the body have arrived.
    package mutating func receive(_ count: Int) {
        let (sum, isOver) = received.addingReportingOverflow(Int64(count))
        received = isOver ? .max : sum
    }

    /// Whether all has arrived, if a response ended without an error: a part may be less than was asked for.
    package var isComplete: Bool { !isResuming || total.map { received == $0 } ?? true }

    /// What has arrived is void.
    package mutating func discard() { self = PartialDownload() }

    private mutating func join(_ header: (String) -> String?) -> Body {
        let tag = header("ETag")
        guard let range = header("Content-Range").flatMap({ ContentRange($0) }), range.first == received,
            total == nil || range.total == nil || range.total == total, Self.isIdentity(header),
            tag == nil || tag == validator || validator?.hasPrefix("\"") != true
        else {
            discard()
            return .mismatch
        }
        total = total ?? range.total
        return .append
    }

    private static func validator(_ header: (String) -> String?) -> String? {
        // What is encoded for the way arrives decoded: positions in it mean nothing to the server.
        guard isIdentity(header), header("Accept-Ranges")?.lowercased() != "none" else { return nil }
        if let tag = header("ETag") { return tag.hasPrefix("\"") && tag.hasSuffix("\"") && tag.count > 1 ? tag : nil }
        guard let modified = header("Last-Modified"), let modifiedAt = HTTPDate.seconds(modified, now: 0),
            let writtenAt = header("Date").flatMap({ HTTPDate.seconds($0, now: 0) })
        else { return nil }
        return writtenAt - modifiedAt >= leastAge ? modified : nil
    }

    /// A minute, for clocks that differ behind one name.
    private static let leastAge: Int64 = 60

    private static func isIdentity(_ header: (String) -> String?) -> Bool {
        header("Content-Encoding").map { $0.lowercased() == "identity" } ?? true
    }
}
