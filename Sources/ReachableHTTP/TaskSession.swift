internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// A consumer of what a session delivers for one task.
///
/// ``TaskSession`` calls it outside of any lock, one call at a time and in order, until a call returns a result or throws.
protocol TaskReceiver: Sendable {
    associatedtype Result: Sendable

    /// Handles the head of a response; a second one follows if the server asked for credentials and got them.
    mutating func receive(_ response: HTTPURLResponse?) throws -> Result?
    /// Handles a part of the body.
    mutating func receive(_ data: Data) throws -> Result?
    /// Handles a redirect; `nil` follows it.
    mutating func redirect(_ response: HTTPURLResponse) -> Result?
    /// Returns the result at the end of the response.
    mutating func end(_ response: HTTPURLResponse?) throws -> Result
}

extension TaskReceiver {
    func redirect(_ response: HTTPURLResponse) -> Result? { nil }
}

/// A long-lived session that gives each of its tasks a receiver of its own.
///
/// Foundation on Linux has two faults that rule out a session per download. It crashes when a session with connections over TLS is
/// deallocated (swift-corelibs-foundation, issue 5203). And it never ends a task with a 401 that names `Basic` unless a delegate of
/// the session, not of the task, answers the challenge (issue 5456).
final class TaskSession: Sendable {
    private let session: URLSession
    private let dispatcher = TaskDispatcher()
    private let names = NameCache()
    /// The headers of the configuration, which Foundation would also send to other servers after a redirect.
    let headers: [String: String]

    /// Creates a session with a configuration, but without its cache and headers; it opens nothing before its first task.
    ///
    /// With a cache, Foundation stops the program if a task is cancelled right after its start: `URLSessionTask.cancel` waits for
    /// the lookup in the cache, too (`_getProtocol`), and fails the task after that, even if it has ended meanwhile. The only loss
    /// is that of responses which the program stores itself: Foundation stores none (`_HTTPURLProtocol.didReceiveResponse`).
    init(_ configuration: URLSessionConfiguration) {
        // `copy` returns an object of the same class.
        let own = configuration.copy() as? URLSessionConfiguration ?? .ephemeral
        own.urlCache = nil
        headers = own.ownHeaders
        own.httpAdditionalHeaders = nil
        session = URLSession(configuration: own, delegate: dispatcher, delegateQueue: nil)
    }

    deinit {
        session.finishTasksAndInvalidate()
        // Issue 5203: a session with open connections over TLS must not be deallocated, and nothing reports that they are closed.
        if dispatcher.hasUsedTLS { _ = Unmanaged.passRetained(session) }
    }

    /// Runs one task until its receiver has a result.
    ///
    /// Cancelling the calling task cancels the session's task.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - receiver: The task's receiver; holds what arrived, also after an error.
    ///   - original: The caller's session, whose delegate answers challenges and redirects.
    ///   - isSingle: True if the request must not be sent twice.
    /// - Throws: The receiver's error, or the task's `URLError`; ``Challenged`` if a request that must not be sent twice has to be
    ///   sent with credentials.
    func run<Receiver: TaskReceiver>(
        _ request: URLRequest, _ receiver: inout Receiver, for original: URLSession? = nil, isSingle: Bool = false
    ) async throws -> Receiver.Result {
        if let url = request.url { try await names.find(url) }
        let task = session.dataTask(with: request)
        let run = TaskRun<Receiver>(task, session.delegateQueue, original, names, isSingle: isSingle)
        dispatcher.add(run, for: task)
        let fresh = receiver
        let end = await withTaskCancellationHandler {
            await withCheckedContinuation { run.start(fresh, $0) }
        } onCancel: {
            run.cancel()
        }
        receiver = end.receiver
        return try end.result.get()
    }
}

/// Thrown by a run whose server asked for credentials before it carried out the request.
struct Challenged: Error {
    let authorization: String
}

/// A task's run, as the dispatcher sees it.
private protocol TaskListener: AnyObject, Sendable {
    /// True if the request must not be sent twice.
    var isSingle: Bool { get }
    /// Ends the run, because libcurl is about to send the request on another connection.
    func refuseRepetition()
    func redirect(_ response: HTTPURLResponse, to request: URLRequest, _ follow: @escaping @Sendable (URLRequest?) -> Void)
    func answer(
        _ challenge: URLAuthenticationChallenge,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void)
    func receive(_ response: URLResponse)
    func receive(_ data: Data)
    func end(_ error: (any Error)?)
}

/// One task of a session from its start to its result.
private final class TaskRun<Receiver: TaskReceiver>: TaskListener {
    typealias End = (receiver: Receiver, result: Result<Receiver.Result, any Error>)

