package import Glibc

/// The requirements that are checked before anything else.
package enum StartConditions {
    /// The number of free descriptors that every command needs.
    ///
    /// `run` opens up to 16, the other commands 11, four of them libdispatch's. The rest is a reserve: with work waiting,
    /// libdispatch opens /proc/self/task every second and traps if it cannot (_dispatch_workq_monitor_pools).
    package static let neededDescriptors = 20

    /// O_PATH of asm-generic/fcntl.h, which Swift cannot import.
    private static let pathOnly: Int32 = 0o10_000_000

    /// Ends the process with a message if a requirement is missing.
    package static func check() {
        if let (message, status) = problem(hasProc: hasProc, descriptors: freeDescriptors()) {
            DescriptorOutput.printMessage(message)
            exit(status.rawValue)
        }
    }

    /// Returns the message about a missing requirement and the exit status; `nil` if nothing is missing.
    ///
    /// - Parameters:
    ///   - hasProc: `true` if /proc shows this process.
    ///   - descriptors: The number of descriptors that could be opened, and the error of the next one.
    package static func problem(hasProc: Bool, descriptors: (free: Int, errno: Int32?)) -> (String, ExitStatus)? {
        guard hasProc else {
            // Swift's CommandLine reads /proc/self/cmdline, and libdispatch /proc/self/task.
            return (
                "/proc is not mounted, or belongs to another PID namespace, so that the command line cannot be read; "
                    + "next: mount -t proc proc /proc", .unavailable
            )
        }
        guard let error = descriptors.errno else { return nil }
        let count = descriptors.free == 1 ? "1 file descriptor is" : "\(descriptors.free) file descriptors are"
        let remedy =
            switch error {
            case EMFILE: "raise the limit, e.g. `ulimit -n 64`"
            case ENFILE: "raise the machine's limit, e.g. `sysctl fs.file-max`, or end programs with many open files"
            default: "free resources (\(errorText(error)))"
            }
        return ("only \(count) free, and \(neededDescriptors) are needed; next: \(remedy)", .unknown)
    }

    /// `true` if /proc shows this process; in some containers and chroots it is missing or of another PID namespace.
    private static var hasProc: Bool {
        access("/proc/self/cmdline", R_OK) == 0 && access("/proc/self/task", R_OK | X_OK) == 0
    }

    /// Returns the number of descriptors that can be opened, up to the needed ones; closes them again.
    private static func freeDescriptors() -> (free: Int, errno: Int32?) {
        var descriptors: [Int32] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        while descriptors.count < neededDescriptors {
            // The root always exists, and O_PATH needs no permission (open(2)).
            let descriptor = open("/", pathOnly | O_CLOEXEC)
            guard descriptor >= 0 else { return (descriptors.count, errno) }
            descriptors.append(descriptor)
        }
        return (descriptors.count, nil)
    }

    /// Makes libdispatch open its descriptors while some are free.
    ///
    /// It opens one for each clock at the clock's first timer. This starts threads: call it after setns(2).
    package static func openTimers() async {
        async let continuous: ()? = try? ContinuousClock().sleep(for: .milliseconds(1))
        async let suspending: ()? = try? SuspendingClock().sleep(for: .milliseconds(1))
        _ = await (continuous, suspending)
    }
}

/// The state of a fresh process: descriptors, signals and limits.
package enum ProcessSetup {
    /// Prepares descriptors, signals and limits; call it before the first file is opened and the first thread is started.
    package static func perform() {
        occupyStandardDescriptors()
        // Writing to a closed pipe then fails with EPIPE.
        signal(SIGPIPE, SIG_IGN)
        // Writing beyond RLIMIT_FSIZE then fails with EFBIG.
        signal(SIGXFSZ, SIG_IGN)
        raiseFileLimit()
        endAtOnce(on: SIGINT)
        endAtOnce(on: SIGTERM)
        // Swift's runtime would print a backtrace first (SWIFT_BACKTRACE).
        if !isIgnored(SIGQUIT) { signal(SIGQUIT, SIG_DFL) }
        unblock(SIGQUIT)
    }

    /// The inherited limit of open files, which child processes get as well.
    package static let inheritedFileLimit = fileLimit()

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

    /// Returns `true` if a signal is ignored, as nohup(1) and shells arrange for their children.
    package static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        // SIG_IGN is no constant that Swift can compare a handler with.
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    /// Ends the process with 128 + signal, unless the signal is inherited as ignored.
    ///
    /// `_exit` is async-signal-safe (signal-safety(7)), and there is no buffered output to lose.
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

    /// Opens /dev/null for closed standard descriptors: otherwise a netlink socket would get the number of standard output.
    ///
    /// Read-only, so that writing to a closed output stays an error.
    private static func occupyStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", O_RDONLY)
        }
    }
}
