/// Why an attempt failed, and if another one may be made: two facts that do not depend on each other.
///
/// The ``fault`` decides if the attempt is charged, and how fast others are let go. ``mayRetry`` decides if there is another one.
///
/// ```swift
/// policy.classify { error in
///     switch error {
///     case let error as QuotaExceeded: .overload(retryAfter: error.reset)
///     case is InvalidPhoto: .request
///     case is PaymentCutShort: AttemptFailure(.unknown, mayRetry: false)
///     default: nil
///     }
/// }
/// ```
public struct AttemptFailure: Hashable, Sendable {
    /// The party that a failure is due to.
    public enum Fault: Hashable, Sendable {
        /// The network: nobody was reached.
        ///
        /// Not charged while the policy waits for connectivity and the monitor sees the network.
        case network
        /// The server: it answered, and the answer was an error of its own.
        ///
        /// Charged, also if the network was lost meanwhile.
        case server
        /// The server: it has too much to do, and may say how long to stay away.
        ///
        /// Charged. `retryAfter` counts from the failure, and no reconnect undercuts it; below zero it counts as zero. The next
        /// attempt also waits for the backoff. Jobs with the same destination stay away, too.
        case overload(retryAfter: Duration?)
        /// The request: the server answered that it is wrong, and would again.
        ///
        /// Ends the job.
        case request
        /// This machine: it ran out of descriptors, memory or ports.
        ///
        /// Not charged. The bus lets fewer attempts run until there is more.
        case local
        /// Unknown: the connection broke, or took too long, on a path that is there.
        ///
        /// Charged. If the path changed or was gone during the attempt, it counts as ``network``.
        case unknown
    }

    /// The party that the failure is due to.
    public var fault: Fault
    /// If false, the job ends with the attempt's error: to repeat it would not help, or would do harm.
    ///
    /// Such as a payment that the server may have received.
    public var mayRetry: Bool

    /// Makes a failure; that of a request may not be repeated, whatever `mayRetry` says.
    public init(_ fault: Fault, mayRetry: Bool = true) {
        self.fault = fault
        self.mayRetry = mayRetry && fault != .request
    }

    /// A failure of the network.
    public static let network = AttemptFailure(.network)
    /// A failure of the server.
    public static let server = AttemptFailure(.server)
    /// A server that has too much to do, and may say how long to stay away.
    public static func overload(retryAfter: Duration? = nil) -> AttemptFailure { AttemptFailure(.overload(retryAfter: retryAfter)) }
    /// An answer that blames the request, and ends the job.
    public static let request = AttemptFailure(.request)
    /// A shortage of this machine.
    public static let local = AttemptFailure(.local)
    /// A failure that passes: unknown, and another attempt may be made.
    public static let transient = AttemptFailure(.unknown)
    /// A failure that stays: there is no other attempt.
    public static let permanent = AttemptFailure(.unknown, mayRetry: false)
}
