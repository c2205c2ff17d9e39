/// What a server does with a request.
public enum Reply: Sendable {
    /// It answers.
    case respond(Int, [String: String] = [:], body: [UInt8] = [])
    /// It answers, and breaks off after a part of the body: resets the connection once the part has been taken in.
    case breakOff(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// It answers, and closes the connection politely after a part of the body.
    case stopShort(Int, [String: String] = [:], body: [UInt8], after: Int)
    /// It answers, and says nothing more after a part of the body until the client is gone.
    case stallAfter(Int, [String: String] = [:], body: [UInt8], count: Int)
    /// It resets the connection.
    case reset
    /// It says nothing until the client is gone.
    case stall

    /// It answers with a text.
    public static func respond(_ status: Int, _ headers: [String: String] = [:], _ text: String) -> Reply {
        .respond(status, headers, body: Array(text.utf8))
    }

    /// It answers with what a client asks for of a body: the part after `Range: bytes=N-`, if `If-Range` names the tag.
    public static func part(of body: [UInt8], tag: String, _ request: Request) -> Reply {
        guard let first = request.firstByte, request.headers["if-range"] == tag, first < body.count else {
            return .respond(200, ["ETag": tag], body: body)
        }
        let range = "bytes \(first)-\(body.count - 1)/\(body.count)"
        return .respond(206, ["ETag": tag, "Content-Range": range], body: Array(body[first...]))
    }
}

/// A request, as a server has received it.
public struct Request: Sendable {
    /// How many have come before, and this one.
    public var number: Int
    /// Its method.
    public var method: String
    /// What it asks for.
    public var path: String
    /// By names in lower case.
    public var headers: [String: String]
    /// How long the body is.
    public var length = 0
    /// The body itself, while it is answered; only if the server was told to keep bodies.
    public var body: [UInt8] = []
    /// The sum of the body's bytes.
    public var sum: UInt64 = 0

    /// Where the part begins that the client asks for.
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
