import MisbehavingServer

/// A server that answers requests for parts of a file in a way that a download must not believe, and the file that is right then.
enum DownloadScene: String, CaseIterable, Sendable {
    case successWithARange
    case successWithTheFirstPart
    case partWithoutARange
    case partWithoutItsValidator
    case partOfAnotherDate
    case partOfAnotherFile
    case partOfAnotherSize
    case partThatIsTooLong
    case partThatWasNotAskedFor
    case endOfAnotherSize

    static let body = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    private static let other: [UInt8] = body.reversed()

    /// The bytes of the file.
    var file: [UInt8] { [.partOfAnotherDate, .partOfAnotherFile].contains(self) ? Self.other : Self.body }

    /// The first response breaks off, the second one is wrong, and all others are right.
    func reply(to request: Request) -> Reply {
        let rest = Array(Self.body[30_000...])
        let (range, tag) = ("bytes 30000-99999/100000", "\"a\"")
        let dates = ["Last-Modified": "Sun, 06 Nov 1994 08:00:00 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"]
        switch (request.number, self) {
        case (1, .successWithTheFirstPart):
            return .respond(200, ["ETag": tag, "Content-Range": "bytes 0-29999/100000"], body: Array(Self.body[..<30_000]))
        case (1, .partThatWasNotAskedFor):
            return .respond(206, ["ETag": tag, "Content-Range": "bytes 0-29999/100000"], body: Array(Self.body[..<30_000]))
        case (1, .partOfAnotherDate): return .stopShort(200, dates, body: Self.body, after: 30_000)
        case (1, _): return .stopShort(200, ["ETag": tag], body: Self.body, after: 30_000)
        case (2, .successWithARange): return .respond(200, ["ETag": tag, "Content-Range": range], body: rest)
        case (2, .partWithoutARange): return .respond(206, ["ETag": tag], body: rest)
        case (2, .partWithoutItsValidator): return .respond(206, ["Content-Range": range], body: rest)
        case (2, .partOfAnotherDate):
            let new = ["Last-Modified": "Sun, 06 Nov 1994 08:10:00 GMT", "Content-Range": range]
            return .respond(206, new, body: Array(Self.other[30_000...]))
        case (2, .partOfAnotherFile):
            return .respond(206, ["ETag": "\"b\"", "Content-Range": range], body: Array(Self.other[30_000...]))
        case (2, .partOfAnotherSize):
            return .respond(206, ["ETag": tag, "Content-Range": "bytes 30000-99999/100001"], body: rest)
        case (2, .partThatIsTooLong): return .respondUntilClose(206, ["ETag": tag, "Content-Range": range], body: rest + [0])
        case (2, .endOfAnotherSize): return .respond(416, ["Content-Range": "bytes */40000"], "no")
        default: return .part(of: file, tag: file == Self.body ? tag : "\"b\"", request)
        }
    }
}

/// A server that sends at most 300 000 bytes of a file per connection.
enum CutScene: String, CaseIterable, Sendable {
    case continues
    case ignoresRanges

    static let file = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    /// The failures before the end with two charged attempts: progress is none.
    var failures: Int { self == .continues ? 3 : 2 }

    func reply(to request: Request) -> Reply {
        let first = self == .continues ? request.firstByte ?? 0 : 0
        let rest = Array(Self.file[first...])
        var headers = ["ETag": "\"a\""]
        if first > 0 { headers["Content-Range"] = "bytes \(first)-999999/1000000" }
        return .stopShort(first > 0 ? 206 : 200, headers, body: rest, after: 300_000)
    }
}

extension Reply {
    /// "hello", packed by gzip though it was not asked for, as by Apache's AddEncoding for a `.tar.gz`.
    static let packed = Reply.respond(200, ["Content-Encoding": "gzip", "ETag": "\"a\""], body: packedBytes)
    static let packedBytes: [UInt8] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 203, 72, 205, 201, 201, 231, 2, 0, 32, 48, 58, 54, 6, 0, 0, 0,
    ]
}

/// A server whose answers prove, one after the other, that a download has the whole.
enum WholeScene: String, CaseIterable, Sendable {
    /// The server sends 20 000 bytes at a time.
    case limitedParts
    /// It does not name the size in its parts either.
    case limitedPartsOfUnknownSize
    /// The last chunk is lost, and nothing is behind the bytes that have arrived.
    case lostLastChunk

    private static let body = Array(DownloadScene.body.prefix(60_000))

    var file: [UInt8] { Self.body }

    func reply(to request: Request) -> Reply {
        let first = request.firstByte ?? 0
        let tag = ["ETag": "\"a\""]
        if request.number == 1, self != .limitedParts {
            let part = self == .lostLastChunk ? Self.body : Array(Self.body[..<30_000])
            let head = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n\(String(part.count, radix: 16))\r\n"
            return .raw(Array(head.utf8) + part + [13, 10])
        }
        if request.number == 1 { return .stopShort(200, tag, body: Self.body, after: 30_000) }
        if first >= Self.body.count {
            return .respond(416, tag.merging(["Content-Range": "bytes */\(Self.body.count)"]) { $1 }, "no")
        }
        let end = min(first + 20_000, Self.body.count)
        let size = self == .limitedParts ? "\(Self.body.count)" : "*"
        let headers = tag.merging(["Content-Range": "bytes \(first)-\(end - 1)/\(size)"]) { $1 }
        return .respond(206, headers, body: Array(Self.body[first..<end]))
    }
}
