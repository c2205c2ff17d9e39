import Glibc
import Synchronization

/// Passes the signals that would end this program on to the command that it runs.
///
/// They are blocked before there is a second thread, and the main thread takes them (sigwaitinfo(2)). Without a command that runs
/// they end this program, as ever.
final class SignalRelay: Sendable {
    /// The signals that people and init systems end programs with.
    static let signals: [Int32] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM]

    private enum Child {
        case none
        /// It is being started, and cannot be reached yet.
        case starting
        case running(pid_t, hasOwnGroup: Bool)
    }

    private struct Guarded {
        var child = Child.none
        /// What arrived since the command was started.
        var arrived: [(signal: Int32, isFromTerminal: Bool)] = []
    }

    private let guarded = Mutex(Guarded())

    /// Blocks the signals in this thread and in those that it will start.
    func block() {
        var set = Self.set
        sigprocmask(SIG_BLOCK, &set, nil)
    }

    /// Takes signals as they arrive.
    func relay() -> Never {
        var set = Self.set
        while true {
            var information = siginfo_t()
            let signal = sigwaitinfo(&set, &information)
            if signal > 0 { take(signal, isFromTerminal: information.si_code == Self.sentByKernel) }
        }
    }

    /// A command is about to be started.
    func willStart() { guarded.withLock { $0 = Guarded(child: .starting) } }

    /// The command runs.
    func didStart(_ pid: pid_t, hasOwnGroup: Bool) {
        guarded.withLock { guarded in
            guarded.child = .running(pid, hasOwnGroup: hasOwnGroup)
            for (signal, isFromTerminal) in guarded.arrived { Self.send(signal, isFromTerminal, pid, hasOwnGroup) }
        }
    }

    /// The command has ended.
    ///
    /// Returns whether this program was told to end meanwhile.
    func didEnd() -> Bool {
        guarded.withLock { guarded in
            guarded.child = .none
            return !guarded.arrived.isEmpty
        }
    }

    private func take(_ signal: Int32, isFromTerminal: Bool) {
        guarded.withLock { guarded in
            switch guarded.child {
            case .none:
                // Nothing is buffered that could be lost.
                _exit(128 + signal)
            case .starting:
                guarded.arrived.append((signal, isFromTerminal))
            case .running(let pid, let hasOwnGroup):
                guarded.arrived.append((signal, isFromTerminal))
                Self.send(signal, isFromTerminal, pid, hasOwnGroup)
            }
        }
    }

    /// Under the lock, so that the command has not ended for this program: its number is still its own.
    private static func send(_ signal: Int32, _ isFromTerminal: Bool, _ pid: pid_t, _ hasOwnGroup: Bool) {
        // The terminal sends to its whole foreground group: a command in this program's group has the signal already.
        if isFromTerminal, !hasOwnGroup { return }
        kill(hasOwnGroup ? -pid : pid, signal)
    }

    /// SI_KERNEL of asm-generic/siginfo.h: what a terminal sends comes from the kernel.
    private static let sentByKernel: Int32 = 0x80

    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        return set
    }
}
