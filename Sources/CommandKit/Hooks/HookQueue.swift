import Reachability

/// The state machine of hooks: at most one program runs, and only for the newest transition of a scope.
///
/// While a program runs, each scope has at most one waiting transition; a newer one takes its place. The programs of one transition
/// run one after the other; a newer transition of the same scope ends the sequence. Dropped transitions are counted.
package struct HookQueue {
    /// A transition whose programs are to run.
    package struct Turn: Hashable, Sendable {
        /// The index of the scope.
        package let scope: Int
        package let facts: HookFacts

        /// Creates it.
        package init(scope: Int, facts: HookFacts) { (self.scope, self.facts) = (scope, facts) }
    }

    package enum Effect: Hashable, Sendable {
        /// Start a program, and call ``ended()`` at its end.
        case start(String, HookFacts)
        /// End the running program with all its descendants: it has run too long, or the queue stops.
        case terminate(isLate: Bool)
        /// Report dropped transitions.
        case reportDrops(Int)
    }

    private struct Run {
        let turn: Turn
        /// The programs that follow.
        let rest: ArraySlice<String>
        let deadline: Duration
        var hasEnded = false
    }

    private enum Phase {
        case idle
        case running(Run)
        case terminating(Run)
    }

    /// The shortest time between two reports of drops.
    package static let reportInterval = Duration.seconds(1)

    /// The time after which a program is ended.
    package let timeLimit: Duration
    private var phase = Phase.idle
    private var waiting: [Turn] = []
    private var isStopping = false
    /// The number of transitions before the stop.
    package private(set) var count = 0
    /// The number of transitions that a newer one replaced: none of their programs ran, or not the last of several.
    package private(set) var dropped = 0
    private var reported = 0
    private var lastReport: Duration?

    /// Creates an empty queue.
    package init(timeLimit: Duration) { self.timeLimit = timeLimit }

    /// `true` if ``step(_:at:)`` needs the programs.
    package var needsPrograms: Bool {
        if case .idle = phase { !isStopping && !waiting.isEmpty } else { false }
    }

    /// `true` after ``stop()`` once no program runs.
    package var isFinished: Bool {
        if case .idle = phase { isStopping } else { false }
    }

    /// The latest time of the next ``step(_:at:)``; `nil` to wait for an event.
    package var nextStep: Duration? {
        let report = dropped > reported ? lastReport.map { $0.saturatingAdd(Self.reportInterval) } : nil
        guard case .running(let run) = phase else { return report }
        return min(run.deadline, report ?? run.deadline)
    }

    /// Takes a transition; it replaces a waiting one of the same scope.
    package mutating func submit(_ turn: Turn) {
        guard !isStopping else { return }
        count += 1
        if let index = waiting.firstIndex(where: { $0.scope == turn.scope }) {
            waiting[index] = turn
            dropped += 1
        } else {
            waiting.append(turn)
        }
    }

    /// Records the end of the running program.
    package mutating func ended() {
        switch phase {
        case .idle: break
        case .running(var run):
            run.hasEnded = true
            phase = .running(run)
        case .terminating(var run):
            run.hasEnded = true
            phase = .terminating(run)
        }
    }

    /// Starts no further program and ends the running one.
    package mutating func stop() {
        isStopping = true
        waiting = []
    }

    /// Takes the steps that are due.
    ///
    /// - Parameter programs: The names of the programs in their order, if ``needsPrograms``.
    package mutating func step(_ programs: [String]?, at now: Duration) -> [Effect] {
        var effects: [Effect] = []
        switch phase {
        case .idle:
            if needsPrograms, let programs { effects = proceed(waiting.removeFirst(), programs[...], at: now) }
        case .running(let run), .terminating(let run):
            if run.hasEnded {
                effects = proceed(run.turn, run.rest, at: now)
            } else if case .running = phase, isStopping || now >= run.deadline {
                phase = .terminating(run)
                effects = [.terminate(isLate: !isStopping)]
            }
        }
        if dropped > reported, lastReport.map({ now >= $0.saturatingAdd(Self.reportInterval) }) ?? true {
            effects.append(.reportDrops(dropped - reported))
            (reported, lastReport) = (dropped, now)
        }
        return effects
    }

    /// Starts the first of the programs if the transition is still the newest of its scope.
    private mutating func proceed(_ turn: Turn, _ programs: ArraySlice<String>, at now: Duration) -> [Effect] {
        phase = .idle
        guard let program = programs.first, !isStopping else { return [] }
        guard !waiting.contains(where: { $0.scope == turn.scope }) else {
            dropped += 1
            return []
        }
        phase = .running(Run(turn: turn, rest: programs.dropFirst(), deadline: now.saturatingAdd(timeLimit)))
        return [.start(program, turn.facts)]
    }
}
