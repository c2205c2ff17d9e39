public import Foundation
public import FoundationNetworking
public import ReachableJobs

/// The options of a registered kind of durable requests, uploads or downloads.
public struct DurableHTTPOptions: Sendable {
    /// The session whose configuration and delegate the requests have, as with the functions of `URLSession`.
    public var session = URLSession.shared
    /// The rule that decides which failures are followed by another attempt.
    ///
    /// A failure without a decision ends the job. The policy's own functions decide before it.
    public var classifier = HTTPRetryClassifier.standard
    /// The statuses besides 200 to 299 that mean success, such as 404 for a deletion; downloads ignore it.
    public var acceptedStatuses: Set<Int> = []
    /// The number of bytes that are kept of a response's body; 1 MiB by default.
    ///
    /// The attempt ends when there are more.
    public var largestResponse = 1 << 20
    /// A function that makes each attempt's request from the stored one; `nil` sends it unchanged.
    ///
    /// For values that should not be stored, or that expire while a job waits: tokens and signatures. An error that it throws
    /// fails the attempt, which is repeated unless the policy says otherwise.
    public var adapt: (@Sendable (URLRequest, DurableAttempt) async throws -> URLRequest)?
    /// The number of attempts to one destination that may run at a time; `nil` uses the bus's configuration.
    public var maxConcurrentPerDestination: Int? = 6
    /// If true, a request that must not be sent twice, and that `URLSession` may send twice, fails with ``SingleSendError``.
    public var requiresSingleSend = false
    /// Gets the number of bytes on the disk each time a download has written some.
    package var onWrite: (@Sendable (Int64) -> Void)?

    /// Creates the default options.
    public init() {}
}

/// The response to a durable job.
public struct DurableResponse: Hashable, Sendable {
    /// The status.
    public var status: Int
    /// The headers, by name.
    public var headers: [String: String]
    /// The body, at most ``DurableHTTPOptions/largestResponse`` bytes; empty for downloads.
    public var body: Data
    /// True if the body was longer, and the rest was not read.
    public var isTruncated: Bool

    /// Creates a response, for tests of handlers.
    public init(status: Int, headers: [String: String] = [:], body: Data = Data(), isTruncated: Bool = false) {
        (self.status, self.headers, self.body, self.isTruncated) = (status, headers, body, isTruncated)
    }

    /// Returns a header, or `nil` if the response has none of that name; names are case-insensitive.
    public func header(_ name: String) -> String? {
        headers.first { $0.key.lowercased() == name.lowercased() }?.value
    }
}
