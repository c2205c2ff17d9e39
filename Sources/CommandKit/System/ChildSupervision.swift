package import Glibc

/// The end of a command.
package struct ChildEnd: Hashable {
    package enum Status: Hashable {
        case exited(Int32)
        case signaled(Int32)

        /// The exit code: a shell shows the same one.
        var code: Int32 {
            switch self {
            case .exited(let code): code
            case .signaled(let signal): 128 + signal
            }
        }
    }

    /// The reason for which this program ends a command.
    package enum Interruption: Hashable, Codable {
        /// A time limit passed.
        case timeLimit
        /// This program got SIGHUP, SIGINT or SIGTERM: no further attempt follows. Prevails over a time limit.
        case signal
    }

    package var status: Status
    /// The reason for which this program ended the command; `nil` if it ended by itself.
    package var interruption: Interruption?
}

/// The state machine of one command: signals for it and its descendants, and its end.
///
/// A limit or a signal ends an attempt with all its descendants: SIGTERM, and SIGKILL five seconds later. A command that exits
/// by itself leaves its background processes running, as under a shell.
///
/// On a terminal the command is in this program's process group: the terminal sends Ctrl-C and Ctrl-Z to both.
package struct ChildSupervision {
    package enum Effect: Hashable {
        /// Exit with a code.
        case exit(Int32)
        /// Send a signal to a process, and continue it if it is stopped.
        case send(Int32, to: pid_t)
        /// Send a signal to a process group, and continue its stopped processes.
        case sendToGroup(Int32, pid_t)
        /// Stop this program; once continued, continue the command.
        case stop(with: pid_t)
        /// Report the end of the attempt; the survivors could not be killed.
        case finish(ChildEnd, survivors: [pid_t])
    }

    /// The time between SIGTERM and SIGKILL.
    package static let graceBeforeKill = Duration.seconds(5)
    /// The time after which survivors of SIGKILL are left: processes of another user, or stuck in a driver.
    package static let patience = graceBeforeKill + .seconds(5)
    /// The time that a stop must last: Ctrl-Z stops this program as well, and `fg` continues both.
    package static let timeToStop = Duration.milliseconds(100)
    /// The time between two searches for orphans: the kernel does not announce adoptions.
    private static let interval = Duration.milliseconds(100)
    private static let intervalOfKilling = Duration.milliseconds(20)

    private struct Run {
        let pid: pid_t
        var status: ChildEnd.Status?
        var interruption: ChildEnd.Interruption?
        var stoppedAt: Duration?
    }

    private struct Ending {
        let signal: Int32
        let since: Duration
        /// The last signal sent to each process; `nil` before the first search.
        var sent: [ProcessEntry.Identity: Int32]?
    }

    private enum Phase {
        /// No command runs; a signal exits with the code, or without one with its own.
        case idle(code: Int32?)
        case running(Run)
        case ending(Run, Ending)
    }

    /// This program's process number.
    package let parent: pid_t
    /// The process group of all commands; `nil` if each has its own.
    package let sharedGroup: pid_t?
    private var phase = Phase.idle(code: nil)

    package init(parent: pid_t, sharedGroup: pid_t?) {
        self.parent = parent
        self.sharedGroup = sharedGroup
    }

    /// `true` if ``step(_:at:)`` needs the descendants.
    package var needsDescendants: Bool {
        switch phase {
        case .idle: false
        case .running(let run): run.status != nil && run.interruption == .signal
        case .ending: true
        }
    }

    /// Returns the latest time of the next ``step(_:at:)``; `nil` to wait for an event.
    package func nextStep(after now: Duration) -> Duration? {
        switch phase {
        case .idle: nil
        case .running(let run): run.stoppedAt.map { $0 + Self.timeToStop }
        case .ending(_, let ending):
            now < ending.since + Self.graceBeforeKill
                ? min(ending.since + Self.graceBeforeKill, now + Self.interval) : now + Self.intervalOfKilling
        }
    }

    /// Records the start of a command.
    package mutating func start(_ pid: pid_t) { phase = .running(Run(pid: pid)) }

    /// Handles SIGHUP, SIGINT or SIGTERM to this program.
    package mutating func take(_ signal: Int32, isFromTerminal: Bool, at now: Duration) -> [Effect] {
        // Ctrl-C reaches the whole foreground group, but a hangup only the session leader (tty_io.c, __tty_hangup).
        let wasSentToGroup = signal == SIGINT && isFromTerminal && sharedGroup != nil
        switch phase {
        case .idle(let code):
            return [.exit(code ?? 128 + signal)]
        case .running(var run):
            run.interruption = .signal
            phase = .running(run)
            return wasSentToGroup ? [] : end(run, signal, at: now)
        case .ending(var run, let ending):
            run.interruption = .signal
            phase = .ending(run, ending)
            guard !wasSentToGroup, run.status == nil else { return [] }
            return [sharedGroup == nil ? .sendToGroup(signal, run.pid) : .send(signal, to: run.pid)]
        }
    }

    /// Ends the attempt at a time limit.
    package mutating func cut(at now: Duration) -> [Effect] {
        switch phase {
        case .idle: return []
        case .running(var run):
            run.interruption = run.interruption ?? .timeLimit
            return end(run, SIGTERM, at: now)
        case .ending(var run, let ending):
            run.interruption = run.interruption ?? .timeLimit
            phase = .ending(run, ending)
            return []
        }
    }

    /// Records the end of a child: the command or an adopted orphan.
    package mutating func childEnded(_ pid: pid_t, _ status: ChildEnd.Status) { change(pid) { $0.status = status } }

    /// Records the stop of a child.
    package mutating func childStopped(_ pid: pid_t, at now: Duration) { change(pid) { $0.stoppedAt = now } }

    /// Records the continuation of a child.
    package mutating func childContinued(_ pid: pid_t) { change(pid) { $0.stoppedAt = nil } }

    /// Takes the steps that are due.
    ///
    /// - Parameter descendants: The living descendants; `nil` if unknown.
    package mutating func step(_ descendants: [ProcessEntry]?, at now: Duration) -> [Effect] {
        switch phase {
        case .idle:
            return []
        case .running(var run):
            if let status = run.status {
                // A pager, for example, handles Ctrl-C as a key and exits by itself.
                guard run.interruption == .signal, status != .exited(0) else { return finish(run, status) }
                return end(run, SIGTERM, at: now) + step(descendants, at: now)
            }
            guard let stoppedAt = run.stoppedAt, now >= stoppedAt + Self.timeToStop else { return [] }
            // This late, this program was stopped itself, and the command may be about to continue.
            let isLate = now >= stoppedAt + Self.timeToStop * 2
            run.stoppedAt = isLate ? now : nil
            phase = .running(run)
            return isLate || sharedGroup == nil ? [] : [.stop(with: run.pid)]
        case .ending(let run, var ending):
            if let status = run.status, descendants?.isEmpty != false { return finish(run, status) }
            if now >= ending.since + Self.patience {
                return finish(run, run.status ?? .signaled(SIGKILL), survivors: descendants?.map(\.pid) ?? [run.pid])
            }
            defer { phase = .ending(run, ending) }
            return now >= ending.since + Self.graceBeforeKill
                ? kill(run, descendants) : terminate(run, &ending, descendants ?? [])
        }
    }

    private mutating func change(_ pid: pid_t, _ body: (inout Run) -> Void) {
        switch phase {
        case .running(var run) where run.pid == pid:
            body(&run)
            phase = .running(run)
        case .ending(var run, let ending) where run.pid == pid:
            body(&run)
            phase = .ending(run, ending)
        default: break
        }
    }

    private mutating func end(_ run: Run, _ signal: Int32, at now: Duration) -> [Effect] {
        phase = .ending(run, Ending(signal: signal, since: now))
        guard run.status == nil else { return [] }
        // One call for the whole group: no fork escapes it. A shared group has other members, such as a pager.
        return [sharedGroup == nil ? .sendToGroup(signal, run.pid) : .send(signal, to: run.pid)]
    }

    private mutating func finish(_ run: Run, _ status: ChildEnd.Status, survivors: [pid_t] = []) -> [Effect] {
        // No attempt follows a signal: further ones, which may have come before the end, do not change the result.
        phase = .idle(code: run.interruption == .signal ? status.code : nil)
        return [.finish(ChildEnd(status: status, interruption: run.interruption), survivors: survivors)]
    }

    /// Sends SIGTERM once to each process.
    ///
    /// A later process may clean up for its parent's signal handler: it gets SIGTERM once it is an orphan.
    private func terminate(_ run: Run, _ ending: inout Ending, _ descendants: [ProcessEntry]) -> [Effect] {
        let isFirstSearch = ending.sent == nil
        var sent = ending.sent ?? [:]
        var effects: [Effect] = []
        for process in descendants {
            let isInGroup = process.group == sharedGroup ?? run.pid
            // Outside the group SIGHUP may mean "reload", and background jobs ignore SIGINT.
            let signal = isInGroup && run.status == nil ? ending.signal : SIGTERM
            let previous = sent[process.identity]
            let isNew = previous == nil && (isFirstSearch || process.parent == parent)
            guard isNew || previous != nil && previous != signal else { continue }
            sent[process.identity] = signal
            let hasIt = isFirstSearch && run.status == nil && (sharedGroup == nil ? isInGroup : process.pid == run.pid)
            if !hasIt { effects.append(.send(signal, to: process.pid)) }
        }
        ending.sent = sent
        return effects
    }

    private func kill(_ run: Run, _ descendants: [ProcessEntry]?) -> [Effect] {
        let isGroup = sharedGroup == nil && (run.status == nil || descendants?.contains { $0.group == run.pid } == true)
        let group: [Effect] = isGroup ? [.sendToGroup(SIGKILL, run.pid)] : []
        let unknown = descendants == nil && run.status == nil ? [run.pid] : []
        return group + (descendants?.map(\.pid) ?? unknown).map { .send(SIGKILL, to: $0) }
    }
}
