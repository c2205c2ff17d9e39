internal import Foundation
internal import ReachableRetry
internal import Synchronization

/// A request that is repeated until it succeeds.
///
/// What fails is judged where it happens, with the request as it was sent; the policy's functions, which the bus asks right after
/// that, in the same task, only repeat the judgement.
final class HTTPJob<Request: RepeatableRequest>: Sendable {
    typealias Refusal = Request.Refusal

    private struct Judged {
        /// The request of the running attempt; `nil` before there is one.
        var request: Request?
        /// The report about its failure; `nil` if the classifier was not asked.
        var report: FailureReport?
    }

    private let request: Request
    private let policy: RetryPolicy
    private let options: HTTPRequestRetryOptions<Request>
    private let judged = Mutex(Judged())

    init(_ request: Request, _ policy: RetryPolicy, _ options: HTTPRequestRetryOptions<Request>) {
        var request = request
        request.add(options.idempotency)
        (self.request, self.policy, self.options) = (request, Self.completed(policy, options), options)
    }

    /// Runs it on a bus, or joins the job that the options name.
    ///
    /// - Parameters:
    ///   - exchange: makes one attempt with a request.
    ///   - body: makes the caller's body of a refusal, if refusals are returned.
    func run<Body: Sendable>(
        on bus: RetryBus, exchange: @escaping @Sendable (Request) async throws -> HTTPExchange<Body, Refusal>,
        body: (Refusal) throws -> Body
    ) async throws -> (Body, Refusal.Response) {
        do {
            let result: HTTPExchange<Body, Refusal>
            if let name = options.joining {
                result = try await bus.retry(
                    judgedPolicy, to: options.scope, options: Self.jobOptions(request, options), joining: name
                ) {
                    [self] attempt in try await perform(attempt, exchange)
                }
            } else {
                result = try await bus.retry(judgedPolicy, to: options.scope, options: Self.jobOptions(request, options)) {
                    attempt in
                    try await perform(attempt, exchange)
                }
            }
            switch result {
            case .value(let value, let response): return (value, response)
            case .refusal(let refusal): return (try body(refusal), refusal.response)
            }
        } catch let refusal as Refusal where options.errorStatuses == .returned && (isJudged || options.joining != nil) {
            return (try body(refusal), refusal.response)
        }
    }

    /// The policy and the operation of one life of a cold job.
    ///
    /// - Parameter value: makes the job's value of a body and a response.
    func instance<Body: Sendable, Value: Sendable>(
        exchange: @escaping @Sendable (Request) async throws -> HTTPExchange<Body, Refusal>,
        body: @escaping @Sendable (Refusal) throws -> Body, value: @escaping @Sendable ((Body, Refusal.Response)) -> Value
    ) -> JobInstance<Value> {
        JobInstance(judgedPolicy) { [self] attempt in
            switch try await perform(attempt, exchange) {
            case .value(let body, let response): value((body, response))
            case .refusal(let refusal): value((try body(refusal), refusal.response))
            }
        }
    }

    /// Makes a cold job, whose lives know nothing of each other.
    static func job<Value: Sendable>(
        _ request: Request, _ policy: RetryPolicy, _ options: HTTPRequestRetryOptions<Request>, on bus: RetryBus,
        instance: @escaping @Sendable (HTTPJob) -> JobInstance<Value>
    ) -> Job<Value> {
        bus.job(completed(policy, options), to: options.scope, options: jobOptions(request, options)) {
            instance(HTTPJob(request, policy, options))
        }
    }

    /// The job's place on the bus.
    private static func jobOptions(_ request: Request, _ options: HTTPRequestRetryOptions<Request>) -> JobOptions {
        JobOptions(
            destination: options.destination.name(for: request), when: options.conditions, priority: options.priority,
            id: options.id)
    }

