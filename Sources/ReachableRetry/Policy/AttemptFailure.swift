internal import Reachability

/// The classification of a failed attempt: its fault, and if another attempt may be made.
///
/// The two are independent. The ``fault`` decides if the attempt is charged and how fast other jobs start. ``mayRetry`` decides
/// if there is another attempt.
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
        /// The network: no server was reached.
        ///
        /// Not charged while the policy waits for connectivity and the monitor runs.
        case network
        /// The server: it answered, and the answer was an error of its own.
        ///
        /// Charged, also if the network was lost meanwhile.
        case server
        /// The server: it is overloaded, and may order a delay.
        ///
        /// Charged. `retryAfter` counts from the failure, and no reconnect ends it early. Negative values are treated as zero.
        /// The next attempt also waits for the backoff. The delay applies to all jobs with the same destination.
        case overload(retryAfter: Duration?)
        /// The request: the server rejected it, and would reject it again.
        ///
        /// Ends the job.
        case request
        /// This machine: it ran out of descriptors, memory or ports.
        ///
        /// Not charged. The bus runs fewer attempts until the shortage ends.
        case local
        /// Unknown: the connection broke or timed out on a satisfied path.
        ///
        /// Charged. If the path changed or was lost during the attempt, the fault is ``network``.
        case unknown
    }

    /// The party that the failure is due to.
    public var fault: Fault
    /// If `false`, the job ends with the attempt's error, because another attempt is useless or harmful.
    ///
    /// An example is a payment that the server may have received.
    public var mayRetry: Bool

    /// Creates a failure.
    ///
    /// A failure of the request may not be repeated, whatever the value of `mayRetry`.
    public init(_ fault: Fault, mayRetry: Bool = true) {
        self.fault = fault
        self.mayRetry = mayRetry && fault != .request
    }

    /// A failure of the network.
    public static let network = AttemptFailure(.network)
    /// A failure of the server.
    public static let server = AttemptFailure(.server)
    /// An overloaded server that may order a delay.
    public static func overload(retryAfter: Duration? = nil) -> AttemptFailure { AttemptFailure(.overload(retryAfter: retryAfter)) }
    /// A rejected request, which ends the job.
    public static let request = AttemptFailure(.request)
    /// A shortage of this machine.
    public static let local = AttemptFailure(.local)
    /// A temporary failure: unknown, and another attempt may be made.
    public static let transient = AttemptFailure(.unknown)
    /// A permanent failure: unknown, and no other attempt is made.
    public static let permanent = AttemptFailure(.unknown, mayRetry: false)
}

/// The functions of a policy that classify errors, in the order that the policy documents.
struct Classification: Sendable {
    var giveUp: [@Sendable (any Error) -> Bool] = []
    var retry: [@Sendable (any Error) -> Bool] = []
    var classifiers: [@Sendable (any Error) -> FailureReport?] = []
    var errnoReaders: [@Sendable (any Error) -> Int32?] = []

    /// Returns the rules for a failure that may have come with a classifier of its own.
    func adding(_ classified: ClassifiedError?) -> Classification {
        guard let classified else { return self }
        var classification = self
        classification.classifiers.append(classified.classify)
        return classification
    }

    /// Returns the report of a failed attempt, independent of the network's state.
    ///
    /// - Parameter cut: The bus's reason if it cut the attempt. It does not overrule an answer that came just before.
    func report(_ error: any Error, cut: RetryError?) -> FailureReport {
        guard let cut else { return report(error) }
        // The cancellation is the bus's own.
        guard !(error is CancellationError) else { return report(cut, isCut: true) }
        let own = report(error)
        return own.evidence.isAnswer ? own : report(cut, isCut: true)
    }

