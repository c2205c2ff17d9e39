internal import Glibc

/// A failure of the monitor or of its source.
public struct ReachabilityError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sort of failure.
    ///
    /// More may be added.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a code from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Netlink is not available: a sandbox forbids it, or the kernel lacks it.
        public static let netlinkUnavailable = Code(rawValue: "netlinkUnavailable")
        /// The kernel or a sandbox refuses to announce changes; lookups may still work.
        public static let eventsUnavailable = Code(rawValue: "eventsUnavailable")
        /// The operation needs a privilege that this process lacks.
        public static let permissionDenied = Code(rawValue: "permissionDenied")
        /// The network namespace does not exist or cannot be entered.
        public static let namespaceUnavailable = Code(rawValue: "namespaceUnavailable")
        /// The process or the machine has no descriptor, thread or memory left.
        public static let resourcesExhausted = Code(rawValue: "resourcesExhausted")
        /// The socket to take over is no rtnetlink socket with a port, or belongs to another network namespace.
        public static let invalidSocket = Code(rawValue: "invalidSocket")
        /// The kernel refused or did not answer a request.
        public static let requestFailed = Code(rawValue: "requestFailed")
        /// A dump changed while it was made, or another one was under way (NLM_F_DUMP_INTR, EBUSY): repeat it.
        public static let interrupted = Code(rawValue: "interrupted")
        /// `run()` was called a second time.
        public static let alreadyRun = Code(rawValue: "alreadyRun")
        /// The monitor or condition ended before the awaited change.
        public static let ended = Code(rawValue: "ended")
        /// A file cannot be opened, read or written.
        public static let fileFailed = Code(rawValue: "fileFailed")
        /// The file is not a recording, or one of a later version.
        public static let invalidRecording = Code(rawValue: "invalidRecording")
        /// The recording has no answer to the request.
        public static let notRecorded = Code(rawValue: "notRecorded")
        /// The monitor has no validator.
        public static let noValidator = Code(rawValue: "noValidator")
        /// The scope is not satisfied.
        public static let unsatisfied = Code(rawValue: "unsatisfied")
    }

    /// The sort of failure.
    public var code: Code
    /// The kernel's error number (errno(3)), or 0 if there is none.
    public var errno: Int32
    /// The operation that failed, such as `socket(AF_NETLINK)`.
    public var operation: String

    /// Makes an error.
    public init(_ code: Code, errno: Int32 = 0, operation: String) {
        self.code = code
        self.errno = errno
        self.operation = operation
    }

    /// The operation, the cause and the remedy.
    public var description: String {
        let cause = errno == 0 ? "" : ": \(String(cString: strerror(errno))) (errno \(errno))"
        return "\(operation) failed\(cause)\(advice.map { "; next: \($0)" } ?? "")"
    }

    /// The remedy; `nil` for codes of other sources.
    private var advice: String? {
        switch code {
        case .netlinkUnavailable:
            "allow AF_NETLINK in the sandbox (systemd: RestrictAddressFamilies=AF_NETLINK; containers: the seccomp profile)"
        case .eventsUnavailable:
            "allow netlink's multicast groups in the sandbox; until then changes are found by lookups at intervals"
        case .permissionDenied: "run it as root or with CAP_SYS_ADMIN"
        case .namespaceUnavailable: "choose a namespace from `ip netns list`"
        case .resourcesExhausted: "close other files and programs, or raise the limits (ulimit -n, ulimit -u)"
        case .invalidSocket: "pass a socket of ListenNetlink=route (systemd.socket(5)) from the same network namespace"
        case .requestFailed: "wait, as it is retried; if this persists, report it with the kernel's version (uname -r)"
        case .interrupted: "wait, as it is retried"
        case .alreadyRun: "create another one, as each runs once"
        case .ended: "create and run a new monitor"
        case .fileFailed: "check the path, its permissions, and the free space on the disk"
        case .invalidRecording: "use a file from `reachability-watch record` of this version or an older one, or from rtmon(8)"
        case .notRecorded: "ask only what was asked during the recording, or record again"
        case .noValidator: "set a validator in the monitor's configuration"
        case .unsatisfied: "wait until the scope is satisfied"
        default: nil
        }
    }
}
