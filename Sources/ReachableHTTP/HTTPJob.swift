internal import Foundation
internal import ReachableRetry

/// A request of an HTTP client, as a job sees it.
protocol RepeatableRequest: Sendable {
    associatedtype StatusError: ErrorResponse

    var methodName: String { get }
    /// The host and port of the server; `nil` if the URL names none.
    var destination: String? { get }

    /// Returns a header's value, or `nil` if the request has none of that name.
    func header(_ name: String) -> String?
    /// Sets a header, and replaces earlier values.
    mutating func setHeader(_ name: String, _ value: String)
    /// Throws the client's error if the URL is not one of HTTP.
    func checkURL() throws
    /// Translates an error of the client.
    static func fault(of error: any Error) -> ConnectionFault
}

extension RepeatableRequest {
    private static var keyHeader: String { "Idempotency-Key" }

    var hasIdempotencyKey: Bool { header(Self.keyHeader) != nil }

    mutating func add(_ idempotency: HTTPIdempotency) {
        switch idempotency.kind {
        case .method, .assured: return
        case .generated: if !hasIdempotencyKey { setHeader(Self.keyHeader, UUID().uuidString) }
        case .given(let key): setHeader(Self.keyHeader, key)
        }
    }
}

/// The result of one attempt.
enum HTTPExchange<Body, StatusError: ErrorResponse> {
    /// The body that the caller wants, and its response.
    case value(Body, StatusError.Response)
    case errorResponse(StatusError)
}

extension HTTPExchange: Sendable where Body: Sendable {}

/// The error of an exchange whose request has not been sent.
struct Unsent: Error {
    let error: any Error

    /// Returns the bare error, and true if the request has not been sent.
    static func unwrap(_ error: any Error) -> (any Error, isUnsent: Bool) {
        (error as? Unsent).map { ($0.error, true) } ?? (error, false)
    }
}

/// The client's part in one job.
struct HTTPTransfer<Request: RepeatableRequest, Body: Sendable>: Sendable {
    /// Makes one attempt.
    let exchange: @Sendable (Request, Attempt) async throws -> HTTPExchange<Body, Request.StatusError>
    /// Makes the caller's body of an error response that is returned.
    let body: @Sendable (Request.StatusError) throws -> Body
}

/// A request that is repeated until it succeeds, whichever client sends it.
struct HTTPJob<Request: RepeatableRequest>: Sendable {
    typealias Options = HTTPRequestRetryOptions<Request>
    typealias StatusError = Request.StatusError
    typealias Response = StatusError.Response

    private let request: Request
    private let policy: RetryPolicy
    private let options: Options

    init(_ request: Request, _ policy: RetryPolicy, _ options: Options) {
        var request = request
        request.add(options.idempotency)
        (self.request, self.options) = (request, options)
        // HTTP's defaults: servers and clients keep a dead connection for minutes.
        self.policy = policy.interruptsAttempt(unlessSet: .whenSourceIsLost(grace: .seconds(5)))
            .maxConcurrentPerDestination(options.maxConcurrentPerDestination)
    }

    /// Runs the request on a bus, or joins the job that the options name.
    func run<Body>(_ transfer: HTTPTransfer<Request, Body>, on bus: RetryBus) async throws -> (Body, Response) {
        try request.checkURL()
        // An adapter may throw errors of the same type, from requests of its own: those are never returned.
        var isOwnResponse = true
        do {
            if let name = options.joining {
                return try await bus.retry(policy, to: options.scope, options: jobOptions, joining: name) { attempt in
                    try await perform(attempt, transfer)
                }
            }
            return try await bus.retry(policy, to: options.scope, options: jobOptions) { attempt in
                do {
                    return try await perform(attempt, transfer)
                } catch {
                    // Errors of the exchange are wrapped here.
                    isOwnResponse = !(error is StatusError)
                    throw error
                }
            }
        } catch let error as StatusError where options.errorStatuses == .returned && isOwnResponse {
            return (try transfer.body(error), error.response)
        }
    }

    /// Makes a cold job; each of its lives has an idempotency key and a transfer of its own.
    static func job<Body, Value: Sendable>(
        _ request: Request, _ policy: RetryPolicy, _ options: Options, on bus: RetryBus,
        value: @escaping @Sendable ((Body, Response)) -> Value,
        transfer: @escaping @Sendable () -> HTTPTransfer<Request, Body>
    ) -> Job<Value> {
        let first = HTTPJob(request, policy, options)
        do {
            try request.checkURL()
        } catch {
            let final = first.policy.giveUpOnErrors { _ in true }
            return bus.job(final, to: options.scope, options: first.jobOptions) { _ in throw error }
        }
        return bus.job(first.policy, to: options.scope, options: first.jobOptions) {
            let (life, transfer) = (HTTPJob(request, policy, options), transfer())
            return { value(try await life.perform($0, transfer)) }
        }
    }

