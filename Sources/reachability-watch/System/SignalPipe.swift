import Glibc
import Reachability
import Synchronization

/// Signals as bytes in a pipe, whichever thread the kernel delivers them to.
///
/// There is one in a process, and it stays.
struct SignalPipe: Sendable {
    /// A signal that arrived.
    struct Arrival: Hashable {
        var signal: Int32
        /// Whether a key was pressed: then the terminal has told all of its foreground group.
        var isFromTerminal: Bool
    }

    private let readEnd: Int32
    private let signals: [Int32]

    /// Where the handler writes to.
    private static let writeEnd = Atomic<Int32>(-1)
    /// SI_KERNEL of asm-generic/siginfo.h: what a terminal sends comes from the kernel.
    private static let sentByKernel: Int32 = 0x80

    /// Starts to catch the signals, and blocks them in this thread and in those that it will start.
    init(_ signals: [Int32]) throws(ReachabilityError) {
        self.signals = signals
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw ReachabilityError(.resourcesExhausted, errno: errno, operation: "pipe()") }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            // Neither a handler nor those who look what there is may wait.
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        readEnd = ends[0]
        Self.writeEnd.store(ends[1], ordering: .releasing)
        var set = Self.set(signals)
        sigprocmask(SIG_BLOCK, &set, nil)
        var action = sigaction()
        action.sa_flags = SA_SIGINFO | SA_RESTART
        action.__sigaction_handler.sa_sigaction = { signal, information, _ in
            SignalPipe.caught(signal, information?.pointee.si_code)
        }
        for signal in signals { sigaction(signal, &action, nil) }
    }

    /// Lets the calling thread, which should have nothing else to do, be interrupted by the signals.
    func unblock() {
        var set = Self.set(signals)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// Waits for a signal.
    func wait() {
        var request = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
        _ = poll(&request, 1, -1)
    }

    /// The next signal that arrived; `nil` if there is none.
    func next() -> Arrival? {
        var bytes: (UInt8, UInt8) = (0, 0)
        let count = withUnsafeMutableBytes(of: &bytes) { read(readEnd, $0.baseAddress, $0.count) }
        if count == 2 { return Arrival(signal: Int32(bytes.0), isFromTerminal: bytes.1 == 1) }
        // It is on its way to a thread that has not had its turn.
        var set = Self.set(signals)
        var information = siginfo_t()
        var atOnce = timespec()
        let signal = sigtimedwait(&set, &information, &atOnce)
        guard signal > 0 else { return nil }
        return Arrival(signal: signal, isFromTerminal: information.si_code == Self.sentByKernel)
    }

    /// In a handler only what signal-safety(7) lists is allowed.
    private static func caught(_ signal: Int32, _ code: Int32?) {
        let before = errno
        var bytes: (UInt8, UInt8) = (UInt8(truncatingIfNeeded: signal), code == sentByKernel ? 1 : 0)
        // Two bytes are written whole or not at all (pipe(7)); a full pipe has told enough.
        _ = withUnsafeBytes(of: &bytes) { write(writeEnd.load(ordering: .acquiring), $0.baseAddress, $0.count) }
        errno = before
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        return set
    }
}
