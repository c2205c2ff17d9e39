internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// One download over several attempts of `URLSession`.
///
/// Removes its file when it is deallocated, unless the file was handed over.
final class Download: Sendable {
    let file: DownloadFile
    private let partial = Mutex(PartialDownload())
    private let isKept = Mutex(false)
    private let options: HTTPRetryOptions

    init(_ options: HTTPRetryOptions) {
        file = DownloadFile(in: options.downloadDirectory)
        self.options = options
    }

    deinit { if !isKept.withLock({ $0 }) { file.remove() } }

    /// Hands the file over to the caller.
    func keep() { isKept.withLock { $0 = true } }

    /// Makes one attempt, of which one runs at a time.
    func attempt(_ request: URLRequest, for session: URLSession) async throws -> HTTPExchange<URL, HTTPStatusError> {
        defer { file.close() }
        let length = try file.open()
        var request = request
        var partial = partial.withLock { $0 }
        // A file that waited long enough may have been tidied away.
        if length != partial.received { partial.discard() }
        request.resume(&partial, options)
        let receiver = DownloadReceiver(file, partial)
        defer { self.partial.withLock { $0 = receiver.partial } }
        return try await TaskSession.companion(of: session).run(receiver, for: session) { $0.dataTask(with: request) }
    }
}

/// Writes the body of a response to a file.
///
/// The file needs no lock: a receiver is called once at a time, and an attempt ends with the receiver's result.
private final class DownloadReceiver: TaskReceiver {
    private struct State {
        var partial: PartialDownload
        /// `nil` before a response: of some redirects that lead nowhere none is reported before the end.
        var body: PartialDownload.Body?
        var refusal = Data()
    }

    private let file: DownloadFile
    private let state: Mutex<State>

    init(_ file: DownloadFile, _ partial: PartialDownload) {
        self.file = file
        state = Mutex(State(partial: partial))
    }

    var partial: PartialDownload { state.withLock { $0.partial } }

    func receive(_ response: HTTPURLResponse?) throws -> HTTPExchange<URL, HTTPStatusError>? {
        let length = response.map(\.expectedContentLength) ?? -1
        let body = state.withLock { state in
            let body = state.partial.begin(
                status: response?.statusCode ?? 0, header: { response?.value(forHTTPHeaderField: $0) },
                length: length < 0 ? nil : length)
            (state.refusal, state.body) = (Data(), body)
            return body
        }
        switch body {
        case .append, .refusal: break
        case .restart: try write { try file.clear() }
        case .mismatch: throw URLError(.badServerResponse)
        }
        return nil
    }

    func receive(_ data: Data) throws -> HTTPExchange<URL, HTTPStatusError>? {
        let isRefusal = state.withLock { state in
            if state.body == .refusal { state.refusal += data.prefix(DownloadFile.refusalLimit - state.refusal.count) }
            return state.body == .refusal
        }
        if isRefusal { return nil }
        try write { try file.append(data) }
        state.withLock { $0.partial.receive(data.count) }
        return nil
    }

    func end(_ response: HTTPURLResponse?) throws -> HTTPExchange<URL, HTTPStatusError> {
        guard let response else { throw URLError(.badServerResponse) }
        let state = state.withLock { $0 }
        if state.body == .refusal || state.body == nil { return .refusal(HTTPStatusError(response: response, data: state.refusal)) }
        // Less than was asked for, though complete by itself: the rest is for the next attempt.
        guard state.partial.isComplete else { throw URLError(.networkConnectionLost) }
        return .value(file.location, response)
    }

    private func write(_ write: () throws -> Void) throws {
        do {
            try write()
        } catch {
            // The file's contents are no longer known.
            state.withLock { $0.partial.discard() }
            throw error
        }
    }
}
