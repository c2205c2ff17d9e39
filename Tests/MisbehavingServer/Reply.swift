/// The server's reaction to a request.
public indirect enum Reply: Sendable {
    /// A whole response.
    case respond(Int, [String: String] = [:], body: [UInt8] = [])
    /// A whole response without a length, which ends with the connection.
    case respondUntilClose(Int, [String: String] = [:], body: [UInt8])
    /// A whole response in parts of 64 KiB; before each one, `gate` gets the number of bytes before it, and may block.
    case paced(Int, [String: String] = [:], body: [UInt8], gate: @Sendable (Int) -> Void)
    /// A part of a response; the connection is reset after the client has received the part.
    case breakOff(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// A part of a response; the connection is closed normally after it.
    case stopShort(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// A part of a response, and silence until the client is gone.
    case stallAfter(Int, [String: String] = [:], body: [UInt8], count: Int)
    /// These bytes, which may be no response; the connection is closed normally after them.
    case raw([UInt8])
    /// Another reply, after a time in milliseconds.
    case late(Int32, Reply)
    /// A reset of the connection.
    case reset
    /// Silence until the client is gone.
    case stall

    /// Returns a response with a text.
    public static func respond(_ status: Int, _ headers: [String: String] = [:], _ text: String) -> Reply {
        .respond(status, headers, body: Array(text.utf8))
    }

    /// Returns the requested part of a body: the bytes after `Range: bytes=N-` if `If-Range` has the tag, otherwise all.
    ///
    /// - Parameter gate: Gets the position in the whole body before each 64 KiB are sent, and may block; `nil` sends all at once.
    public static func part(
        of body: [UInt8], tag: String, _ request: Request, gate: (@Sendable (Int) -> Void)? = nil
    ) -> Reply {
        var (status, headers, rest, first) = (200, ["ETag": tag], body, 0)
        if let position = request.firstByte, request.headers["if-range"] == tag, position < body.count {
            (status, first, rest) = (206, position, Array(body[position...]))
            headers["Content-Range"] = "bytes \(first)-\(body.count - 1)/\(body.count)"
        }
        guard let gate else { return .respond(status, headers, body: rest) }
        return .paced(status, headers, body: rest) { [first] in gate(first + $0) }
    }
}

/// The end of a connection before any request.
public enum Greeting: String, CaseIterable, Sendable {
    /// The connection is closed normally.
    case close
    /// The connection is reset.
    case reset
    /// A fatal alert of TLS (RFC 8446, section 6): internal error.
    case alert
    /// Silence until the client is gone.
    case silence
}

/// A request that the server has received.
public struct Request: Sendable {
    /// The number of the request, from 1.
    public var number: Int
    /// The number of its connection, from 1.
    public var connection: Int
    /// The method.
    public var method: String
    /// The target.
    public var path: String
    /// The headers by their names in lower case.
    public var headers: [String: String]
    /// The number of bytes of the body.
    public var length = 0
    /// The body, for `answer` only, and if the server keeps bodies.
    public var body: [UInt8] = []
    /// The sum of the body's bytes.
    public var sum: UInt64 = 0

    /// The first byte of the requested range.
    public var firstByte: Int? {
        guard let range = headers["range"], range.hasPrefix("bytes="), range.hasSuffix("-") else { return nil }
        return Int(range.dropFirst(6).dropLast())
    }

    init?(number: Int, connection: Int, head: String) {
        let lines = head.split(separator: "\r\n")
        guard let words = lines.first?.split(separator: " "), words.count == 3 else { return nil }
        (self.number, self.connection, method, path) = (number, connection, String(words[0]), String(words[1]))
        headers = lines.dropFirst().reduce(into: [:]) { headers, line in
            guard let colon = line.firstIndex(of: ":") else { return }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
    }
}
