import Glibc

/// What this program needs from the system before it can do anything else.
enum StartConditions {
    /// The number of descriptors that have to be free.
    ///
    /// `run` has 16 at once, the other commands up to 11, four of them libdispatch's. Some must be left over: while work is waiting
    /// libdispatch looks into /proc/self/task every second, and traps if it cannot (_dispatch_workq_monitor_pools).
    static let neededDescriptors = 20

    /// O_PATH of asm-generic/fcntl.h, which Swift's view of glibc lacks.
    private static let pathOnly: Int32 = 0o10_000_000

    /// Ends the process with a message if something is missing.
    static func check() {
        if let (message, status) = complaint(hasProc: hasProc, descriptors: freeDescriptors()) {
            DescriptorOutput.complain(message)
            exit(status.rawValue)
        }
    }

    /// Returns the message about a missing condition and the status to end with; `nil` if nothing is missing.
    ///
    /// - Parameters:
    ///   - hasProc: whether /proc shows this process.
    ///   - descriptors: how many descriptors could be opened, and the error that stopped that, if one did.
    static func complaint(hasProc: Bool, descriptors: (free: Int, errno: Int32?)) -> (String, ExitStatus)? {
        guard hasProc else {
            // Swift's CommandLine reads /proc/self/cmdline, and libdispatch /proc/self/task.
            return (
                "/proc is not mounted, or is that of another PID namespace: the command line cannot be read. "
                    + "next: mount -t proc proc /proc", .unavailable
            )
        }
        guard let error = descriptors.errno else { return nil }
        let count = descriptors.free == 1 ? "1 file descriptor is" : "\(descriptors.free) file descriptors are"
        let remedy =
            switch error {
            case EMFILE: "raise the limit, e.g. `ulimit -n 64`"
            case ENFILE: "raise the machine's limit, e.g. `sysctl fs.file-max`, or end programs with many open files"
            default: "make room (\(errorText(error)))"
            }
        return ("only \(count) free, and \(neededDescriptors) are needed; next: \(remedy)", .unknown)
    }

    /// Whether /proc shows this process: it is missing, or of another PID namespace, in some containers and chroots.
    private static var hasProc: Bool {
        access("/proc/self/cmdline", R_OK) == 0 && access("/proc/self/task", R_OK | X_OK) == 0
    }

    /// Opens as many descriptors as are needed, and closes them again.
    private static func freeDescriptors() -> (free: Int, errno: Int32?) {
        var descriptors: [Int32] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        while descriptors.count < neededDescriptors {
            // The root is always there, and O_PATH needs no permission (open(2)).
            let descriptor = open("/", pathOnly | O_CLOEXEC)
            guard descriptor >= 0 else { return (descriptors.count, errno) }
            descriptors.append(descriptor)
        }
        return (descriptors.count, nil)
    }

    /// Has libdispatch open its descriptors while there are some.
    ///
    /// It opens one for each clock when the first timer of that clock is set. It has threads: not before setns(2).
    static func openTimers() async {
        async let continuous: ()? = try? ContinuousClock().sleep(for: .milliseconds(1))
        async let suspending: ()? = try? SuspendingClock().sleep(for: .milliseconds(1))
        _ = await (continuous, suspending)
    }
}

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
