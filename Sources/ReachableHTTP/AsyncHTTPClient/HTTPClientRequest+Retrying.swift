#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

extension HTTPClientRequest: RepeatableRequest {
    typealias StatusError = HTTPClientStatusError

    var methodName: String { method.rawValue }

    var destination: String? { URL(string: url)?.destination }

    func header(_ name: String) -> String? { headers.first(name: name) }

    mutating func setHeader(_ name: String, _ value: String) { headers.replaceOrAdd(name: name, value: value) }

    func checkURL() throws {
        guard let scheme = URL(string: url)?.scheme?.lowercased() else { throw HTTPClientError.invalidURL }
        guard ["http", "https", "http+unix", "https+unix"].contains(scheme) else {
            throw HTTPClientError.unsupportedScheme(scheme)
        }
    }

    static func fault(of error: any Error) -> ConnectionFault { ConnectionFault(error) }
}

/// The number of bytes that the client gets at once: few, so that an upload does not wait in its queue.
private let partSize = 1 << 17

/// A sequence of the parts of a buffer, which can be iterated any number of times.
private struct ByteBufferParts: AsyncSequence, Sendable {
    let bytes: ByteBuffer

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var rest: ByteBuffer

        mutating func next() async throws -> ByteBuffer? {
            rest.readableBytes > 0 ? rest.readSlice(length: Swift.min(rest.readableBytes, partSize)) : nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: bytes) }
}

/// The parts of a body, each after the event loops have dealt with the one before.
///
/// A client asks for the next part as soon as it has put one into the queue of the connection's event loop, and the connection
/// says only from there that it is full (`Transaction.writeRequestBodyPart`): without a wait the whole body would be in memory, and
/// would count as sent. The end follows the last part at once: a server that answers and closes before it knows the end would have
/// its answer thrown away (`HTTPRequestStateMachine.receivedHTTPResponseEnd`).
private struct PacedParts<Parts: AsyncSequence & Sendable>: AsyncSequence, Sendable where Parts.Element == ByteBuffer {
    let parts: Parts
    let length: Int
    let group: any EventLoopGroup
    let isBegun: Flag

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var parts: Parts.AsyncIterator
        fileprivate var left: Int
        fileprivate let group: any EventLoopGroup
        fileprivate let isBegun: Flag

        mutating func next(isolation: isolated (any Actor)?) async throws -> ByteBuffer? {
            isBegun.set()
            guard left > 0 else { return nil }
            let turns = group.makeIterator().map { $0.submit {} }
            for turn in turns { try await turn.get() }
            let part = try await parts.next(isolation: isolation)
            left -= part?.readableBytes ?? left
            return part
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(parts: parts.makeAsyncIterator(), left: length, group: group, isBegun: isBegun)
    }
}

/// A sequence of the parts of a file, which can be iterated once.
private struct FileParts: AsyncSequence, Sendable {
    let file: FileHandle
    let length: Int

    struct AsyncIterator: AsyncIteratorProtocol {
        let file: FileHandle
        var left: Int

        mutating func next() async throws -> ByteBuffer? {
            guard left > 0 else { return nil }
            // Bytes that were appended since do not belong to this attempt.
            let count = Swift.min(left, partSize)
            let part = try await NIOThreadPool.singleton.runIfActive { [file] in try file.read(upToCount: count) }
            guard let part, !part.isEmpty else { return nil }
            left -= part.count
            return ByteBuffer(bytes: part)
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(file: file, left: length) }
}

/// The body of a request, which each attempt sends from its beginning.
enum ClientUpload: Sendable {
    case bytes(ByteBuffer)
    /// A file, which each attempt opens.
    case file(URL)
    /// The first bytes of a file, for one attempt.
    case openFile(FileHandle, length: Int)

    /// True if there is nothing to send but the head.
    var isEmpty: Bool { if case .bytes(let bytes) = self { bytes.readableBytes == 0 } else { false } }

    /// Returns the body of an attempt by a client.
    ///
    /// - Parameter isBegun: Set when the client asks for the first part.
    func body(for client: HTTPClient, _ isBegun: Flag) async throws -> HTTPClientRequest.Body {
        func body(_ parts: some AsyncSequence<ByteBuffer, any Error> & Sendable, _ length: Int) -> HTTPClientRequest.Body {
            let paced = PacedParts(parts: parts, length: length, group: client.eventLoopGroup, isBegun: isBegun)
            return .stream(paced, length: .known(Int64(length)))
        }
        switch self {
        case .bytes(let bytes) where bytes.readableBytes == 0: return .bytes(bytes)
        case .bytes(let bytes): return body(ByteBufferParts(bytes: bytes), bytes.readableBytes)
        case .file(let location):
            let (file, length) = try await NIOThreadPool.singleton.runIfActive { try openUpload(location) }
            return body(FileParts(file: file, length: length), length)
        case .openFile(let file, let length): return body(FileParts(file: file, length: length), length)
        }
    }
}

/// A flag that is set once.
final class Flag: Sendable {
    private let value = Atomic(false)

    var isSet: Bool { value.load(ordering: .acquiring) }

    func set() { value.store(true, ordering: .releasing) }
}
#endif
