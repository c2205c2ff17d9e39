package import Reachability

/// The exit status of this program.
///
/// The numbers are stable: docs/exit-codes.md.
package enum ExitStatus: Int32 {
    /// Yes: satisfied, or done.
    case yes = 0
    /// No, or the time ran out.
    case no = 1
    /// Unknown: the network cannot be observed.
    case unknown = 2
    /// Wrong command line (EX_USAGE, sysexits.h).
    case usage = 64
    /// Wrong input (EX_DATAERR).
    case invalidData = 65
    /// Unreadable input (EX_NOINPUT).
    case noInput = 66
    /// Netlink is not available (EX_UNAVAILABLE).
    case unavailable = 69
    /// The output file cannot be created (EX_CANTCREAT).
    case cannotCreate = 73
    /// The output cannot be written (EX_IOERR).
    case outputFailed = 74
    /// A privilege is missing (EX_NOPERM).
    case notPermitted = 77

    /// Returns the status for an error.
    package init(_ error: ReachabilityError) {
        switch error.code {
        case .netlinkUnavailable: self = .unavailable
        case .permissionDenied: self = .notPermitted
        case .namespaceUnavailable: self = .usage
        case .invalidRecording: self = .invalidData
        case .fileFailed: self = .noInput
        default: self = .unknown
        }
    }

    /// Returns the status for verdicts: a single "no" makes "no".
    package init(_ paths: some Sequence<NetworkPath>) {
        let statuses = Set(paths.map(\.status))
        if statuses.contains(.unsatisfied) {
            self = .no
        } else {
            self = statuses.contains(.unknown) ? .unknown : .yes
        }
    }
}
