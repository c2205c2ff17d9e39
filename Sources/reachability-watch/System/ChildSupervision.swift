import Glibc

/// How a command ended.
struct ChildEnd: Hashable {
    enum Status: Hashable {
        case exited(Int32)
        case signaled(Int32)
    }

    var status: Status
    /// Whether a signal told this program to end meanwhile.
    var wasToldToEnd = false
    /// Whether this program ended the command because its time was over.
    var wasCut = false
}

/// The state of one command: which signals it and its descendants get, and when it has ended.
///
/// A limit or a signal ends an attempt with all its descendants: SIGTERM, and SIGKILL five seconds later. A command that ends by
/// itself leaves its background processes running, as under a shell.
///
/// A command that shares the terminal with this program is in its process group: the terminal sends Ctrl-C and Ctrl-Z to both.
struct ChildSupervision {
    enum Effect: Hashable {
        /// End this program with a code.
        case exit(Int32)
        /// Send a signal to a process, and continue it if it is stopped.
        case send(Int32, to: pid_t)
        /// Send a signal to a process group, and continue its stopped processes.
        case sendToGroup(Int32, pid_t)
        /// Stop this program; continue the command when this program is continued.
        case stop(with: pid_t)
        /// Report the end of the attempt. The survivors could not be killed.
        case finish(ChildEnd, survivors: [pid_t])
    }

    /// The time between SIGTERM and SIGKILL.
    static let graceBeforeKill = Duration.seconds(5)
    /// The time until the attempt ends without processes that SIGKILL does not end: another user's, or one in a dead disk's driver.
    static let patience = graceBeforeKill + .seconds(5)
    /// The time that a stop of the command has to last: Ctrl-Z stops this program as well, and `fg` continues both.
    static let timeToStop = Duration.milliseconds(100)
    /// The time between two looks for new orphans: adopting one is not announced.
    private static let interval = Duration.milliseconds(100)
    private static let intervalOfKilling = Duration.milliseconds(20)

    private struct Run {
        let pid: pid_t
        var status: ChildEnd.Status?
        var wasToldToEnd = false
        var wasCut = false
        var stoppedAt: Duration?
    }

    private struct Ending {
        let signal: Int32
        let since: Duration
        /// The last signal sent to each process; `nil` before the first look.
        var told: [ProcessEntry.Identity: Int32]?
    }

    private enum Phase {
        case idle
        case running(Run)
        case ending(Run, Ending)
    }

    /// The number of this program.
    let parent: pid_t
    /// The process group that commands run in; `nil` if each has one of its own.
    let sharedGroup: pid_t?
    private var phase = Phase.idle

    init(parent: pid_t, sharedGroup: pid_t?) {
        self.parent = parent
        self.sharedGroup = sharedGroup
    }

    /// Whether ``step(_:at:)`` needs the descendants.
    var needsDescendants: Bool {
        switch phase {
        case .idle: false
        case .running(let run): run.status != nil && run.wasToldToEnd
        case .ending: true
        }
    }

    /// The latest time of the next call of ``step(_:at:)``; `nil` if only an event calls for one.
    func nextStep(after now: Duration) -> Duration? {
        switch phase {
        case .idle: nil
        case .running(let run): run.stoppedAt.map { $0 + Self.timeToStop }
        case .ending(_, let ending):
            now < ending.since + Self.graceBeforeKill
                ? min(ending.since + Self.graceBeforeKill, now + Self.interval) : now + Self.intervalOfKilling
        }
    }

    /// Notes that a command was started.
    mutating func start(_ pid: pid_t) { phase = .running(Run(pid: pid)) }

