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
