internal import Foundation
internal import FoundationNetworking
internal import Synchronization

/// Takes in what a session says about one task.
///
/// Called from the session's queue, one call at a time and in order. The first result or error is the task's, and the rest is left
/// unread: nothing is called after it.
protocol TaskReceiver: AnyObject, Sendable {
    associatedtype Result: Sendable

    /// A response begins; a second one follows if the server asked for credentials and gets them.
    func receive(_ response: HTTPURLResponse?) throws -> Result?
    /// A part of the body arrived.
    func receive(_ data: Data) throws -> Result?
    /// The server redirects; `nil` follows it.
    func redirect(_ response: HTTPURLResponse) -> Result?
    /// The response has ended.
    func end(_ response: HTTPURLResponse?) throws -> Result
}

extension TaskReceiver {
    func redirect(_ response: HTTPURLResponse) -> Result? { nil }
}

/// What a session says about one task, whatever is made of it.
protocol TaskListener: AnyObject, Sendable {
    func redirect(_ response: HTTPURLResponse, to request: URLRequest, _ follow: @escaping @Sendable (URLRequest?) -> Void)
    func answer(
        _ challenge: URLAuthenticationChallenge,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void)
    func receive(_ response: URLResponse)
    func receive(_ data: Data)
    func end(_ error: (any Error)?)
}

/// One task of a session from its start to its result.
final class TaskRun<Receiver: TaskReceiver>: TaskListener {
    private struct State {
        var continuation: CheckedContinuation<Receiver.Result, any Error>?
        var isStarted = false
        var isCancelled = false
        /// Whether a redirect is being answered.
        var isAnswering = false
    }

    private let task: URLSessionTask
    private let receiver: Receiver
    /// The caller's session, whose delegate may answer challenges and redirects.
    private let original: URLSession?
    private let state = Mutex(State())

    init(_ task: URLSessionTask, _ receiver: Receiver, _ original: URLSession?) {
        (self.task, self.receiver, self.original) = (task, receiver, original)
    }

    func start(_ continuation: CheckedContinuation<Receiver.Result, any Error>) {
        state.withLock { $0.continuation = continuation }
        task.resume()
        // A task that is cancelled before it was resumed may never tell its end.
        let isCancelled = state.withLock { state in
            state.isStarted = true
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    /// Cancels the task, now or as soon as it has started.
    func cancel() {
        let isPossible = state.withLock { state in
            state.isCancelled = true
            return state.isStarted && !state.isAnswering
        }
        if isPossible { task.cancel() }
    }

    // MARK: - The session's calls

    func redirect(_ response: HTTPURLResponse, to request: URLRequest, _ follow: @escaping @Sendable (URLRequest?) -> Void) {
        if let result = receiver.redirect(response) { return conclude { result } }
        let isAsked = ask { [self] delegate, original in
            delegate.urlSession(original, task: task, willPerformHTTPRedirection: response, newRequest: request) { [self] in
                answer($0, follow)
            }
        }
        if !isAsked { answer(request, follow) }
    }

    /// Asks the delegate of the caller's session, where it expects calls; returns whether there is one.
    private func ask(_ question: @escaping @Sendable (any URLSessionTaskDelegate, URLSession) -> Void) -> Bool {
        guard let original, let delegate = original.delegate as? any URLSessionTaskDelegate else { return false }
        original.delegateQueue.addOperation { question(delegate, original) }
        return true
    }

    /// Foundation stops the program if a redirect is answered after its task was cancelled: one of the two waits for the other.
    private func answer(_ request: URLRequest?, _ follow: @escaping @Sendable (URLRequest?) -> Void) {
        let isPossible = state.withLock { state in
            state.isAnswering = !state.isCancelled
            return state.isAnswering
        }
        guard isPossible else { return }
        follow(request)
        let isCancelled = state.withLock { state in
            state.isAnswering = false
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    func answer(
        _ challenge: URLAuthenticationChallenge,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        let isAsked = ask { [self] delegate, original in
            delegate.urlSession(original, task: task, didReceive: challenge) { [self] disposition, credential in
                settle(challenge, disposition, credential, completion)
            }
        }
        if !isAsked { settle(challenge, .performDefaultHandling, nil, completion) }
    }

    /// Sends credentials if there are any, and otherwise takes the response for what it is: an answer.
    private func settle(
        _ challenge: URLAuthenticationChallenge, _ disposition: URLSession.AuthChallengeDisposition, _ credential: URLCredential?,
        _ completion: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
        // For other methods Foundation stops the program.
        if challenge.protectionSpace.authenticationMethod == NSURLAuthenticationMethodHTTPBasic {
            switch disposition {
            case .useCredential where credential != nil: return completion(.useCredential, credential)
            case .performDefaultHandling where challenge.proposedCredential != nil:
                return completion(.performDefaultHandling, nil)
            default: break
            }
        }
        conclude { try receiver.end(task.response as? HTTPURLResponse) }
    }

    func receive(_ response: URLResponse) { take { try receiver.receive(response as? HTTPURLResponse) } }

    func receive(_ data: Data) { take { try receiver.receive(data) } }

    func end(_ error: (any Error)?) {
        guard let continuation = takeContinuation() else { return }
        if let error { return continuation.resume(throwing: error) }
        continuation.resume(with: Result { try receiver.end(task.response as? HTTPURLResponse) })
    }

    // MARK: - The result

    private func take(_ receive: () throws -> Receiver.Result?) {
        guard state.withLock({ $0.continuation != nil }) else { return }
        do {
            if let result = try receive() { conclude { result } }
        } catch {
            conclude { throw error }
        }
    }

    /// Ends the run with a result, and has the rest left unread.
    private func conclude(_ result: () throws -> Receiver.Result) {
        guard let continuation = takeContinuation() else { return }
        continuation.resume(with: Result(catching: result))
        cancel()
    }

    private func takeContinuation() -> CheckedContinuation<Receiver.Result, any Error>? {
        state.withLock { $0.continuation.take() }
    }
}
