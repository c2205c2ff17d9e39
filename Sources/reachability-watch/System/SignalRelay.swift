import Glibc
import Reachability
import Synchronization

/// Passes the signals that would end this program on to the command that it runs.
///
/// A handler writes them to a pipe, from which the main thread takes them. Without a command that runs they end this program, as
/// ever. What was ignored when this program was started (nohup(1)) stays ignored.
///
/// sigwaitinfo(2) would not do: swift-subprocess has a thread that waits with an empty mask, to which the kernel delivers what it
/// cannot deliver to the main thread at once.
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
        var arrived: [SignalPipe.Arrival] = []
    }

    private let guarded = Mutex(Guarded())
    private let inbox: SignalPipe

    /// Prepares to take the signals; to be called before there is a second thread.
    init() throws(ReachabilityError) {
        inbox = try SignalPipe(Self.signals.filter { !ProcessSetup.isIgnored($0) })
    }

    /// Takes signals as they arrive; to be called by the main thread.
    func relay() -> Never {
        inbox.unblock()
        while true {
            inbox.wait()
            guarded.withLock { takeAll(&$0) }
        }
    }

    /// A command is about to be started.
    func willStart() { guarded.withLock { $0 = Guarded(child: .starting) } }

    /// The command runs.
    func didStart(_ pid: pid_t, hasOwnGroup: Bool) {
        guarded.withLock { guarded in
            guarded.child = .running(pid, hasOwnGroup: hasOwnGroup)
            for arrival in guarded.arrived { Self.send(arrival, pid, hasOwnGroup) }
        }
    }

    /// The command has ended.
    ///
    /// Returns whether this program was told to end meanwhile.
    func didEnd() -> Bool {
        guarded.withLock { guarded in
            // A terminal tells the command and this program at the same time: what ended the command may wait to be taken.
            takeAll(&guarded)
            guarded.child = .none
            return !guarded.arrived.isEmpty
        }
    }

    private func takeAll(_ guarded: inout Guarded) {
        while let arrival = inbox.next() {
            switch guarded.child {
            case .none:
                // Nothing is buffered that could be lost.
                _exit(128 + arrival.signal)
            case .starting:
                guarded.arrived.append(arrival)
            case .running(let pid, let hasOwnGroup):
                guarded.arrived.append(arrival)
                Self.send(arrival, pid, hasOwnGroup)
            }
        }
    }

    /// The command may have ended just before ``didEnd()`` takes the lock: the kernel does not use its number again that soon.
    private static func send(_ arrival: SignalPipe.Arrival, _ pid: pid_t, _ hasOwnGroup: Bool) {
        // The terminal sends to its whole foreground group: a command in this program's group has the signal already.
        if arrival.isFromTerminal, !hasOwnGroup { return }
        kill(hasOwnGroup ? -pid : pid, arrival.signal)
        // A stopped process takes a signal only when it goes on.
        if hasOwnGroup { kill(-pid, SIGCONT) }
    }
}
