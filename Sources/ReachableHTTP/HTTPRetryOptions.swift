public import Foundation
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
    /// The server that the bus takes the request to go to; by default the host and port of its URL.
    public var destination = HTTPDestination.hostAndPort
    /// How many requests to the ``destination`` run at a time at most; `nil` leaves that to the bus's configuration.
    ///
    /// A client that may open no more connections than that would have further requests wait with their timeouts running. Less
    /// than 1 counts as 1.
    ///
    /// All requests of a process together run a quarter as many attempts as it may have descriptors (`ulimit -n`). Further attempts
    /// fail with `EMFILE`, which is not charged, and are repeated when others have ended.
    public var maxConcurrentPerDestination: Int? = 6
    /// What has to be satisfied besides.
    public var conditions: [Condition] = []
    /// Which job goes first when several may.
    public var priority = JobPriority.normal
    /// A name to cancel the job by, of which there is one job at a time; `nil` has the bus number it.
    public var id: JobID?
    /// A name under which several callers share one job; `nil` gives each its own.
    ///
    /// A caller joins the pending job of that name, as `RetryBus.retry(_:joining:operation:)` does: its request is not sent, and it
    /// gets what the first caller gets. A download that is shared has one file. Takes the place of ``id``. Values of `Job` ignore
    /// it: there `RetryError.duplicateID` ends a second life with the same ``id``.
    public var joining: JobID?
    /// Whether a download continues where the previous attempt broke off, if the server allows it.
    ///
    /// If not, each attempt starts at the first byte, and neither `Range` nor `Accept-Encoding` is set.
    public var resumesDownloads = true
    /// Whether the server may encode the body of a download, with gzip for instance.
    ///
    /// An encoded body saves traffic, and cannot be continued. By default a download asks for `Accept-Encoding: identity`, unless
    /// the request has a value of its own.
    public var acceptsEncodedDownloads = false
    /// The directory that downloads are written to; `nil` for the system's for temporary files.
    ///
    /// It must exist. Choose one on the volume that the file is to stay on: moving it there is then instant.
    public var downloadDirectory: URL?

    /// Makes the default options.
    public init() {}
}

/// The server that a request goes to, as far as a bus has to know it.
///
/// Jobs to one destination share a gate, and a server's order to wait. More cases may be added.
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

    func name(for request: some RepeatableRequest) -> String? {
        switch kind {
        case .hostAndPort: request.destination
        case .none: nil
        case .named(let name): name
        }
    }
}
