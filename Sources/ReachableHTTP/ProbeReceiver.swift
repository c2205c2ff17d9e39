internal import Foundation
internal import FoundationNetworking
internal import Reachability
internal import Synchronization

/// Hears of one request of a session, no longer than until the verdict is clear.
final class ProbeReceiver: NSObject, URLSessionDataDelegate {
    private struct Run {
        var verdict: ProbeVerdict
        var waiting: CheckedContinuation<PathValidation, any Error>?
        var isStarted = false
        var isCancelled = false
    }

    private let run: Mutex<Run>

    init(_ verdict: ProbeVerdict) { run = Mutex(Run(verdict: verdict)) }

    /// Sends the request; called once.
    func receive(_ request: URLRequest, from session: URLSession) async throws -> PathValidation {
        try Task.checkCancellation()
        let task = session.dataTask(with: request)
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

    // MARK: - The session's calls

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping (URLRequest?) -> Void
    ) {
        // Not answered but cancelled: Foundation stops the program if the answer comes after somebody has cancelled the task.
        conclude(task, judge(response))
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        conclude(dataTask, judge(response))
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        conclude(dataTask, run.withLock { $0.verdict.receive(data) })
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let waiting = run.withLock({ $0.waiting.take() }) else { return }
        if let error { return waiting.resume(throwing: error) }
        // Foundation tells nobody of a redirect that names no place.
        waiting.resume(returning: task.response.flatMap(judge) ?? run.withLock { $0.verdict.end() })
    }

    private func judge(_ response: URLResponse) -> PathValidation? {
        guard let response = response as? HTTPURLResponse else { return nil }
        let location = response.value(forHTTPHeaderField: "Location").flatMap { URL(string: $0, relativeTo: response.url) }
        // A portal may say anything, and somebody may open it.
        let page = location.flatMap { $0.isHTTP ? $0.absoluteString : nil }
        return run.withLock { $0.verdict.begin(status: response.statusCode, location: page) }
    }

    /// Tells the verdict, if there is one, and has the rest left unread.
    private func conclude(_ task: URLSessionTask, _ finding: PathValidation?) {
        guard let finding, let waiting = run.withLock({ $0.waiting.take() }) else { return }
        waiting.resume(returning: finding)
        task.cancel()
    }
}
