/// What is known about a failure without knowing the network.
package enum FailureReport: Hashable, Sendable {
    /// The caller said so.
    case classified(FailureClass)
    /// Nobody was reached: the system says that there is no network.
    case unreachable
    /// Nobody was reached, as happens while a network comes up, and as happens when the other side is gone.
    case unanswered
    /// The same, after a long time.
    case timedOut
    /// Somebody was reached, and refused.
    case refused
    /// Any other error.
    case unclassified

    /// What a number of the system means: `errno` (errno(3)), or negative one of getaddrinfo(3).
    ///
    /// The numbers are those of asm-generic/errno.h and of glibc's netdb.h; this file knows no C library.
    package init(systemError number: Int32) {
        switch number {
        // ENETDOWN, ENETUNREACH.
        case 100, 101: self = .unreachable
        // EHOSTUNREACH, EADDRNOTAVAIL; EAI_AGAIN.
        case 113, 99, -3: self = .unanswered
        // ETIMEDOUT.
        case 110: self = .timedOut
        // ECONNREFUSED.
        case 111: self = .refused
        default: self = .unclassified
        }
    }
}
