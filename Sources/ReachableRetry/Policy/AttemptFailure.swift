internal import Reachability

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

/// The functions of a policy that judge errors, asked in the order that a policy promises.
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

    /// The report about an attempt that failed, before the state of the network is looked at.
    ///
    /// - Parameter cut: The bus's own reason, if it cut the attempt. It does not overrule an answer that came just before.
    func report(_ error: any Error, cut: RetryError?) -> FailureReport {
        guard let cut else { return report(error) }
        // The cancellation is the bus's own.
        guard !(error is CancellationError) else { return report(cut) }
        let own = report(error)
        return own.evidence.isAnswer ? own : report(cut)
    }

    /// The report about one error.
    func report(_ error: any Error) -> FailureReport {
        // First of all: a predicate accepts an error whatever a classifier says of it.
        let isRefused = giveUp.contains { $0(error) } || !isListed(error)
        var report = opinion(error) ?? systemReport(error) ?? FailureReport(.unclassified)
        if isRefused { report.mayRetry = false }
        return report
    }

    /// The limits of the policy itself are no errors of the operation's, which such a list is about.
    private func isListed(_ error: any Error) -> Bool {
        retry.isEmpty || (error as? RetryError)?.isCut == true || retry.contains { $0(error) }
    }

    private func opinion(_ error: any Error) -> FailureReport? {
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

/// An attempt's failure as its error tells it, before the state of the network is looked at.
package struct FailureReport: Hashable, Sendable {
    package enum Evidence: Hashable, Sendable {
        /// The caller's own judgement.
        case classified(AttemptFailure.Fault)
        /// The system says that there is no network.
        case unreachable
        /// No answer came, as while a network comes up, and as when the other side is gone.
        case unanswered
        /// No answer came, after a long time.
        case timedOut
        /// No name server answered.
        case nameless
        /// The other side refused the connection.
        case refused
        /// There was no address or port to send from: none left, or the network changed.
        case addressless
        /// This machine ran out of something.
        case shortage
        /// Any other error.
        case unclassified

        /// If true, the caller knows that the server answered: no loss of the network overrules that.
        var isAnswer: Bool {
            switch self {
            case .classified(.server), .classified(.overload), .classified(.request): true
            default: false
            }
        }
    }

    package var evidence: Evidence
    package var mayRetry: Bool

    package init(_ evidence: Evidence, mayRetry: Bool = true) {
        self.evidence = evidence
        self.mayRetry = mayRetry && evidence != .classified(.request)
    }

    package init(_ failure: AttemptFailure) { self.init(.classified(failure.fault), mayRetry: failure.mayRetry) }

    /// Makes a report of an error number of the system: `errno` (errno(3)), or negative one of getaddrinfo(3).
    ///
    /// The numbers are those of asm-generic/errno.h and of glibc's netdb.h; this file knows no C library.
    package init(systemError number: Int32, mayRetry: Bool = true) {
        let evidence: Evidence =
            switch number {
            // ENETDOWN, ENETUNREACH.
            case 100, 101: .unreachable
            // EHOSTUNREACH.
            case 113: .unanswered
            // EAI_AGAIN.
            case -3: .nameless
            // EADDRNOTAVAIL.
            case 99: .addressless
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
}
