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
