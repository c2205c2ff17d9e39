internal import Foundation
internal import FoundationNetworking
internal import Glibc
internal import ReachableRetry
internal import Synchronization

/// One download over several attempts, and its file.
///
/// Only this user may read the file. It is open while an attempt runs: waiting downloads hold no descriptors. One attempt runs at
/// a time. The file is removed with the object unless the caller has it.
final class Download: Sendable {
    /// The number of bytes that are kept of the body of an error response: one mebibyte.
    static let errorBodyLimit = 1 << 20

    private struct State {
        var partial = PartialDownload()
        /// The last response whose body was kept.
        var response: (any Sendable)?
        var handle: FileHandle?
        var isHandedOver = false
    }

    /// The file, which is created by the first attempt.
    let location: URL
    private let state = Mutex(State())

    /// Chooses a name in a directory, by default the system's temporary one.
    init(in directory: URL?) {
        location = (directory ?? FileManager.default.temporaryDirectory).appendingPathComponent("\(UUID().uuidString).download")
    }

    deinit { if !state.withLock({ $0.isHandedOver }) { try? FileManager.default.removeItem(at: location) } }

    /// Leaves the file to the caller.
    func handOver() { state.withLock { $0.isHandedOver = true } }

    /// Opens or creates the file for an attempt; returns what has arrived so far.
    ///
    /// - Throws: `POSIXError` if the system is short of descriptors or memory; `CocoaError` if the file cannot be opened otherwise.
    func open() throws -> PartialDownload {
        let (file, status) = try openFile(location, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, isReading: false)
        return state.withLock { state in
            state.handle = file
            // Tools that tidy temporary directories remove or cut files while a download waits.
            if status.st_size != state.partial.received { state.partial.discard() }
            return state.partial
        }
    }

    /// Closes the file at the end of an attempt.
    func close() { try? state.withLock { $0.handle.take() }?.close() }

    /// Remembers what has arrived, for the next attempt.
    func keep(_ partial: PartialDownload) { state.withLock { $0.partial = partial } }

    /// The last response whose body was kept: that of a download which a later one completes without a body.
    var response: (any Sendable)? {
        get { state.withLock(\.response) }
        set { state.withLock { $0.response = newValue } }
    }

    func append(_ data: some DataProtocol) throws { try opened().write(contentsOf: data) }

    func clear() throws { try opened().truncate(atOffset: 0) }

    /// Replaces the contents with the body of an error response, and leaves the file to the caller.
    func handOver(_ errorBody: some DataProtocol) throws -> URL {
        _ = try open()
        defer { close() }
        try clear()
        try append(errorBody)
        handOver()
        return location
    }

    private func opened() throws -> FileHandle {
        guard let handle = state.withLock({ $0.handle }) else { throw CocoaError(.fileWriteUnknown) }
        return handle
    }
}

extension Attempt {
    /// Reports now and then that a download goes on.
    func report(_ partial: PartialDownload, after count: Int) {
        let step: Int64 = 1 << 16
        if partial.received / step != (partial.received - Int64(count)) / step { reportProgress() }
    }
}

extension RepeatableRequest {
    /// Asks for the missing part of a download, if the request and the options allow it.
    mutating func resume(_ partial: inout PartialDownload, _ options: HTTPRequestRetryOptions<Self>) {
        let hasOwnRange = header("Range") != nil
        let isAllowed = options.resumesDownloads && methodName == "GET" && !hasOwnRange
        // Positions in an encoded body mean nothing to the server.
        if isAllowed, !options.acceptsEncodedDownloads, header("Accept-Encoding") == nil {
            setHeader("Accept-Encoding", "identity")
        }
        for header in partial.resume(isAllowed: isAllowed, hasOwnRange: hasOwnRange) { setHeader(header.name, header.value) }
    }
}

// MARK: - URLSession

/// A receiver of the parts of a download.
protocol PartReceiver: TaskReceiver {
    var partial: PartialDownload { get set }
    /// True if the request asks for the bytes as they are.
    var asksForIdentity: Bool { get set }
}

extension PartReceiver {
    /// Throws if Foundation would unpack what the server was asked not to pack: no option keeps it from that
    /// (`CURLOPT_HTTP_CONTENT_DECODING`), and the file would be another one.
    func checkEncoding(of response: HTTPURLResponse?) throws {
        guard asksForIdentity, let response, [200, 203, 206].contains(response.statusCode),
            let encoding = response.value(forHTTPHeaderField: "Content-Encoding"), encoding.lowercased() != "identity"
        else { return }
        let text =
            "the server sends the file with Content-Encoding: \(encoding), and Foundation unpacks it; next: download it by "
            + "HTTPClient (trait AsyncHTTPClient), or send an Accept-Encoding of your own to get it unpacked"
        throw URLError(.cannotDecodeRawData, userInfo: [NSLocalizedDescriptionKey: text])
    }
}

/// Thrown by a receiver of parts: a response has ended in good order before the whole was there.
struct ShortPart: Error {}