    /// Returns the report of one error.
    ///
    /// - Parameter isCut: True for the bus's reason, and not for the same error of a job within the operation.
    func report(_ error: any Error, isCut: Bool = false) -> FailureReport {
        // First, because predicates do not depend on classifiers. The list is about errors of the operation.
        let isRefused = giveUp.contains { $0(error) } || !isCut && !retry.isEmpty && !retry.contains { $0(error) }
        var report = classification(of: error) ?? systemReport(error) ?? FailureReport(.unclassified)
        if isRefused { report.mayRetry = false }
        return report
    }

    private func classification(of error: any Error) -> FailureReport? {
        for classifier in classifiers {
            if let report = classifier(error) { return report }
        }
        return nil
    }

    private func systemReport(_ error: any Error) -> FailureReport? {
        for number in errnoReaders {
            if let number = number(error) { return FailureReport(systemError: number) }
        }
        return (error as? ReachabilityError).map { FailureReport(systemError: $0.errno) }
    }
}

/// The evidence of an attempt's error, independent of the network's state.
package struct FailureReport: Hashable, Sendable {
    package enum Evidence: Hashable, Sendable {
        /// The caller's classification.
        case classified(AttemptFailure.Fault)
        /// The system reports that there is no network.
        case unreachable
        /// No answer came: the network is coming up, or the other side is gone.
        case unanswered
        /// No answer came, after a long time.
        case timedOut
        /// No name server answered.
        case noNameServer
        /// The other side refused the connection.
        case refused
        /// No source address or port was available: none is left, or the network changed.
        case noSourceAddress
        /// This machine ran out of descriptors, memory or ports.
        case shortage
        /// Any other error.
        case unclassified

        /// True if the caller knows that the server answered, which no loss of the network overrules.
        var isAnswer: Bool {
            switch self {
            case .classified(.server), .classified(.overload), .classified(.request): true
            default: false
            }
        }
    }

    package var evidence: Evidence
    package var mayRetry: Bool
    /// The delay that the server ordered for this job with an answer that is no overload.
    package var retryAfter: Duration?

    package init(_ evidence: Evidence, mayRetry: Bool = true, retryAfter: Duration? = nil) {
        (self.evidence, self.retryAfter) = (evidence, retryAfter)
        self.mayRetry = mayRetry && evidence != .classified(.request)
    }

    package init(_ failure: AttemptFailure) { self.init(.classified(failure.fault), mayRetry: failure.mayRetry) }

    /// Creates a report from a system error number: an `errno` (errno(3)), or a negative number of getaddrinfo(3).
    ///
    /// The numbers are from asm-generic/errno.h and glibc's netdb.h, because this file imports no C library.
    package init(systemError number: Int32, mayRetry: Bool = true) {
        let evidence: Evidence =
            switch number {
            // ENETDOWN, ENETUNREACH.
            case 100, 101: .unreachable
            // EHOSTUNREACH.
            case 113: .unanswered
            // EAI_AGAIN.
            case -3: .noNameServer
            // EADDRNOTAVAIL.
            case 99: .noSourceAddress
            // ETIMEDOUT.
            case 110: .timedOut
            // ECONNREFUSED.
            case 111: .refused
            // EAGAIN, ENOMEM, ENFILE, EMFILE, ETXTBSY, ENOBUFS.
            case 11, 12, 23, 24, 26, 105: .shortage
            default: .unclassified
            }
        self.init(evidence, mayRetry: mayRetry)
    }
}

/// An operation's error with a classifier that the policy's own classifiers precede.
///
/// The bus unwraps it: policies, events and callers get the bare error.
package struct ClassifiedError: Error {
    let error: any Error
    let classify: @Sendable (any Error) -> FailureReport?

    /// Creates an error from the bare one.
    ///
    /// - Parameter classify: Classifies the bare error, or the `RetryError` of an attempt that the bus cut; `nil` leaves it to the
    ///   bus.
    package init(_ error: any Error, classify: @escaping @Sendable (any Error) -> FailureReport?) {
        (self.error, self.classify) = (error, classify)
    }

    /// The bare error's own report; `nil` leaves it to the bus.
    package var report: FailureReport? { classify(error) }
}
