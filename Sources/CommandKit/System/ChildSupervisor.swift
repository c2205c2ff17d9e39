import CProcess
import Glibc
package import Reachability
import Synchronization

/// Starts commands, waits for their ends and handles this program's signals, all on the main thread.
///
/// Or on a thread of its own, which leaves the signals to the program. It waits for every child of the process in any case.
///
/// Adopts orphaned descendants (PR_SET_CHILD_SUBREAPER), so that none escapes by a double fork or a session of its own.
/// ``ChildSupervision`` decides.
package final class ChildSupervisor: Sendable {
    /// The result of a command.
    package enum Outcome: Hashable, Sendable {
        case ended(ChildEnd)
        /// The command did not start: the error number, and the index of the failed file.
        case failed(errno: Int32, file: Int?)
    }

    private struct Request: Sendable {
        let number: Int
        let command: ProcessStart
        let continuation: CheckedContinuation<Outcome, Never>
    }

    private struct State {
        var lastNumber = 0
        var request: Request?
        /// The number of the last cancelled request.
        var cut = 0
        /// The signal that ends this program, and the time that it has.
        var end: (signal: Int32, limit: Duration)?
        /// The processes that belong to no running command, with their descendants.
        var others: Set<ProcessEntry.Identity>
        /// The thread that supervises.
        var thread: pthread_t
    }

    private let leavesSignals: Bool
    /// The signals that end programs, except those inherited as ignored (nohup(1)); empty if the program keeps them.
    private let signals: [Int32]
    /// SIGTSTP, if a ``StatusLine`` may have to go before a stop.
    private let stops: [Int32]
    private let sharesTerminal: Bool
    private let say: @Sendable (String) -> Void
    // The children from before this program's execve(2) belong to no attempt.
    private let state = Mutex(State(others: ChildSupervisor.descendants, thread: pthread_self()))
    /// SI_KERNEL of asm-generic/siginfo.h, the origin of a terminal's signals.
    private static let sentByKernel: Int32 = 0x80

    /// Takes over the signals; call it on the main thread before any other thread exists.
    ///
    /// - Parameters:
    ///   - leavesSignals: True to take only SIGCHLD. Then each command has a process group of its own, and the end of one spares
    ///     the processes that earlier ones left running.
    ///   - say: Takes messages for people.
    package init(leavesSignals: Bool = false, say: @escaping @Sendable (String) -> Void) throws(ReachabilityError) {
        (self.leavesSignals, self.say) = (leavesSignals, say)
        signals = leavesSignals ? [] : [SIGHUP, SIGINT, SIGTERM].filter { !ProcessSetup.isIgnored($0) }
        stops = leavesSignals || !StatusLine.isAvailable || ProcessSetup.isIgnored(SIGTSTP) ? [] : [SIGTSTP]
        // Only processes with a controlling terminal have foreground groups, which alone may read from it (tty_ioctl(4)).
        let terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        sharesTerminal = terminal >= 0 && !leavesSignals
        if terminal >= 0 { close(terminal) }
        // While SIGCHLD is ignored, exit codes are lost (wait(2)).
        signal(SIGCHLD, SIG_DFL)
        // Blocked in all threads, the signals wait for the supervising one.
        var set = Self.set(signals + stops + [SIGCHLD])
        pthread_sigmask(SIG_BLOCK, &set, nil)
        let error = cprocess_become_subreaper()
        guard error == 0 else { throw ReachabilityError(.requestFailed, errno: -error, operation: "prctl(PR_SET_CHILD_SUBREAPER)") }
    }

    /// Runs a command until it ends; cancellation ends it and all its descendants.
    ///
    /// The ``StatusLine`` is hidden meanwhile: the terminal is the command's.
    package func run(_ command: ProcessStart) async -> Outcome {
        StatusLine.hide()
        defer { StatusLine.restore() }
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                state.withLock { $0.request = Request(number: number, command: command, continuation: continuation) }
                wakeUp()
            }
        } onCancel: {
            state.withLock { $0.cut = number }
            wakeUp()
        }
    }

    /// Ends the running command with all its descendants, starts no other one, and then ends this program.
    ///
    /// Only with `leavesSignals`.
    ///
    /// - Parameters:
    ///   - signal: The signal for the program's exit code.
    ///   - limit: The time that the program has to end by itself; after the command's end it has at least 50 ms.
    package func end(with signal: Int32, within limit: Duration) {
        state.withLock { $0.end = (signal, limit) }
        wakeUp()
    }

    /// Serves requests until this program ends; call it on the main thread, or with `leavesSignals` on a new one.
    package func supervise() -> Never {
        var set = Self.set([SIGCHLD])
        pthread_sigmask(SIG_BLOCK, &set, nil)
        state.withLock { $0.thread = pthread_self() }
        // A request may have come before.
        wakeUp()
        let start = ContinuousClock.now
        var supervision = ChildSupervision(parent: getpid(), sharedGroup: sharesTerminal ? getpgrp() : nil)
        var running: Request?
        var (asked, end): (Duration?, Duration?)
        while true {
            takeTurn(&supervision, &running, until: end, since: start)
            guard let (signal, limit) = state.withLock(\.end) else { continue }
            let now = ContinuousClock.now - start
            asked = asked ?? now
            guard running == nil else { continue }
            // Threads of the program may be blocked, for example by the reader of their output.
            if let end, now >= end {
                StatusLine.hide()
                _exit(128 + signal)
            }
            end = end ?? max(now + .milliseconds(50), (asked ?? now) + limit)
        }
    }

    /// Waits for a signal or the next step, then handles everything that happened.
    // Inlined into the endless loop, it hangs the optimizer of Swift 6.3.1 (LoopInvariantCodeMotion).
    @inline(never)
    private func takeTurn(
        _ supervision: inout ChildSupervision, _ running: inout Request?, until end: Duration?,
        since start: ContinuousClock.Instant
    ) {
        let wait = (supervision.nextStep(after: ContinuousClock.now - start) ?? end).map { $0 - (ContinuousClock.now - start) }
        let signal = nextSignal(signals + stops + [SIGCHLD], within: wait)
        if signal?.number == SIGTSTP { return HeldSignals.stop() }
        let now = ContinuousClock.now - start
        if let signal { take(signal, &supervision, &running, at: now) }
        takeRequest(&supervision, &running, at: now)
        reap(&supervision, at: now)
        // A terminal signals the command and this program together: its signal is pending by now.
        // SIGCHLD stays pending: it may announce an end after the check above.
        while let signal = nextSignal(signals, within: .zero) { take(signal, &supervision, &running, at: now) }
        let descendants = supervision.needsDescendants ? ProcessTable.descendants(excluding: state.withLock(\.others)) : nil
        // Those that ended since are adopted by now: an ended attempt leaves no zombie.
        if descendants?.isEmpty == true { reap(&supervision, at: now) }
        perform(supervision.step(descendants, at: now), &running)
    }

    private func takeRequest(_ supervision: inout ChildSupervision, _ running: inout Request?, at now: Duration) {
        let (request, cut, isEnding) = state.withLock { state in
            defer { state.request = nil }
            return (state.request, state.cut, state.end != nil)
        }
        if let request {
            if request.number == cut || isEnding {
                request.continuation.resume(returning: .ended(ChildEnd(status: .signaled(SIGTERM), interruption: .timeLimit)))
                return
            }
            if leavesSignals {
                let others = Self.descendants
                state.withLock { $0.others = others }
            }
            switch request.command.spawn(hasOwnGroup: !sharesTerminal) {
            case .success(let pid):
                supervision.start(pid)
                running = request
            case .failure(let error):
                request.continuation.resume(returning: .failed(errno: error.number, file: error.file))
            }
        }
        if let number = running?.number, number == cut || isEnding { perform(supervision.cut(at: now), &running) }
    }

    private func perform(_ effects: [ChildSupervision.Effect], _ running: inout Request?) {
        for effect in effects {
            switch effect {
            // There is no buffered output to lose.
            case .exit(let code):
                StatusLine.hide()
                _exit(code)
            // The process number is not reused before the process is reaped, except after a full cycle of numbers.
            case .send(let signal, let pid):
                kill(pid, signal)
                kill(pid, SIGCONT)
            case .sendToGroup(let signal, let group):
                kill(-group, signal)
                kill(-group, SIGCONT)
            case .stop(let pid):
                kill(getpid(), SIGSTOP)
                kill(pid, SIGCONT)
            case .finish(let end, let survivors):
                if !survivors.isEmpty {
                    let list = survivors.map(String.init).joined(separator: ",")
                    say("processes of the command cannot be killed and keep running; next: ps -o pid,stat,wchan,args -p \(list)")
                }
                running?.continuation.resume(returning: .ended(end))
                running = nil
            }
        }
    }

    /// Collects the exit codes of ended children, adopted ones included.
    private func reap(_ supervision: inout ChildSupervision, at now: Duration) {
        var status: Int32 = 0
        while case let pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED), pid > 0 {
            // The macros of wait(2), which Swift cannot import.
            if status == 0xffff {
                supervision.childContinued(pid)
            } else if status & 0xff == 0x7f {
                supervision.childStopped(pid, at: now)
            } else if status & 0x7f == 0 {
                supervision.childEnded(pid, .exited(status >> 8 & 0xff))
            } else {
                supervision.childEnded(pid, .signaled(status & 0x7f))
            }
        }
    }

    private func take(_ signal: Signal, _ supervision: inout ChildSupervision, _ running: inout Request?, at now: Duration) {
        // SIGCHLD only wakes this thread.
        guard signal.number != SIGCHLD else { return }
        perform(supervision.take(signal.number, isFromTerminal: signal.isFromTerminal, at: now), &running)
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in signals { sigaddset(&set, signal) }
        return set
    }

    private struct Signal {
        var number: Int32
        var isFromTerminal: Bool
    }

    /// Takes the next of the signals; `nil` once the limit has passed.
    private func nextSignal(_ signals: [Int32], within limit: Duration?) -> Signal? {
        var set = Self.set(signals)
        var information = siginfo_t()
        let number: Int32
        if let limit {
            var time = timespec()
            let (seconds, attoseconds) = max(limit, .zero).components
            time.tv_sec = Int(seconds)
            time.tv_nsec = Int(attoseconds / 1_000_000_000)
            number = sigtimedwait(&set, &information, &time)
        } else {
            number = sigwaitinfo(&set, &information)
        }
        return number > 0 ? Signal(number: number, isFromTerminal: information.si_code == Self.sentByKernel) : nil
    }

    /// Wakes the supervising thread.
    ///
    /// By a signal: a pipe would need descriptors, which may have run out.
    private func wakeUp() { pthread_kill(state.withLock(\.thread), SIGCHLD) }

    private static var descendants: Set<ProcessEntry.Identity> { Set((ProcessTable.descendants() ?? []).map(\.identity)) }
}
