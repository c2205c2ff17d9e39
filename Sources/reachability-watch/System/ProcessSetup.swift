import Glibc

/// What a process must be before it opens its first file or starts its first thread.
enum ProcessSetup {
    /// Prepares descriptors and signals.
    static func perform() {
        occupyStandardDescriptors()
        // A closed pipe is then an error of write(2), which is dealt with.
        signal(SIGPIPE, SIG_IGN)
        // A file that may not grow (RLIMIT_FSIZE) is then an error of write(2), too: EFBIG.
        signal(SIGXFSZ, SIG_IGN)
        raiseFileLimit()
        endAtOnce(on: SIGINT)
        endAtOnce(on: SIGTERM)
        // Swift's runtime would print a backtrace first (SWIFT_BACKTRACE).
        if !isIgnored(SIGQUIT) { signal(SIGQUIT, SIG_DFL) }
        unblock(SIGQUIT)
    }

    /// The limit of open files that this program was started with, and starts others with.
    static let inheritedFileLimit = fileLimit()

    /// Raises the soft limit of open files to the hard one: the soft one protects programs that use select(2) (getrlimit(2)).
    private static func raiseFileLimit() {
        var limit = inheritedFileLimit
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private static func fileLimit() -> rlimit {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return limit
    }

    /// Whether a signal is ignored, as nohup(1) and shells want it for what they start.
    static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        // SIG_IGN, which is no constant that Swift could compare a handler with.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    /// Ends with 128 + signal, unless whoever started this program wants it to ignore the signal.
    ///
    /// `_exit` is async-signal-safe (signal-safety(7)), and nothing is buffered that it could lose.
    private static func endAtOnce(on number: Int32) {
        guard !isIgnored(number) else { return }
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _exit(128 + $0) }
        sigaction(number, &action, nil)
        unblock(number)
    }

    private static func unblock(_ number: Int32) {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, number)
        sigprocmask(SIG_UNBLOCK, &set, nil)
    }

    /// A netlink socket that got the number of a closed standard output would receive the lines.
    ///
    /// Opened for reading only, so that writing to a closed output stays an error.
    private static func occupyStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", O_RDONLY)
        }
    }
}
