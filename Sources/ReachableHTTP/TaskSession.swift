internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// A long-lived session that gives each of its tasks a receiver of its own.
///
/// Foundation on Linux has two faults that rule out a session per download. It crashes when a session is deallocated that has
/// connections over TLS (swift-corelibs-foundation, issue 5203). And it never ends a task with a 401 that names `Basic` unless a
/// delegate of the session, not of the task, answers the challenge (issue 5456).
final class TaskSession: Sendable {
    private let session: URLSession
    private let dispatcher = TaskDispatcher()

    /// Makes a session with a configuration; nothing is opened before its first task.
    init(_ configuration: URLSessionConfiguration) {
        session = URLSession(configuration: configuration, delegate: dispatcher, delegateQueue: nil)
    }

    deinit {
        session.finishTasksAndInvalidate()
        // Issue 5203: it must not be deallocated while connections over TLS are open, and nothing tells when they are closed.
        if dispatcher.hasUsedTLS { _ = Unmanaged.passRetained(session) }
    }

    /// Runs one task until its receiver has a result.
    ///
    /// Cancelling the calling task cancels the session's task.
    ///
    /// - Parameters:
    ///   - receiver: takes in what the session says; used by no other task.
    ///   - original: the caller's session, whose delegate is asked about challenges and redirects.
    ///   - makeTask: makes the task, which has not been resumed.
    /// - Throws: What the receiver throws, or the task's `URLError`.
    func run<Receiver: TaskReceiver>(
        _ receiver: Receiver, for original: URLSession? = nil, makeTask: (URLSession) -> URLSessionTask
    ) async throws -> Receiver.Result {
        try Task.checkCancellation()
        let task = makeTask(session)
        let run = TaskRun(task, receiver, original)
        dispatcher.add(run, for: task)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { run.start($0) }
        } onCancel: {
            run.cancel()
        }
    }
}

extension TaskSession {
    private struct Companion {
        weak var original: URLSession?
        let session: TaskSession
    }

    private static let companions = Mutex<[ObjectIdentifier: Companion]>([:])

    /// The session that runs the tasks of another one: with the same configuration, and so the same cookies, cache and credentials.
    ///
    /// It lives as long as the original, whose jobs keep both alive: it is idle, not gone, between two jobs. The original itself
    /// cannot run them, since a delegate cannot be added to it. A companion per configuration would not do: configurations have no
    /// equality, and every `.ephemeral` one has a store of cookies of its own. The address of a deallocated session may be used
    /// again: an entry counts only if its weak reference still leads to the same session.
    static func companion(of original: URLSession) -> TaskSession {
        let key = ObjectIdentifier(original)
        func find(_ companions: borrowing [ObjectIdentifier: Companion]) -> TaskSession? {
            companions[key].flatMap { $0.original === original ? $0.session : nil }
        }
        if let known = companions.withLock({ find($0) }) { return known }
        let made = TaskSession(original.configuration)
        // What is dropped is deallocated here, after the lock is released.
        let (session, dropped) = companions.withLock { companions in
            if let known = find(companions) { return (known, []) }
            let orphans = companions.values.filter { $0.original == nil }
            companions = companions.filter { $0.value.original != nil }
            companions[key] = Companion(original: original, session: made)
            return (made, orphans)
        }
        withExtendedLifetime(dropped) {}
        return session
    }
}

/// Passes on what a session says about a task to the run of that task.
private final class TaskDispatcher: NSObject, URLSessionDataDelegate {
    private struct State {
        var runs: [Int: any TaskListener] = [:]
        var hasUsedTLS = false
    }

    private let state = Mutex(State())

    /// Whether a connection over TLS may have been opened.
    var hasUsedTLS: Bool { state.withLock { $0.hasUsedTLS } }

    func add(_ run: any TaskListener, for task: URLSessionTask) {
        let isTLS = task.originalRequest?.usesTLS == true
        state.withLock { state in
            state.runs[task.taskIdentifier] = run
            if isTLS { state.hasUsedTLS = true }
        }
    }

    private func run(of task: URLSessionTask) -> (any TaskListener)? { state.withLock { $0.runs[task.taskIdentifier] } }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let configuration = session.configuration
        run(of: task)?.redirect(response, to: request.withCookies(of: configuration)) { [self] request in
            if request?.usesTLS == true { state.withLock { $0.hasUsedTLS = true } }
            completionHandler(request)
        }
    }

    func urlSession(
        _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
        completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        run(of: task)?.answer(challenge, completionHandler)
    }

    func urlSession(
        _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
        completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
    ) {
        run(of: dataTask)?.receive(response)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        run(of: dataTask)?.receive(data)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        state.withLock { $0.runs.removeValue(forKey: task.taskIdentifier) }?.end(error)
    }
}

extension URLRequest {
    fileprivate var usesTLS: Bool { url?.scheme?.lowercased() == "https" }

    /// The same with the cookies for its URL, which Foundation sets only if no delegate hears of the redirect.
    fileprivate func withCookies(of configuration: URLSessionConfiguration) -> URLRequest {
        guard configuration.httpShouldSetCookies, let url, let cookies = configuration.httpCookieStorage?.cookies(for: url),
            let field = HTTPCookie.requestHeaderFields(with: cookies)["Cookie"], !field.isEmpty
        else { return self }
        var request = self
        request.setValue(field, forHTTPHeaderField: "Cookie")
        return request
    }
}
