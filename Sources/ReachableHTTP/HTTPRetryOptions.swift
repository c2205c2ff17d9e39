public import FoundationNetworking
public import Reachability
public import ReachableRetry

/// How requests of `URLSession` are repeated, besides what a `RetryPolicy` says.
public typealias HTTPRetryOptions = HTTPRequestRetryOptions<URLRequest>

/// How requests of an HTTP client are repeated, besides what a `RetryPolicy` says.
public struct HTTPRequestRetryOptions<Request: Sendable>: Sendable {
    /// What becomes of a response with a status of 400 or above that is not followed by another attempt.
    public enum ErrorStatuses: Hashable, Sendable {
        /// It is returned like any other response, as clients do.
        case returned
        /// It is thrown, by `URLSession`'s functions as ``HTTPStatusError``.
        case thrown
    }

    /// What becomes of a response with a status of 400 or above in the end.
    public var errorStatuses = ErrorStatuses.returned
    /// Which failures are followed by another attempt.
    ///
    /// What it has no opinion about ends the job. Functions that were given to the policy are asked before.
    public var classifier = HTTPRetryClassifier.standard
    /// Why the request may be sent twice.
    public var idempotency = HTTPIdempotency.method
    /// Makes each attempt's request from the job's; `nil` sends it as it is.
    ///
    /// For what does not last as long as a job may wait, such as a token or a signature. What it throws is an error of the attempt:
    /// of the network if that was away or changed meanwhile, otherwise a passing one, unless the policy knows better. Called by
    /// the job's task, with the attempt's timeout running.
    public var adapt: (@Sendable (Request, Attempt) async throws -> Request)?
    /// What has to be reached; by default the internet.
    ///
    /// For a server nearby use `Scope.host(_:)` or `Scope.address(_:)`.
    public var scope = Scope.internet
    /// What has to be satisfied besides.
    public var conditions: [Condition] = []
    /// Which job goes first when several may.
    public var priority = JobPriority.normal
    /// A name to cancel the job by, of which there is one job at a time; `nil` has the bus number it.
    public var id: JobID?

    /// Makes the default options.
    public init() {}
}
