import Reachability

/// How the program ends.
///
/// The numbers are a promise: docs/exit-codes.md.
enum ExitStatus: Int32 {
    /// Yes: satisfied, or done what was asked.
    case yes = 0
    /// No, or the time ran out.
    case no = 1
    /// Not known: nothing can be seen of the network.
    case unknown = 2
    /// The command line is wrong (EX_USAGE, sysexits.h).
    case usage = 64
    /// The input is not what it should be (EX_DATAERR).
    case invalidData = 65
    /// The input cannot be read (EX_NOINPUT).
    case noInput = 66
    /// Netlink is not available (EX_UNAVAILABLE).
    case unavailable = 69
    /// The output file cannot be made (EX_CANTCREAT).
    case cannotCreate = 73
    /// The output could not be written (EX_IOERR).
    case outputFailed = 74
    /// A privilege is lacking (EX_NOPERM).
    case notPermitted = 77

    /// The status that tells of an error.
    init(_ error: ReachabilityError) {
        switch error.code {
        case .netlinkUnavailable: self = .unavailable
        case .permissionDenied: self = .notPermitted
        case .namespaceUnavailable: self = .usage
        case .invalidRecording: self = .invalidData
        case .fileFailed: self = .noInput
        default: self = .unknown
        }
    }

    /// The status that tells of verdicts: one "no" is enough for "no".
    init(_ paths: some Sequence<NetworkPath>) {
        let statuses = Set(paths.map(\.status))
        if statuses.contains(.unsatisfied) {
            self = .no
        } else {
            self = statuses.contains(.unknown) ? .unknown : .yes
        }
    }
}
