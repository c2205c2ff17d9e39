import Glibc
import Synchronization

/// SIGHUP, SIGINT and SIGTERM, held back until the main thread takes them.
///
/// Signals inherited as ignored, as under nohup(1) or in a shell's background, stay ignored. Create it before any other thread:
/// later threads inherit the blocked signals.
package struct HeldSignals {
    private static let endings = [SIGHUP, SIGINT, SIGTERM]
    private static let received = Atomic<Int32>(0)
    private let others: [Int32]
    private var set = sigset_t()

    /// Blocks the signals.
    ///
    /// - Parameter others: Further signals to take, which do not end the process. SIGHUP may be one of them: it then ends the
    ///   process only if its terminal is gone.
    package init(alsoTaking others: [Int32] = []) {
        self.others = others
        set = Self.set(Self.endings + others)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// The last signal taken that ends the process.
    package static var last: Int32? {
        let number = received.load(ordering: .acquiring)
        return number == 0 ? nil : number
    }

    /// Waits for a signal (sigwait(3)).
    package func next() -> Int32 {
        var set = set
        var number: Int32 = 0
        while sigwait(&set, &number) != 0 {}
        if !others.contains(number) || number == SIGHUP && Self.hasLostTerminal {
            Self.received.store(number, ordering: .releasing)
        }
        return number
    }

    /// Waits for a second signal to end: its sender is in a hurry.
    package func waitForAnother(atMost limit: Duration) {
        var set = Self.set(Self.endings)
        let (seconds, attoseconds) = limit.components
        var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        // EINTR ends the wait as well: a process that was stopped and continued has waited long enough.
        _ = sigtimedwait(&set, nil, &time)
    }

    /// Stops this process like an untaken SIGTSTP (Ctrl-Z); returns once it is continued.
    ///
    /// Call it after a SIGTSTP was taken. The ``StatusLine`` is not in the shell's way, and the shell sees a stop by that signal.
    package static func stop() {
        StatusLine.hide()
        defer { StatusLine.restore() }
        var set = Self.set([SIGTSTP])
        // Sent to this thread: no other one can take it before it is unblocked here.
        pthread_kill(pthread_self(), SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals where !ProcessSetup.isIgnored(signal) { sigaddset(&set, signal) }
        return set
    }

    /// True if a standard descriptor is a terminal after its hangup (tty_io.c, hung_up_tty_ioctl).
    private static var hasLostTerminal: Bool {
        (STDIN_FILENO...STDERR_FILENO).contains { isatty($0) == 0 && errno == EIO }
    }
}
