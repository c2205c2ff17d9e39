import Foundation
import FoundationNetworking
import MisbehavingServer
import ReachabilityTesting
import ReachableHTTP
import ReachableRetry
import Synchronization
import TestSupport
import Testing

#if AsyncHTTPClient
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
#endif

/// Servers that misbehave at random: close, cut, wait, send wrong parts, validators and interim answers, and reset.
///
/// They tell no lie that a client cannot see through: a strong tag names one version of a file, and a length is that of the whole.
/// The environment variable `HTTP_FUZZ` sets the number of downloads and posts of each client.
@Suite(.serialized, .timeLimit(.minutes(60))) struct ServerFuzzTests {
    static let count = variable("HTTP_FUZZ") ?? 200
    static let seed =
        variable("HTTP_SEED") ?? UInt64.random(in: 0 ... .max)

    /// One client's way to make the requests of a run.
    struct Client: Sendable {
        /// False if the process ends when a connection ends within a head, as with URLSession of Swift up to 6.3.
        var survivesCutHeads = true
        var download: @Sendable (Exchange, _ path: String, RetryPolicy) async throws -> Data
        var post: @Sendable (Exchange, _ path: String, RetryPolicy) async throws -> Void
    }

    private static let attempts = 6
    private static let limit = Duration.seconds(30)
    private static let policy = RetryPolicy(.constant(.milliseconds(100))).giveUpAfter(maxAttempts: attempts).giveUpAfter(
        elapsed: limit)

    /// Runs downloads and posts one after the other, and lets delays pass.
    private func run(_ client: Client) async throws {
        let server = RandomServer(seed: Self.seed, cutsHeads: client.survivesCutHeads)
        try await Exchange.run(keepsConnections: true) {
            server.reply(to: $0)
        } _: { exchange in
            let events = exchange.bus.events
            let watching = Task {
                var (began, charged) = (Duration.zero, 0)
                for await event in events {
                    switch event.kind {
                    case .attemptStarted where event.attempt == 1: (began, charged) = (event.at, 0)
                    case .attemptFailed: charged += event.failure?.isCharged == true ? 1 : 0
                    case .backingOff: exchange.clock.advance(by: event.delay ?? .zero)
                    default: break
                    }
                    #expect(charged <= Self.attempts && event.at - began <= Self.limit, "seed \(Self.seed)")
                }
            }
            var (files, posts) = (0, 0)
            for number in 0..<Self.count {
                do {
                    let data = try await client.download(exchange, "/file/\(number)", Self.policy)
                    files += 1
                    let isRight = RandomServer.versions(number).contains(Array(data))
                    #expect(isRight, "\(data.count) bytes after \(server.story("/file/\(number)")), seed \(Self.seed)")
                } catch {}
                do {
                    try await client.post(exchange, "/post/\(number)", Self.policy)
                    posts += 1
                } catch {}
                let times = server.carriedOut("/post/\(number)")
                #expect(times <= 1, "\(server.story("/post/\(number)")), seed \(Self.seed)")
            }
            print("\(files) files and \(posts) posts of \(Self.count), seed \(Self.seed)")
            #expect(files > Self.count / 4 && posts > Self.count / 8, "seed \(Self.seed)")
            await exchange.bus.shutdown(drain: nil)
            await watching.value
        }
    }

    @Test func sessionKeepsItsPromises() async throws {
        try await run(
            Client(survivesCutHeads: false) { exchange, path, policy in
                let (file, response) = try await exchange.session.download(
                    for: exchange.request("GET", path), retrying: policy, on: exchange.bus,
                    options: .with {
                        $0.destination = .none
                        $0.errorStatuses = .thrown
                    })
                defer { try? FileManager.default.removeItem(at: file) }
                try #require(response.statusCode < 300)
                return try Data(contentsOf: file)
            } post: { exchange, path, policy in
                _ = try await exchange.session.upload(
                    for: exchange.request("POST", path), from: Data("pay".utf8), retrying: policy, on: exchange.bus,
                    options: .with {
                        $0.destination = .none
                        $0.errorStatuses = .thrown
                    })
            })
    }

    #if AsyncHTTPClient
    @Test func clientKeepsItsPromises() async throws {
        let client = HTTPClient(configuration: .steady)
        do {
            try await run(
                Client { exchange, path, policy in
                    let (file, _) = try await client.download(
                        exchange.clientRequest(.GET, path), retrying: policy, on: exchange.bus,
                        options: .with {
                            $0.destination = .none
                            $0.errorStatuses = .thrown
                        })
                    defer { try? FileManager.default.removeItem(at: file) }
                    return try Data(contentsOf: file)
                } post: { exchange, path, policy in
                    _ = try await client.upload(
                        exchange.clientRequest(.POST, path), from: ByteBuffer(string: "pay"), retrying: policy, on: exchange.bus,
                        options: .with {
                            $0.destination = .none
                            $0.errorStatuses = .thrown
                        })
                })
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
    }
    #endif
}

/// A server whose answers depend on a seed, the path of a request, and the number of requests for it.
private final class RandomServer: Sendable {
    private let seed: UInt64
    private let cutsHeads: Bool
    private let state = Mutex(State())

    private struct State {
        var requests: [String: Int] = [:]
        var carriedOut: [String: Int] = [:]
        var replies: [String: [String]] = [:]
    }

    init(seed: UInt64, cutsHeads: Bool) { (self.seed, self.cutsHeads) = (seed, cutsHeads) }

    /// The number of times that a post was carried out.
    func carriedOut(_ path: String) -> Int { state.withLock { $0.carriedOut[path] ?? 0 } }

    /// The requests for a path, and the answers.
    func story(_ path: String) -> String { state.withLock { $0.replies[path] ?? [] }.joined(separator: ", ") }

    /// The two versions of a file, one after the other.
    static func versions(_ number: Int) -> [[UInt8]] {
        let size = 2000 + number * 7919 % (number.isMultiple(of: 10) ? 200_000 : 20_000)
        let old = (0..<size).map { UInt8(truncatingIfNeeded: ($0 &+ number) &* 31 >> 3) }
        return [old, Array((old + [1, 2, 3]).reversed())]
    }

    func reply(to request: Request) -> Reply {
        let number = Int(request.path.split(separator: "/").last ?? "") ?? 0
        let count = state.withLock { state in
            state.requests[request.path, default: 0] += 1
            return state.requests[request.path] ?? 1
        }
        var generator = SplitMix64(seed: seed &+ UInt64(number) &* 1009 &+ UInt64(count) &* 7)
        let isPost = request.method == "POST"
        let reply = isPost ? post(request, &generator) : part(of: number, count, request, &generator)
        let text = "\(request.headers["range"] ?? "all"): \(reply.summary)"
        state.withLock { $0.replies[request.path, default: []].append(text) }
        return Int.random(in: 0..<4, using: &generator) == 0 ? .late(.random(in: 1...3, using: &generator), reply) : reply
    }

    private func post(_ request: Request, _ generator: inout SplitMix64) -> Reply {
        let kind = Int.random(in: 0..<12, using: &generator)
        // Those were not carried out (RFC 9110, section 15.5.20; RFC 8470; RFC 6585).
        if kind < 2 { return .respond([421, 425][kind]) }
        state.withLock { $0.carriedOut[request.path, default: 0] += 1 }
        switch kind {
        case 2: return .reset
        case 3: return .raw([])
        case 4: return .respond([408, 500, 502, 503, 504].randomElement(using: &generator) ?? 500)
        case 5: return .stopShort(200, body: Array("thanks".utf8), after: 3)
        case 6: return .raw(Array("HTTP/1.1 103 -\r\n\r\nHTTP/1.1 200 -\r\nContent-Length: 0\r\n\r\n".utf8))
        case 7 where cutsHeads: return .raw(Array("HTTP/1.1 200 -\r\nContent-Le".utf8))
        case 8: return .respondUntilClose(200, body: [1])
        default: return .respond(200)
        }
    }

    /// Answers a request for a file, of which a second version comes after some requests.
    private func part(of number: Int, _ count: Int, _ request: Request, _ generator: inout SplitMix64) -> Reply {
        let isNew = count > Int(number % 5) + 1 && number.isMultiple(of: 3)
        let versions = Self.versions(number)
        let (file, other) = isNew ? (versions[1], versions[0]) : (versions[0], versions[1])
        let (tag, otherTag) = isNew ? ("\"new\"", "\"old\"") : ("\"old\"", "\"new\"")
        let first = request.firstByte.map { min($0, file.count - 1) }
        func range(_ first: Int, _ last: Int, _ total: Int) -> [String: String] {
            ["ETag": tag, "Content-Range": "bytes \(first)-\(last)/\(total)"]
        }
        let whole = Reply.respond(200, ["ETag": tag], body: file)
        let right = Reply.part(of: file, tag: tag, request)
        let (rest, last) = (first.map { Array(file[$0...]) } ?? file, file.count - 1)
        let cut = Int.random(in: 0..<rest.count, using: &generator)
        let isPart = first != nil && request.headers["if-range"] == tag
        switch Int.random(in: 0..<20, using: &generator) {
        case 0, 1, 2, 3:
            let headers = isPart ? range(first ?? 0, last, file.count) : ["ETag": tag]
            let body = isPart ? rest : file
            let ends = min(cut, body.count)
            return Bool.random(using: &generator)
                ? .stopShort(isPart ? 206 : 200, headers, body: body, after: ends)
                : .breakOff(isPart ? 206 : 200, headers, body: body, after: ends)
        case 4: return whole
        case 5: return .respond(206, ["ETag": tag], body: rest)
        case 6: return .respond(206, range(max(0, (first ?? 0) - 1), last, file.count), body: rest)
        case 7: return .respond(206, range(first ?? 0, last, file.count + 1), body: rest)
        // The part of another version, whose tag says so.
        case 8:
            let start = min(first ?? 0, other.count - 1)
            let headers = ["ETag": otherTag, "Content-Range": "bytes \(start)-\(other.count - 1)/\(other.count)"]
            return .respond(206, headers, body: Array(other[start...]))
        case 9: return .respond(200, range(first ?? 0, last, file.count), body: rest)
        case 10: return .reset
        case 11: return .raw([])
        case 12:
            let head = "HTTP/1.1 103 -\r\nLink: </a>\r\n\r\nHTTP/1.1 200 -\r\nETag: \(tag)\r\nContent-Length: \(file.count)\r\n\r\n"
            return .raw(Array(head.utf8) + file)
        case 13: return .stopShort(200, ["ETag": "W/\(tag)"], body: file, after: min(cut, file.count))
        // The last chunk is lost.
        case 14:
            let head = "HTTP/1.1 200 -\r\nETag: \(tag)\r\nTransfer-Encoding: chunked\r\n\r\n\(String(file.count, radix: 16))\r\n"
            return .raw(Array(head.utf8) + file.prefix(cut + 1))
        case 15: return .respond(503)
        case 16: return .respond(416, ["Content-Range": "bytes */\(first ?? file.count)", "ETag": "\"third\""], "no")
        case 17 where first != nil: return .respondUntilClose(206, range(first ?? 0, last, file.count), body: rest + [0])
        case 18 where isPart: return .respond(206, range(first ?? 0, (first ?? 0) + cut, file.count), body: Array(rest[...cut]))
        default: return right
        }
    }
}

extension Reply {
    /// The kind, status and headers, and the numbers of bytes.
    fileprivate var summary: String {
        switch self {
        case .respond(let status, let headers, let body): "\(status) \(headers) \(body.count)"
        case .respondUntilClose(let status, let headers, let body): "\(status) \(headers) \(body.count) until close"
        case .paced(let status, let headers, let body, _): "\(status) \(headers) \(body.count)"
        case .breakOff(let status, let headers, let body, let count): "\(status) \(headers) \(count) of \(body.count), reset"
        case .stopShort(let status, let headers, let body, let count): "\(status) \(headers) \(count) of \(body.count), close"
        case .stallAfter(let status, let headers, let body, let count): "\(status) \(headers) \(count) of \(body.count), silence"
        case .late(_, let reply): reply.summary
        case .raw(let bytes): "raw \(bytes.count): \(String(decoding: bytes.prefix(100), as: UTF8.self).debugDescription)"
        case .reset: "reset"
        case .stall: "silence"
        }
    }
}
