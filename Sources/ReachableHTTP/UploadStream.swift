internal import Foundation
internal import FoundationNetworking
internal import Glibc
internal import Synchronization

/// A request's body, which Foundation reads on the task's queue, each time from its beginning.
///
/// Foundation's own bodies on Linux cannot be sent again when libcurl replaces a connection that it reused: the rest follows, or
/// nothing (`seekInputStream` in NativeProtocol.swift of swift-corelibs-foundation). That of a file, moreover, stops the program if
/// the connection ends while the file is read (`_BodyFileSource`: `curl_easy_pause` refuses a transfer without a connection).
final class UploadStream: InputStream {
    enum Content: Sendable {
        case data(Data)
        /// The first bytes of an open file.
        case file(FileHandle, length: Int)
        /// A body that cannot be read, so that no request with it is complete.
        case unreadable
    }

    let length: Int
    let content: Content
    private var position = 0
    private let isBegun = Atomic(false)

    /// True if no request with this body can have been received: libcurl has read nothing of it.
    var isUnsent: Bool { length > 0 && !isBegun.load(ordering: .acquiring) }

    init(_ content: Content) {
        self.content = content
        length =
            switch content {
            case .data(let data): data.count
            case .file(_, let length): length
            case .unreadable: 1
            }
        super.init(data: Data())
    }

    // Foundation opens the stream again for each connection, and expects one that is not open.
    override func open() { position = 0 }

    override func close() {}

    override var streamStatus: Stream.Status { .notOpen }

    override var streamError: (any Error)? { nil }

    override var hasBytesAvailable: Bool { position < length }

    override func getBuffer(_ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>) -> Bool
    {
        false
    }

    /// Returns -1, which ends the task, if the file has become shorter: the server waits for as many bytes as were announced.
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
        isBegun.store(true, ordering: .releasing)
        let count = min(length - position, maxLength)
        guard count > 0 else { return 0 }
        var result = count
        switch content {
        case .data(let data):
            let start = data.startIndex + position
            data.copyBytes(to: buffer, from: start..<start + count)
        case .file(let file, _):
            repeat { result = pread(file.fileDescriptor, buffer, count, off_t(position)) } while result < 0 && errno == EINTR
            guard result > 0 else { return -1 }
        case .unreadable: return -1
        }
        position += result
        return result
    }
}

extension URLRequest {
    /// True if Foundation would send the request elsewhere without its body.
    var hasUpload: Bool { httpBodyStream is UploadStream }

    /// Makes the stream the request's body.
    ///
    /// Foundation sends a stream by `POST` as a form, unless the request itself says otherwise.
    mutating func attach(_ stream: UploadStream, for session: URLSession) {
        if header("Content-Type") == nil {
            let defaults = session.configuration.httpAdditionalHeaders ?? [:]
            let type = defaults.first { ($0.key as? String)?.lowercased() == "content-type" }?.value as? String
            setHeader("Content-Type", type ?? Self.absent)
        }
        attach(stream)
    }

    /// Makes the stream the request's body, of a known length: Foundation would send it in chunks.
    mutating func attach(_ stream: UploadStream) {
        httpBody = nil
        httpBodyStream = stream
        guard header("Transfer-Encoding") == nil else { return }
        setHeader("Transfer-Encoding", Self.absent)
        setHeader("Content-Length", "\(stream.length)")
    }

    /// The value of a header that libcurl neither sends nor adds itself (`CURLOPT_HTTPHEADER`).
    private static var absent: String { " " }

    /// Returns the request without a body: a redirect to `GET`, as after a form.
    func detached() -> URLRequest {
        var request = self
        request.httpBodyStream = nil
        for name in ["Content-Type", "Content-Length", "Transfer-Encoding"] { request.setValue(nil, forHTTPHeaderField: name) }
        return request
    }
}