extension URLSession {
    /// Requests the missing part of a download, and the next ones if the server limits their length.
    func download<Receiver: PartReceiver>(
        _ request: URLRequest, _ options: HTTPRetryOptions, _ attempt: Attempt, _ receiver: inout Receiver
    ) async throws -> Receiver.Result {
        while true {
            let received = receiver.partial.received
            var request = request
            request.resume(&receiver.partial, options)
            receiver.asksForIdentity = request.header("Accept-Encoding") == "identity"
            do {
                return try await run(request, options.sendRule, attempt, &receiver)
            } catch is ShortPart {
                guard receiver.partial.received > received else { throw URLError(.networkConnectionLost) }
            }
        }
    }
}

extension Download {
    /// Makes one attempt.
    func attempt(
        _ request: URLRequest, _ options: HTTPRetryOptions, in session: URLSession, _ attempt: Attempt
    ) async throws -> HTTPExchange<URL, HTTPStatusError> {
        defer { close() }
        var receiver = Receiver(download: self, attempt: attempt, partial: try open())
        attempt.reportProgress(kept: receiver.partial.kept)
        defer { keep(receiver.partial) }
        do {
            return try await session.download(request, options, attempt, &receiver)
        } catch {
            attempt.reportProgress(kept: receiver.partial.kept)
            throw error
        }
    }

    /// A receiver that writes the body to the file.
    private struct Receiver: PartReceiver {
        let download: Download
        let attempt: Attempt
        var partial: PartialDownload
        var asksForIdentity = false
        /// `nil` before a response: Foundation reports some redirects without a target only at their end.
        private var body: PartialDownload.Body?
        private var errorBody = Data()

        init(download: Download, attempt: Attempt, partial: PartialDownload) {
            (self.download, self.attempt, self.partial) = (download, attempt, partial)
        }

        mutating func receive(_ response: HTTPURLResponse?) throws -> HTTPExchange<URL, HTTPStatusError>? {
            try checkEncoding(of: response)
            let length = response.map(\.expectedContentLength) ?? -1
            let body = partial.begin(
                status: response?.statusCode ?? 0, header: { response?.value(forHTTPHeaderField: $0) },
                length: length < 0 ? nil : length)
            (errorBody, self.body) = (Data(), body)
            switch body {
            case .errorResponse: break
            case .append: download.response = response
            case .restart:
                download.response = response
                try write { try $0.clear() }
            case .complete:
                return (download.response as? HTTPURLResponse ?? response).map { .value(download.location, $0) }
            case .mismatch: throw URLError(.badServerResponse)
            }
            return nil
        }

        mutating func receive(_ data: Data) throws -> HTTPExchange<URL, HTTPStatusError>? {
            if body == .errorResponse {
                errorBody += data.prefix(Download.errorBodyLimit - errorBody.count)
            } else {
                // More than was announced: nothing that came with it can be believed.
                guard partial.accepts(data.count) else {
                    partial.discard()
                    throw URLError(.badServerResponse)
                }
                try write { try $0.append(data) }
                partial.receive(data.count)
                attempt.report(partial, after: data.count)
            }
            return nil
        }

        mutating func end(_ response: HTTPURLResponse?) throws -> HTTPExchange<URL, HTTPStatusError> {
            guard let response else { throw URLError(.badServerResponse) }
            if body == .errorResponse || body == nil { return .errorResponse(HTTPStatusError(response: response, data: errorBody)) }
            guard partial.isComplete else { throw ShortPart() }
            return .value(download.location, response)
        }

        private mutating func write(_ write: (Download) throws -> Void) throws {
            do {
                try write(download)
            } catch {
                // The file's contents are no longer known.
                partial.discard()
                throw error
            }
        }
    }
}

// MARK: - Files

/// Opens a file for an attempt that uploads it; returns its length, too.
///
/// - Throws: `POSIXError` if the system is short of descriptors or memory; `CocoaError` if the file cannot be opened otherwise.
func openUpload(_ location: URL) throws -> (FileHandle, length: Int) {
    let (file, status) = try openFile(location, O_RDONLY, isReading: true)
    // open(2) opens a directory, too.
    guard status.st_mode & S_IFMT != S_IFDIR else { throw fileError(EISDIR, isReading: true) }
    return (file, Int(status.st_size))
}

private func openFile(_ location: URL, _ flags: Int32, isReading: Bool) throws -> (FileHandle, stat) {
    let descriptor = Glibc.open(location.path, flags | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw fileError(errno, isReading: isReading) }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw fileError(errno, isReading: isReading) }
    return (file, status)
}

/// Returns the system's error for a shortage, which is transient, and otherwise Foundation's.
private func fileError(_ number: Int32, isReading: Bool) -> any Error {
    let error = POSIXError(POSIXErrorCode(rawValue: number) ?? .EIO)
    let code: CocoaError.Code
    switch number {
    case EMFILE, ENFILE, ENOMEM: return error
    case ENOSPC, EDQUOT: code = .fileWriteOutOfSpace
    case ENOENT where isReading: code = .fileReadNoSuchFile
    case EACCES, EPERM: code = isReading ? .fileReadNoPermission : .fileWriteNoPermission
    default: code = isReading ? .fileReadUnknown : .fileWriteUnknown
    }
    return CocoaError(code, userInfo: [NSUnderlyingErrorKey: error])
}