    /// Handles SIGHUP, SIGINT or SIGTERM to this program.
    mutating func take(_ signal: Int32, isFromTerminal: Bool, at now: Duration) -> [Effect] {
        // A terminal sends SIGINT to its foreground group, but SIGHUP to the leader of the session alone (tty_io.c, __tty_hangup).
        let wasSentToGroup = signal == SIGINT && isFromTerminal && sharedGroup != nil
        switch phase {
        case .idle:
            return [.exit(128 + signal)]
        case .running(var run):
            run.wasToldToEnd = true
            phase = .running(run)
            return wasSentToGroup ? [] : end(run, signal, at: now)
        case .ending(var run, let ending):
            run.wasToldToEnd = true
            phase = .ending(run, ending)
            guard !wasSentToGroup, run.status == nil else { return [] }
            return [sharedGroup == nil ? .sendToGroup(signal, run.pid) : .send(signal, to: run.pid)]
        }
    }

    /// Ends the attempt because its time is over.
    mutating func cut(at now: Duration) -> [Effect] {
        switch phase {
        case .idle: return []
        case .running(var run):
            run.wasCut = true
            return end(run, SIGTERM, at: now)
        case .ending(var run, let ending):
            run.wasCut = true
            phase = .ending(run, ending)
            return []
        }
    }

    /// Notes that a child has ended: the command, or an adopted orphan.
    mutating func childEnded(_ pid: pid_t, _ status: ChildEnd.Status) { change(pid) { $0.status = status } }

    /// Notes that a child was stopped.
    mutating func childStopped(_ pid: pid_t, at now: Duration) { change(pid) { $0.stoppedAt = now } }

    /// Notes that a child was continued.
    mutating func childContinued(_ pid: pid_t) { change(pid) { $0.stoppedAt = nil } }

    /// Takes the steps that are due.
    ///
    /// - Parameter descendants: the living descendants; `nil` if they are not known.
    mutating func step(_ descendants: [ProcessEntry]?, at now: Duration) -> [Effect] {
        switch phase {
        case .idle:
            return []
        case .running(var run):
            if let status = run.status {
                // A program that uses Ctrl-C as a key, such as a pager, has ended by itself.
                guard run.wasToldToEnd, status != .exited(0) else { return finish(run, status) }
                return end(run, SIGTERM, at: now) + step(descendants, at: now)
            }
            guard let stoppedAt = run.stoppedAt, now >= stoppedAt + Self.timeToStop else { return [] }
            // Looked at so late, this program was stopped itself, and the command may be about to be continued as well.
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
        phase = .idle
        let end = ChildEnd(status: status, wasToldToEnd: run.wasToldToEnd, wasCut: run.wasCut)
        return [.finish(end, survivors: survivors)]
    }

    /// Sends SIGTERM once to each process.
    ///
    /// A process that appears later may do the cleaning up of its parent's handler: it gets SIGTERM when it is an orphan.
    private func terminate(_ run: Run, _ ending: inout Ending, _ descendants: [ProcessEntry]) -> [Effect] {
        let isFirstLook = ending.told == nil
        var told = ending.told ?? [:]
        var effects: [Effect] = []
        for process in descendants {
            let isInGroup = process.group == sharedGroup ?? run.pid
            // Outside the group SIGHUP may mean "reload", and background jobs ignore SIGINT.
            let signal = isInGroup && run.status == nil ? ending.signal : SIGTERM
            let previous = told[process.identity]
            let isNew = previous == nil && (isFirstLook || process.parent == parent)
            guard isNew || previous != nil && previous != signal else { continue }
            told[process.identity] = signal
            let hasIt = isFirstLook && run.status == nil && (sharedGroup == nil ? isInGroup : process.pid == run.pid)
            if !hasIt { effects.append(.send(signal, to: process.pid)) }
        }
        ending.told = told
        return effects
    }

    private func kill(_ run: Run, _ descendants: [ProcessEntry]?) -> [Effect] {
        let isGroup = sharedGroup == nil && (run.status == nil || descendants?.contains { $0.group == run.pid } == true)
        let group: [Effect] = isGroup ? [.sendToGroup(SIGKILL, run.pid)] : []
        let unknown = descendants == nil && run.status == nil ? [run.pid] : []
        return group + (descendants?.map(\.pid) ?? unknown).map { .send(SIGKILL, to: $0) }
    }
}
