/// The server's reaction to a request.
public enum Reply: Sendable {
    /// A whole response.
    case respond(Int, [String: String] = [:], body: [UInt8] = [])
    /// A part of a response; the connection is reset after the client has received the part.
    case breakOff(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// A part of a response; the connection is closed normally after it.
    case stopShort(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// A part of a response, and silence until the client is gone.
    case stallAfter(Int, [String: String] = [:], body: [UInt8], count: Int)
    /// A reset of the connection.
    case reset
    /// Silence until the client is gone.
    case stall

    /// Returns a response with a text.
    public static func respond(_ status: Int, _ headers: [String: String] = [:], _ text: String) -> Reply {
        .respond(status, headers, body: Array(text.utf8))
    }

    /// Returns the requested part of a body: the bytes after `Range: bytes=N-` if `If-Range` has the tag, otherwise all.
    public static func part(of body: [UInt8], tag: String, _ request: Request) -> Reply {
        guard let first = request.firstByte, request.headers["if-range"] == tag, first < body.count else {
            return .respond(200, ["ETag": tag], body: body)
        }
        let range = "bytes \(first)-\(body.count - 1)/\(body.count)"
        return .respond(206, ["ETag": tag, "Content-Range": range], body: Array(body[first...]))
    }
}

/// A request that the server has received.
public struct Request: Sendable {
    /// The number of the request, from 1.
    public var number: Int
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

    init?(number: Int, head: String) {
        let lines = head.split(separator: "\r\n")
        guard let words = lines.first?.split(separator: " "), words.count == 3 else { return nil }
        (self.number, method, path) = (number, String(words[0]), String(words[1]))
        headers = lines.dropFirst().reduce(into: [:]) { headers, line in
            guard let colon = line.firstIndex(of: ":") else { return }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
    }
}
