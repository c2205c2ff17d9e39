#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

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

    /// Returns the request with a body that is sent in parts, any number of times.
    func carrying(_ bytes: ByteBuffer) -> HTTPClientRequest {
        var request = self
        request.body = .stream(ByteBufferParts(bytes: bytes), length: .known(Int64(bytes.readableBytes)))
        return request
    }
}

/// The number of bytes that the client gets at once: few, so that an upload does not wait in its queue.
private let partSize = 1 << 17

/// A sequence of the parts of a buffer, which can be iterated any number of times.
private struct ByteBufferParts: AsyncSequence, Sendable {
    let bytes: ByteBuffer

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var rest: ByteBuffer

        /// Returns the next part on another thread, as that of a file: a sequence that never suspends is in the client's queue as
        /// a whole before the connection can say that it is full.
        mutating func next() async throws -> ByteBuffer? {
            guard rest.readableBytes > 0 else { return nil }
            let part = rest.readSlice(length: Swift.min(rest.readableBytes, partSize))
            return try await NIOThreadPool.singleton.runIfActive { part }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: bytes) }
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

extension HTTPClientRequest.Body {
    /// Returns a body of a file's present contents.
    static func file(_ location: URL) async throws -> Self {
        let (file, length) = try await NIOThreadPool.singleton.runIfActive { try openUpload(location) }
        return .stream(FileParts(file: file, length: length), length: .known(Int64(length)))
    }
}
#endif
