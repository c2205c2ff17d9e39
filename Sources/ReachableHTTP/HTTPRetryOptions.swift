public import Foundation
public import FoundationNetworking
public import Reachability
public import ReachableRetry

/// The options of a repeated request of `URLSession`.
public typealias HTTPRetryOptions = HTTPRequestRetryOptions<URLRequest>

/// The options of a repeated request of an HTTP client; times and limits are in its `RetryPolicy`.
public struct HTTPRequestRetryOptions<Request: Sendable>: Sendable {
    /// The handling of a response with a status of 400 or above that is not followed by another attempt.
    public enum ErrorStatuses: Hashable, Sendable {
        /// Returned like any other response.
        case returned
        /// Thrown, by `URLSession`'s functions as ``HTTPStatusError``.
        case thrown
    }

    /// The handling of a final response with a status of 400 or above.
    public var errorStatuses = ErrorStatuses.returned
    /// The rule that decides which failures are followed by another attempt.
    ///
    /// A failure without a decision ends the job. The policy's own functions decide before it.
    public var classifier = HTTPRetryClassifier.standard
    /// The reason why the request may be sent twice.
    public var idempotency = HTTPIdempotency.method
    /// If true, a request that must not be sent twice, and that its client may send twice, fails with ``SingleSendError``.
    ///
    /// With false it is sent, and the event `warning` and the log say so. `URLSession` may send the head of a request twice over
    /// TLS, unless its method or ``idempotency`` allows that anyway. With the trait AsyncHTTPClient such a request is made by
    /// `HTTPClient`, which sends none twice, unless the session has a delegate or a proxy is set (<doc:RepeatingRequests>).
    public var requiresSingleSend = false
    /// A function that makes each attempt's request from the job's; `nil` sends the request unchanged.
    ///
    /// For values that expire while a job waits, such as tokens and signatures. An error that it throws fails the attempt: it is
    /// the network's if the path changed or was gone meanwhile, and transient otherwise, unless the policy classifies it. The job's
    /// task calls it within the attempt's timeout.
    public var adapt: (@Sendable (Request, Attempt) async throws -> Request)?
    /// The part of the network that has to be reachable; by default the internet.
    ///
    /// For a server nearby use `Scope.host(_:)` or `Scope.address(_:)`.
    public var scope = Scope.internet
    /// The server of the request, as the bus sees it; by default the host and port of its URL.
    public var destination = HTTPDestination.hostAndPort
    /// The conditions, priority and name of the request's job on the bus.
    ///
    /// ``destination`` replaces the destination in it.
    ///
    /// ```swift
    /// options.job = JobOptions(when: [monitor.validatedCondition], priority: .bulk)
    /// ```
    public var job = JobOptions()
    /// The number of requests to the ``destination`` that may run at a time; `nil` uses the bus's configuration.
    ///
    /// Further requests wait on the bus, where their timeouts do not run, instead of in the client. Values below 1 are treated
    /// as 1.
    ///
    /// All requests of a process together run a quarter as many attempts as it may have descriptors (`ulimit -n`). Further attempts
    /// fail with `EMFILE`, which is not charged, and are repeated when others have ended.
    public var maxConcurrentPerDestination: Int? = 6
    /// A name under which several callers share one job; `nil` gives each caller its own.
    ///
    /// A caller joins the pending job of that name, as `RetryBus.retry(_:joining:operation:)` does: its request is not sent, and it
    /// gets the first caller's result. A shared download has one file. Replaces the ``job``'s name. Values of `Job` ignore it:
    /// there `RetryError.duplicateID` ends a second life with the same name.
    public var joining: JobID?
    /// `true` if a download continues after the bytes of earlier attempts, if the server allows it.
    ///
    /// With `false` each attempt starts at the first byte, and neither `Range` nor `Accept-Encoding` is set.
    public var resumesDownloads = true
    /// `true` if the server may encode the body of a download, for example with gzip.
    ///
    /// An encoded body saves traffic and cannot be continued. By default a download sends `Accept-Encoding: identity`, unless the
    /// request has a value of its own.
    public var acceptsEncodedDownloads = false
    /// The directory that downloads are written to; `nil` for the system's temporary directory.
    ///
    /// It must exist. On the volume where the file stays, moving the file is instant.
    public var downloadDirectory: URL?

    /// Creates the default options.
    public init() {}

    var sendRule: SendRule { SendRule(mayRepeat: idempotency == .assured, requiresSingleSend: requiresSingleSend) }
}

/// The reason why a request may be sent twice.
///
/// More may be added.
public struct HTTPIdempotency: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case method
        case assured
        case generated
        case given(String)
    }

    let kind: Kind

    /// The request's method, or an `Idempotency-Key` that the request already has.
    ///
    /// `URLSession` sends a request without either on a connection of its own: on one that it reuses, libcurl would send the
    /// request twice if the connection ends without an answer.
    public static let method = HTTPIdempotency(kind: .method)
    /// The caller's word; nothing is added to the request.
    public static let assured = HTTPIdempotency(kind: .assured)
    /// A header `Idempotency-Key`, by which the server recognizes the request.
    ///
    /// The key is a random UUID, made once for a job and the same in all of its attempts. A request that has a key keeps it.
    public static let key = HTTPIdempotency(kind: .generated)
    /// A header `Idempotency-Key` with this value, by which the server recognizes the request.
    ///
    /// For a key that outlives the process.
    public static func key(_ value: String) -> HTTPIdempotency { HTTPIdempotency(kind: .given(value)) }
}

/// The server of a request, as the bus sees it.
///
/// Jobs to one destination share a gate and a delay ordered by the server. More cases may be added.
public struct HTTPDestination: Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        case hostAndPort
        case none
        case named(String)
    }

    let kind: Kind

    /// The host and port of the request's URL, such as `example.com:443`.
    public static let hostAndPort = HTTPDestination(kind: .hostAndPort)
    /// No destination: the request shares nothing with others to the same server.
    public static let none = HTTPDestination(kind: .none)
    /// A name of the caller's choice, for several hosts that are one service, or several services behind one host.
    public static func named(_ name: String) -> HTTPDestination { HTTPDestination(kind: .named(name)) }
}
