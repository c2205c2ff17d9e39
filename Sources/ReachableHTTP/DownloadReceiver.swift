internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// Writes what a session receives of one download to a file, over several attempts.
///
/// One attempt runs at a time, and the session calls from one queue, in order. So the file needs no lock: it is written where the
/// session calls, and otherwise only while no attempt runs.
final class DownloadReceiver: NSObject, URLSessionDataDelegate {
    /// The running attempt.
    private struct Run {
        var partial: PartialDownload
        var body = PartialDownload.Body.restart
        var refusal = Data()
        /// What went wrong here, rather than on the way.
        var failure: (any Error)?
        var waiting: CheckedContinuation<HTTPExchange<URL, HTTPStatusError>, any Error>?
        var isStarted = false
        var isCancelled = false
    }

    let file: DownloadFile
    private let run = Mutex(Run(partial: PartialDownload()))

    init(in directory: URL = FileManager.default.temporaryDirectory) throws {
        file = try DownloadFile(in: directory)
        super.init()
    }

    /// Makes one attempt.
    func receive(_ request: URLRequest, from session: URLSession) async throws -> HTTPExchange<URL, HTTPStatusError> {
        try Task.checkCancellation()
        let task = session.dataTask(with: prepare(request))
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                run.withLock { $0.waiting = continuation }
                task.resume()
                // A task that was cancelled before it was resumed need not tell its end.
                let isCancelled = run.withLock { run in
                    run.isStarted = true
                    return run.isCancelled
                }
                if isCancelled { task.cancel() }
            }
        } onCancel: {
            let isStarted = run.withLock { run in
                run.isCancelled = true
                return run.isStarted
            }
            if isStarted { task.cancel() }
        }
    }

    /// What is sent in this attempt.
    private func prepare(_ request: URLRequest) -> URLRequest {
        var request = request
        run.withLock { run in
            run = Run(partial: run.partial)
            request.resume(&run.partial)
        }
        return request
    }

    // MARK: - The session's calls

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        let response = response as? HTTPURLResponse
        let length = response.map(\.expectedContentLength) ?? -1
        let body = run.withLock { run in
            run.body = run.partial.begin(
                status: response?.statusCode ?? 0, header: { response?.value(forHTTPHeaderField: $0) },
                length: length < 0 ? nil : length)
            return run.body
        }
        switch body {
        case .append, .refusal: break
        case .restart: tryWriting(dataTask) { try file.clear() }
        case .mismatch: fail(dataTask, URLError(.badServerResponse))
        }
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        let body = run.withLock { run in
            if run.body == .refusal { run.refusal += data.prefix(DownloadFile.refusalLimit - run.refusal.count) }
            return run.failure == nil ? run.body : .mismatch
        }
        guard body == .append || body == .restart else { return }
        guard tryWriting(dataTask, { try file.append(data) }) else { return }
        run.withLock { $0.partial.receive(data.count) }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        let run = run.withLock { run in
            defer { run.waiting = nil }
            return run
        }
        guard let waiting = run.waiting else { return }
        if let error = run.failure ?? error {
            waiting.resume(throwing: error)
        } else if let response = task.response as? HTTPURLResponse {
            switch run.body {
            case .refusal: waiting.resume(returning: .refusal(HTTPStatusError(response: response, data: run.refusal)))
            case _ where run.partial.isComplete: waiting.resume(returning: .value(file.location, response))
            // Less than was asked for, though whole by itself: the rest is for the next attempt.
            default: waiting.resume(throwing: URLError(.networkConnectionLost))
            }
        } else {
            waiting.resume(throwing: URLError(.badServerResponse))
        }
    }

    @discardableResult
    private func tryWriting(_ task: URLSessionTask, _ write: () throws -> Void) -> Bool {
        do {
            try write()
            return true
        } catch {
            fail(task, error)
            return false
        }
    }

    private func fail(_ task: URLSessionTask, _ error: any Error) {
        run.withLock { run in
            run.failure = error
            // What is on disk is no longer known.
            run.partial.discard()
        }
        task.cancel()
    }
}