    private enum Phase {
        /// Not resumed: a task that is cancelled now may never report its end.
        case created
        case resumed
        /// Foundation gets the answer to a redirect or a challenge, and stops the program if the task is cancelled now.
        case answering
    }

    private struct State {
        var phase = Phase.created
        var isCancelled = false
        /// The receiver, and the caller that waits for it; `nil` while a call uses the receiver, and after the end.
        var open: (receiver: Receiver, continuation: CheckedContinuation<End, Never>)?
    }

    private let task: URLSessionTask
    /// The queue of the session's delegate, which runs one operation at a time.
    private let queue: OperationQueue
    private let original: URLSession?
    private let names: NameCache
    let isSingle: Bool
    private let state = Mutex(State())

    init(_ task: URLSessionTask, _ queue: OperationQueue, _ original: URLSession?, _ names: NameCache, isSingle: Bool) {
        (self.task, self.queue, self.original, self.names, self.isSingle) = (task, queue, original, names, isSingle)
    }

    func start(_ receiver: Receiver, _ continuation: CheckedContinuation<End, Never>) {
        state.withLock { $0.open = (receiver, continuation) }
        task.resume()
        enter(.resumed)
    }

    /// Ends the run, and cancels the task, now or as soon as its phase allows it.
    ///
    /// The run does not wait for the task: libcurl waits for a lookup that is under way (`Curl_resolver_kill`).
    func cancel() {
        stopTask()
        pass(cancelsTask: false) { _ in throw CancellationError() }
    }

    private func stopTask() {
        let isPossible = state.withLock { state in
            state.isCancelled = true
            return state.phase == .resumed
        }
        if isPossible { cancelTask() }
    }

    /// Cancels the task on its delegate's queue: a cancellation beside the operation that ends the task would fail it once more,
    /// after Foundation has forgotten it, and stop the program (`URLSessionTask.cancel`, `_ProtocolClient`).
    private func cancelTask() { queue.addOperation { [task] in task.cancel() } }

    private func enter(_ phase: Phase) {
        let isCancelled = state.withLock { state in
            state.phase = phase
            return state.isCancelled
        }
        if isCancelled { cancelTask() }
    }

    // MARK: - Redirects and challenges

    func redirect(_ response: HTTPURLResponse, to target: URLRequest, _ follow: @escaping @Sendable (URLRequest?) -> Void) {
        if pass({ $0.redirect(response) }) { return }
        let request = target.url?.origin == response.url?.origin ? target : target.withoutCredentials
        let hasDelegate = callDelegate { [self] delegate, original in
            delegate.urlSession(original, task: task, willPerformHTTPRedirection: response, newRequest: request) { [self] in
                settle(response, $0, follow)
            }
        }
        if !hasDelegate { settle(response, request, follow) }
    }

    /// Follows a redirect, or takes it as the result if the request has timed out meanwhile.
    private func settle(_ response: HTTPURLResponse, _ request: URLRequest?, _ follow: @escaping @Sendable (URLRequest?) -> Void) {
        // The timeout sets the response and calls no delegate (`_HTTPURLProtocol.configureEasyHandle`): an answer would stop the
        // program.
        guard task.response !== response else {
            pass { try $0.end(response) }
            return
        }
        guard let url = request?.url else { return reply { follow(request) } }
        names.find(url) { [self] failure in
            guard let failure else { return reply { follow(request) } }
            pass { _ in throw failure }
        }
    }

    /// Answers Foundation unless the task is cancelled.
    private func reply(_ answer: () -> Void) {
        let isPossible = state.withLock { state in
            if !state.isCancelled { state.phase = .answering }
            return !state.isCancelled
        }
        guard isPossible else { return }
        answer()
        enter(.resumed)
    }

    func answer(
        _ challenge: URLAuthenticationChallenge,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        let hasDelegate = callDelegate { [self] delegate, original in
            delegate.urlSession(original, task: task, didReceive: challenge) { [self] disposition, credential in
                settle(challenge, disposition, credential, completion)
            }
        }
        if !hasDelegate { settle(challenge, .performDefaultHandling, nil, completion) }
    }

