internal import Foundation
internal import FoundationNetworking
internal import ReachableRetry
internal import Synchronization

/// A request that is repeated until it succeeds.
///
/// What fails is judged where it happens, with the request as it was sent; the policy's functions, which the bus asks right after
/// that, in the same task, only repeat the judgement.
final class HTTPJob: Sendable {
    private struct Judged {
        /// The request of the running attempt; `nil` before there is one.
        var request: URLRequest?
        /// What the classifier made of its failure; `nil` if it was not asked.
        var opinion: HTTPRetryOpinion?
    }

    private let request: URLRequest
    private let policy: RetryPolicy
    private let options: HTTPRetryOptions
    /// The longest silence that the session allows.
    private let timeout: TimeInterval
    private let judged = Mutex(Judged())

    init(_ request: URLRequest, _ policy: RetryPolicy, _ options: HTTPRetryOptions, _ session: URLSession) throws {
        guard request.isHTTP else { throw URLError(.unsupportedURL) }
        var request = request
        request.add(options.idempotency)
        (self.request, self.policy, self.options) = (request, policy, options)
        timeout = session.configuration.timeoutIntervalForRequest
    }

    /// Runs it on a bus.
    ///
    /// - Parameters:
    ///   - exchange: makes one attempt with a request.
    ///   - body: makes of a refusal's body what the caller gets, if refusals are returned.
    func run<Body>(
        on bus: RetryBus, exchange: (URLRequest) async throws -> HTTPExchange<Body>, body: (Data) throws -> Body
    ) async throws -> (Body, HTTPURLResponse) {
        do {
            let result = try await bus.retry(
                judgedPolicy, to: options.scope, destination: request.destination, when: options.conditions,
                priority: options.priority, id: options.id
            ) { attempt in try await perform(attempt, exchange) }
            switch result {
            case .value(let value, let response): return (value, response)
            case .refusal(let data, let response): return (try body(data), response)
            }
        } catch let error as HTTPStatusError where options.errorStatuses == .returned && isJudged {
            return (try body(error.data), error.response)
        }
    }

    /// Whether the last attempt's exchange failed: an adapter may throw the same kinds of errors.
    private var isJudged: Bool { judged.withLock { $0.opinion != nil } }

    /// Whether the last attempt got as far as to an exchange.
    private var isSent: Bool { judged.withLock { $0.request != nil } }

    private func perform<Body>(
        _ attempt: Attempt, _ exchange: (URLRequest) async throws -> HTTPExchange<Body>
    ) async throws -> HTTPExchange<Body> {
        judged.withLock { $0 = Judged() }
        var adapted = request
        if let adapt = options.adapt { adapted = try await adapt(request, attempt) }
        adapted.setTimeout(policy, timeout)
        judged.withLock { [adapted] in $0.request = adapted }
        let result: HTTPExchange<Body>
        do {
            result = try await exchange(adapted)
        } catch {
            // Whoever cancelled it knows why: there is nothing to judge.
            if Task.isCancelled { throw CancellationError() }
            judge { failure in
                failure.errorCode = (error as? URLError)?.errorCode
                failure.error = error
            }
            throw error
        }
        guard case .refusal(let data, let response) = result else { return result }
        let headers = response.allHeaderFields.reduce(into: [String: String]()) { headers, field in
            if let name = field.key as? String, let value = field.value as? String { headers[name] = value }
        }
        let opinion = judge { failure in
            failure = HTTPFailure(
                method: failure.method, isIdempotent: failure.isIdempotent, status: response.statusCode, headers: headers,
                time: failure.time)
        }
        switch opinion {
        case .doNotRetry, .noOpinion:
            // The server has answered, and the answer stands.
            if response.statusCode < 400 || options.errorStatuses == .returned { return result }
        case .retry, .retryAsSystemError: break
        }
        throw HTTPStatusError(response: response, data: data)
    }

    @discardableResult
    private func judge(_ describe: (inout HTTPFailure) -> Void) -> HTTPRetryOpinion {
        let sent = judged.withLock { $0.request } ?? request
        var failure = HTTPFailure(
            method: sent.httpMethod ?? "GET",
            isIdempotent: options.idempotency == .assured || sent.value(forHTTPHeaderField: URLRequest.idempotencyKey) != nil,
            time: .seconds(Date().timeIntervalSince1970))
        describe(&failure)
        let opinion = options.classifier.opinion(on: failure)
        judged.withLock { $0.opinion = opinion }
        return opinion
    }

    /// The caller's policy, and what the classifier says after it.
    private var judgedPolicy: RetryPolicy {
        policy.classify { [self] error in
            // What the bus broke off before it began leaves the judgement of the attempt before; and an adapter sends nothing.
            if error is CancellationError || !isSent { return nil }
            // The bus's own clock cut the attempt: to the server that is no different from the client's.
            if error as? RetryError == .attemptTimedOut {
                judge { $0.errorCode = URLError.Code.timedOut.rawValue }
            }
            return switch judged.withLock({ $0.opinion }) {
            case .retry(let failureClass): failureClass
            case .doNotRetry, .noOpinion: .permanent
            case .retryAsSystemError, nil: nil
            }
        }.systemErrors { [self] error in
            guard !(error is CancellationError), case .retryAsSystemError(let number) = judged.withLock({ $0.opinion }) else {
                return nil
            }
            return number
        }
    }
}