    /// The job's place on the bus.
    private var jobOptions: JobOptions {
        var job = options.job
        job.destination =
            switch options.destination.kind {
            case .hostAndPort: request.destination
            case .none: nil
            case .named(let name): name
            }
        return job
    }

    /// Makes one attempt.
    ///
    /// - Throws: A ``ClassifiedError`` if the exchange failed, and the adapter's own error.
    func perform<Body>(
        _ attempt: Attempt, _ transfer: HTTPTransfer<Request, Body>
    ) async throws -> (Body, Response) {
        let sent = try await options.adapt?(request, attempt) ?? request
        let result: HTTPExchange<Body, StatusError>
        do {
            try DescriptorShare.process.take()
            defer { DescriptorShare.process.giveBack() }
            result = try await transfer.exchange(sent, attempt)
        } catch {
            let (error, isUnsent) = Unsent.unwrap(error)
            // The canceller knows the reason.
            if Task.isCancelled { throw classified(CancellationError(), nil, of: sent, isUnsent: isUnsent) }
            var fault = Request.fault(of: error)
            if isUnsent { fault.wasSent = false }
            throw classified(error, report(fault, error, of: sent), of: sent, isUnsent: isUnsent)
        }
        switch result {
        case .value(let body, let response): return (body, response)
        case .errorResponse(let errorResponse):
            let report = report(errorResponse, of: sent)
            // A final answer that is not the server's fault is a result.
            let isResult =
                errorResponse.status < 400 || options.errorStatuses == .returned && report.evidence == .classified(.request)
            guard !report.mayRetry, isResult else { throw classified(errorResponse, report, of: sent) }
            do {
                return (try transfer.body(errorResponse), errorResponse.response)
            } catch {
                throw classified(error, report, of: sent)
            }
        }
    }

    // MARK: - Classification

    /// Wraps an error with its report and with those of the bus's own cuts.
    private func classified(
        _ error: any Error, _ own: FailureReport?, of sent: Request, isUnsent: Bool = false
    ) -> ClassifiedError {
        ClassifiedError(error) { error in
            guard var fault = ConnectionFault(cut: error as? RetryError) else { return own }
            if isUnsent { fault.wasSent = false }
            return report(fault, of: sent)
        }
    }

    private func report(_ fault: ConnectionFault, _ error: (any Error)? = nil, of sent: Request) -> FailureReport {
        options.classifier.report(
            on: HTTPFailure(fault, method: sent.methodName, isIdempotent: isIdempotent(sent), error: error))
    }

    private func report(_ errorResponse: StatusError, of sent: Request) -> FailureReport {
        options.classifier.report(
            on: HTTPFailure(errorResponse, method: sent.methodName, isIdempotent: isIdempotent(sent)))
    }

    private func isIdempotent(_ sent: Request) -> Bool { options.idempotency == .assured || sent.hasIdempotencyKey }
}

extension HTTPFailure {
    /// Creates a failure without a response, at this moment.
    init(_ fault: ConnectionFault, method: String, isIdempotent: Bool, error: (any Error)? = nil) {
        self.init(
            method: method, isIdempotent: isIdempotent, errorCode: fault.errorCode, systemError: fault.systemError,
            wasSent: fault.wasSent, error: error, time: Self.now)
    }

    /// Creates the failure of a response with an error status, at this moment.
    init(_ response: some ErrorResponse, method: String, isIdempotent: Bool) {
        self.init(
            method: method, isIdempotent: isIdempotent, status: response.status, headers: response.headers, time: Self.now)
    }

    private static var now: Duration { .seconds(Date().timeIntervalSince1970) }
}

extension ConnectionFault {
    /// Creates the fault of an attempt that the bus cut; `nil` for other errors.
    ///
    /// To the server, such a cut looks like one by the client.
    init?(cut error: RetryError?) {
        switch error {
        case RetryError.attemptTimedOut?: self.init(URLError.Code.timedOut.rawValue)
        case RetryError.attemptInterrupted?: self.init(URLError.Code.networkConnectionLost.rawValue)
        default: return nil
        }
    }
}
