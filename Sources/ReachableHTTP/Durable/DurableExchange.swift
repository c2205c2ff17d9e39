internal import Foundation
internal import FoundationNetworking
internal import ReachableJobs
internal import ReachableRetry

/// One registered kind: makes the attempts of its jobs.
struct DurableExchange: Sendable {
    typealias Result<Body> = HTTPExchange<Body, HTTPStatusError>

    let options: DurableHTTPOptions
    let policy: RetryPolicy

    init(_ options: DurableHTTPOptions, _ policy: RetryPolicy) {
        self.options = options
        // HTTP's defaults, as for the requests of a session.
        self.policy = policy.interruptsAttempt(unlessSet: .whenSourceIsLost(grace: .seconds(5)))
            .maxConcurrentPerDestination(options.maxConcurrentPerDestination)
    }

    /// Makes one attempt.
    ///
    /// - Throws: A ``ClassifiedError`` if the exchange failed, and the adapter's own error.
    func perform<Body: Sendable>(
        _ head: DurableHead, _ attempt: DurableAttempt,
        exchange: @escaping @Sendable (URLRequest) async throws -> Result<Body>
    ) async throws -> Body {
        var retry = HTTPRetryOptions()
        (retry.classifier, retry.errorStatuses) = (options.classifier, .thrown)
        if let adapt = options.adapt { retry.adapt = { request, _ in try await adapt(request, attempt) } }
        let transfer = HTTPTransfer<URLRequest, Body> {
            [policy, silence = options.session.configuration.timeoutIntervalForRequest] request, _ in
            var request = request
            request.setTimeout(policy, silence)
            do {
                return try await exchange(request)
            } catch {
                let (bare, isUnsent) = Unsent.unwrap(error)
                let error = (bare as? URLError)?.withoutURL ?? bare
                throw isUnsent ? Unsent(error: error) : error
            }
        } body: {
            throw $0
        }
        return try await HTTPJob(head.request(jobKey: attempt.idempotencyKey), policy, retry)
            .perform(attempt.attempt, transfer).0
    }

    /// Makes one attempt whose response is kept in memory.
    func load(_ head: DurableHead, _ attempt: DurableAttempt, _ upload: URLSession.Upload) async throws -> DurableResponse {
        let rule = SendRule(mayRepeat: head.isRepeatable, requiresSingleSend: options.requiresSingleSend)
        return try await perform(head, attempt) { [options] request in
            var request = request
            if let body = try upload.stream() { request.attach(body, for: options.session) }
            var receiver = BoundedReceiver(limit: options.largestResponse, accepted: options.acceptedStatuses)
            return try await options.session.run(request, rule, attempt.attempt, &receiver)
        }
    }

    /// Runs a handler after the request was carried out.
    ///
    /// - Throws: The handler's error; it ends the job if another attempt would send the request twice.
    func handle(_ head: DurableHead, _ handler: () async throws -> Void) async throws {
        do {
            try await handler()
        } catch {
            throw head.isRepeatable ? error : ClassifiedError(error) { _ in .permanent }
        }
    }

}

extension FailureReport {
    /// The report of an error that proves nothing about the server, and that another attempt would meet again.
    static var permanent: FailureReport { FailureReport(.unclassified, mayRetry: false) }
}

extension ClassifiedError {
    /// Creates an error of this machine's files: the system's errors may pass, and all others end the job.
    init(ofFile error: any Error) {
        let report =
            switch error {
            case let error as POSIXError: FailureReport(systemError: error.code.rawValue)
            case let error as DurableHTTPError where error.code == .fileInUse: FailureReport(.unclassified)
            default: FailureReport.permanent
            }
        self.init(error) { _ in report }
    }
}

/// A receiver that keeps the beginning of the body in memory, and ends the task there.
struct BoundedReceiver: TaskReceiver {
    typealias Result = HTTPExchange<DurableResponse, HTTPStatusError>

    private let limit: Int
    private let accepted: Set<Int>
    private var response: HTTPURLResponse?
    private var body = Data()
    private var isTruncated = false

    init(limit: Int, accepted: Set<Int>) { (self.limit, self.accepted) = (max(0, limit), accepted) }

    mutating func receive(_ response: HTTPURLResponse?) -> Result? {
        (self.response, body, isTruncated) = (response, Data(), false)
        return nil
    }

    mutating func receive(_ data: Data) throws -> Result? {
        let room = limit - body.count
        body += data.prefix(room)
        guard data.count > room else { return nil }
        isTruncated = true
        return try end(response)
    }

    func end(_ response: HTTPURLResponse?) throws -> Result {
        guard let response else { throw URLError(.badServerResponse) }
        let error = HTTPStatusError(response: response, data: body)
        guard 200...299 ~= response.statusCode || accepted.contains(response.statusCode) else { return .errorResponse(error) }
        return .value(
            DurableResponse(status: response.statusCode, headers: error.headers, body: body, isTruncated: isTruncated), response)
    }
}