    /// Sends credentials, or without any takes the response as the result.
    private func settle(
        _ challenge: URLAuthenticationChallenge, _ disposition: URLSession.AuthChallengeDisposition, _ credential: URLCredential?,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        // Foundation stops the program for other methods.
        let isBasic = challenge.protectionSpace.authenticationMethod == NSURLAuthenticationMethodHTTPBasic
        let chosen: URLCredential? =
            switch disposition {
            case .useCredential: credential
            case .performDefaultHandling: challenge.proposedCredential
            default: nil
            }
        guard isBasic, let chosen else {
            pass { try $0.end(task.response as? HTTPURLResponse) }
            return
        }
        // Foundation would send the request on the connection that it has just used.
        guard isSingle, let request = task.currentRequest, !request.isRepeatable else {
            return reply { completion(.useCredential, chosen) }
        }
        let authorization = URLRequest.basicAuthorization(chosen.user, chosen.password)
        pass {
            if request.header("Authorization") == authorization { return try $0.end(task.response as? HTTPURLResponse) }
            throw Challenged(authorization: authorization)
        }
    }

    /// Calls the delegate of the caller's session on its queue; returns `false` if there is none.
    private func callDelegate(_ call: @escaping @Sendable (any URLSessionTaskDelegate, URLSession) -> Void) -> Bool {
        guard let original, let delegate = original.delegate as? any URLSessionTaskDelegate else { return false }
        original.delegateQueue.addOperation { call(delegate, original) }
        return true
    }

    // MARK: - The response

    func receive(_ response: URLResponse) {
        let response = response as? HTTPURLResponse
        // Informational: the answer follows (RFC 9110, section 15.2).
        if let response, 100...199 ~= response.statusCode { return }
        pass { try $0.receive(response) }
    }

    func receive(_ data: Data) { pass { try $0.receive(data) } }

    func refuseRepetition() { pass { _ in throw URLError(.networkConnectionLost) } }

    func end(_ error: (any Error)?) {
        pass(cancelsTask: false) { receiver in
            if let error { throw error }
            return try receiver.end(task.response as? HTTPURLResponse)
        }
    }

    /// Calls the receiver, and ends the run if it has a result; returns `true` if it does.
    @discardableResult
    private func pass(cancelsTask: Bool = true, _ body: (inout Receiver) throws -> Receiver.Result?) -> Bool {
        guard var open = state.withLock({ $0.open.take() }) else { return false }
        let result: Result<Receiver.Result, any Error>
        do {
            guard let value = try body(&open.receiver) else {
                let isOver = state.withLock { [open] state in
                    // A cancellation in the meantime has not found the caller.
                    if !state.isCancelled { state.open = open }
                    return state.isCancelled
                }
                if isOver { open.continuation.resume(returning: (open.receiver, .failure(CancellationError()))) }
                return isOver
            }
            result = .success(value)
        } catch {
            result = .failure(error)
        }
        open.continuation.resume(returning: (open.receiver, result))
        // The rest is not read.
        if cancelsTask { stopTask() }
        return true
    }
}

/// The delegate of a session; forwards each task's calls to its run.
private final class TaskDispatcher: NSObject, URLSessionDataDelegate {
    private struct State {
        var runs: [Int: any TaskListener] = [:]
        var hasUsedTLS = false
    }

    private let state = Mutex(State())

    /// `true` if a connection over TLS may have been opened.
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
        // The method of the redirected request tells whether it has a body. Foundation has lost it: the redirect is the response.
        let hadUpload = task.originalRequest?.hasUpload == true
        let run = run(of: task)
        // One that must not be sent twice would be sent on a connection that was used.
        let isBound = hadUpload || run?.isSingle == true
        run?.redirect(response, to: request.withCookies(of: configuration)) { [self] request in
            guard !isBound || ["GET", "HEAD"].contains(request?.httpMethod) else { return completionHandler(nil) }
            let request = hadUpload ? request?.detached() : request
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

    // libcurl sends the request again on another connection: its stream is read again.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
    ) {
        guard let run = run(of: task), run.isSingle else { return completionHandler(task.originalRequest?.httpBodyStream) }
        run.refuseRepetition()
        // On a fast line libcurl has connected before the task is cancelled: then the head is sent, and nothing after it.
        completionHandler(UploadStream(.unreadable))
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
    /// True if the method or a key says that the request may be sent twice.
    var isRepeatable: Bool {
        hasIdempotencyKey || HTTPRetryClassifier.idempotentMethods.contains(methodName)
    }

    var usesTLS: Bool { url?.scheme?.lowercased() == "https" }

    /// Returns the request with the cookies for its URL, which Foundation sets only without a delegate for redirects.
    func withCookies(of configuration: URLSessionConfiguration) -> URLRequest {
        guard configuration.httpShouldSetCookies, let url, let cookies = configuration.httpCookieStorage?.cookies(for: url),
            let cookie = HTTPCookie.requestHeaderFields(with: cookies)["Cookie"], !cookie.isEmpty
        else { return self }
        var request = self
        request.setValue(cookie, forHTTPHeaderField: "Cookie")
        return request
    }
}