    /// The policy with the rules of HTTP that it leaves open: servers and clients wait for minutes before they give up a connection
    /// that is dead.
    private static func completed(_ policy: RetryPolicy, _ options: HTTPRequestRetryOptions<Request>) -> RetryPolicy {
        policy.interruptsAttempt(unlessSet: .whenSourceIsLost(grace: .seconds(5)))
            .maxConcurrentPerDestination(options.maxConcurrentPerDestination)
    }

    /// Whether the last attempt's exchange failed: an adapter may throw the same kinds of errors.
    private var isJudged: Bool { judged.withLock { $0.report != nil } }

    /// Whether the last attempt got as far as to an exchange.
    private var isSent: Bool { judged.withLock { $0.request != nil } }

    private func perform<Body>(
        _ attempt: Attempt, _ exchange: (Request) async throws -> HTTPExchange<Body, Refusal>
    ) async throws -> HTTPExchange<Body, Refusal> {
        judged.withLock { $0 = Judged() }
        var adapted = request
        if let adapt = options.adapt { adapted = try await adapt(request, attempt) }
        judged.withLock { [adapted] in $0.request = adapted }
        let result: HTTPExchange<Body, Refusal>
        do {
            try DescriptorShare.process.take()
            defer { DescriptorShare.process.giveBack() }
            result = try await exchange(adapted)
        } catch {
            // Whoever cancelled it knows why: there is nothing to judge.
            if Task.isCancelled { throw CancellationError() }
            judge(Request.fault(of: error), error)
            throw error
        }
        guard case .refusal(let refusal) = result else { return result }
        let report = judge(refusal)
        // An answer that stands, and of which the server is not to blame.
        let isResult = refusal.status < 400 || options.errorStatuses == .returned && report.evidence == .classified(.request)
        if !report.mayRetry, isResult { return result }
        throw refusal
    }

    private func judge(_ fault: ConnectionFault, _ error: (any Error)? = nil) {
        let (method, isIdempotent) = sent
        judge(
            HTTPFailure(
                method: method, isIdempotent: isIdempotent, errorCode: fault.errorCode, systemError: fault.systemError,
                wasSent: fault.wasSent, error: error, time: .seconds(Date().timeIntervalSince1970)))
    }

    private func judge(_ refusal: Refusal) -> FailureReport {
        let (method, isIdempotent) = sent
        return judge(
            HTTPFailure(
                method: method, isIdempotent: isIdempotent, status: refusal.status, headers: refusal.fields,
                time: .seconds(Date().timeIntervalSince1970)))
    }

    /// What was sent, and whether it may be sent again whatever the method is.
    private var sent: (method: String, isIdempotent: Bool) {
        let sent = judged.withLock { $0.request } ?? request
        return (sent.verb, options.idempotency == .assured || sent.field(idempotencyKey) != nil)
    }

    @discardableResult
    private func judge(_ failure: HTTPFailure) -> FailureReport {
        let report =
            switch options.classifier.opinion(on: failure) {
            // A request that may be repeated is not to blame.
            case .retry: FailureReport(failure.evidence == .classified(.request) ? .classified(.server) : failure.evidence)
            case .retryAs(let fault): FailureReport(.classified(fault))
            case .retryAsSystemError(let number): FailureReport(systemError: number)
            case .doNotRetry, .noOpinion: FailureReport(failure.evidence, mayRetry: false)
            }
        judged.withLock { $0.report = report }
        return report
    }

    /// The caller's policy, and what the classifier says after it.
    private var judgedPolicy: RetryPolicy {
        policy.report { [self] error in
            // The bus broke it off before it began, which leaves the judgement of the attempt before; and an adapter sends nothing.
            if error is CancellationError || !isSent { return nil }
            switch error as? RetryError {
            // The bus's own clock cut the attempt: to the server that is no different from the client's.
            case RetryError.attemptTimedOut?: judge(ConnectionFault(URLError.Code.timedOut.rawValue))
            case RetryError.attemptInterrupted?: judge(ConnectionFault(URLError.Code.networkConnectionLost.rawValue))
            default: break
            }
            return judged.withLock { $0.report }
        }
    }
}
