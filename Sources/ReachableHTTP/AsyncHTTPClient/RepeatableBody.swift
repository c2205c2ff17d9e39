#if AsyncHTTPClient
internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOPosix

/// How much is handed to the client at once: so little that its queue is no place where an upload waits.
private let partSize = 1 << 17

/// Bytes in parts, any number of times.
struct ByteBufferParts: AsyncSequence, Sendable {
    let bytes: ByteBuffer

    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var rest: ByteBuffer

        mutating func next() async -> ByteBuffer? {
            rest.readableBytes > 0 ? rest.readSlice(length: Swift.min(rest.readableBytes, partSize)) : nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: bytes) }
}

/// A file that is read in parts, once.
private struct FileParts: AsyncSequence, Sendable {
    let file: FileHandle
    let length: Int

    struct AsyncIterator: AsyncIteratorProtocol {
        let file: FileHandle
        var left: Int

        mutating func next() async throws -> ByteBuffer? {
            guard left > 0 else { return nil }
            // What has been appended since is not of this attempt.
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
    /// A file's contents, as they are now.
    static func file(_ location: URL) async throws -> Self {
        let (file, length) = try await NIOThreadPool.singleton.runIfActive {
            let file = try openUpload(location)
            let length = try file.seekToEnd()
            try file.seek(toOffset: 0)
            return (file, Int(length))
        }
        return .stream(FileParts(file: file, length: length), length: .known(Int64(length)))
    }
}
#endif
