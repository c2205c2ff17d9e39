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
        /// Start a program, and call ``ended(_:)`` at its end.
        case start(String, HookFacts)
        /// End the running program with all its descendants: it has run too long, or the queue stops.
        case terminate(String, isLate: Bool)
        /// Report dropped transitions.
        case reportDrops(Int)
    }

    /// The end of a program.
    package enum Outcome: Hashable, Sendable {
        case succeeded, failed
        /// It did not run: other users could have changed it.
        case refused
        /// It did not run: its file is gone, or not executable.
        case skipped
        /// It did not run for lack of a resource.
        case notStarted
    }

    private struct Run {
        let turn: Turn
        /// The running program, and those that follow.
        let programs: ArraySlice<String>
        let deadline: Duration
        /// The time until which a start that fails for lack of a resource is repeated.
        let lastStart: Duration
        var outcome: Outcome?
    }

    private enum Phase {
        case idle
        case running(Run)
        case terminating(Run, isLate: Bool)
        /// Waiting to start the program again.
        case pausing(Run, until: Duration)
    }

    /// The shortest time between two reports of drops.
    package static let reportInterval = Duration.seconds(1)
    /// The time after which a program is started again that could not be started for lack of a resource.
    package static let pauseBeforeStart = Duration.seconds(1)

    /// The time after which a program is ended.
    package let timeLimit: Duration
    private var phase = Phase.idle
    private var waiting: [Turn] = []
    private var isStopping = false
    /// The number of transitions before the stop.
    package private(set) var count = 0
    package private(set) var counts = HookCounts()
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
        let report = counts.dropped > reported ? lastReport.map { $0.saturatingAdd(Self.reportInterval) } : nil
        switch phase {
        case .idle, .terminating: return report
        case .running(let run): return min(run.deadline, report ?? run.deadline)
        case .pausing(_, let end): return min(end, report ?? end)
        }
    }

    /// Takes a transition; it replaces a waiting one of the same scope.
    package mutating func submit(_ turn: Turn) {
        guard !isStopping else { return }
        count += 1
        if let index = waiting.firstIndex(where: { $0.scope == turn.scope }) {
            waiting[index] = turn
            counts.dropped += 1
        } else {
            waiting.append(turn)
        }
    }

    /// Records the end of the program that an effect started.
    package mutating func ended(_ outcome: Outcome) {
        switch phase {
        case .idle, .pausing: break
        case .running(var run):
            run.outcome = outcome
            phase = .running(run)
        case .terminating(var run, let isLate):
            run.outcome = outcome
            phase = .terminating(run, isLate: isLate)
        }
    }

    /// Counts a transition whose programs may not run, because other users could have changed them.
    package mutating func refuse() { counts.refused += 1 }

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
        case .running(let run):
            if let outcome = run.outcome {
                effects = finish(run, outcome, at: now)
            } else if isStopping || now >= run.deadline {
                phase = .terminating(run, isLate: !isStopping)
                effects = [.terminate(run.programs.first ?? "", isLate: !isStopping)]
            }
        case .terminating(let run, let isLate):
            guard run.outcome != nil else { break }
            if isLate { counts.timedOut += 1 }
            effects = proceed(run.turn, run.programs.dropFirst(), at: now)
        case .pausing(let run, let end):
            effects = startAgain(run, at: end, now: now)
        }
        if counts.dropped > reported, lastReport.map({ now >= $0.saturatingAdd(Self.reportInterval) }) ?? true {
            effects.append(.reportDrops(counts.dropped - reported))
            (reported, lastReport) = (counts.dropped, now)
        }
        return effects
    }

    /// Counts the end of a program; starts it again or the next one.
    private mutating func finish(_ run: Run, _ outcome: Outcome, at now: Duration) -> [Effect] {
        switch outcome {
        case .succeeded: counts.succeeded += 1
        case .notStarted where now < run.lastStart:
            return startAgain(run, at: now.saturatingAdd(Self.pauseBeforeStart), now: now)
        case .failed, .notStarted: counts.failed += 1
        case .refused: counts.refused += 1
        case .skipped: break
        }
        return proceed(run.turn, run.programs.dropFirst(), at: now)
    }

    /// Starts a program again once its time has come, unless it is not wanted any more.
    private mutating func startAgain(_ run: Run, at time: Duration, now: Duration) -> [Effect] {
        guard now < time, !isStopping, !isReplaced(run.turn) else {
            return proceed(run.turn, run.programs, until: run.lastStart, at: now)
        }
        phase = .pausing(run, until: time)
        return []
    }

    /// Starts the first of the programs if the transition is still the newest of its scope.
    ///
    /// - Parameter lastStart: The time until which its start may be repeated; `nil` for a first start.
    private mutating func proceed(
        _ turn: Turn, _ programs: ArraySlice<String>, until lastStart: Duration? = nil, at now: Duration
    ) -> [Effect] {
        phase = .idle
        guard let program = programs.first, !isStopping else { return [] }
        guard !isReplaced(turn) else {
            counts.dropped += 1
            return []
        }
        let end = now.saturatingAdd(timeLimit)
        phase = .running(Run(turn: turn, programs: programs, deadline: end, lastStart: lastStart ?? end))
        return [.start(program, turn.facts)]
    }

    /// Returns true if a newer transition of the same scope waits.
    private func isReplaced(_ turn: Turn) -> Bool { waiting.contains { $0.scope == turn.scope } }
}

/// The numbers of programs by their ends, and of dropped transitions.
package struct HookCounts: Hashable, Sendable {
    /// The programs that exited with code 0.
    package var succeeded = 0
    /// The programs that could not be executed, or ended otherwise.
    package var failed = 0
    /// The programs that ran too long.
    package var timedOut = 0
    /// The transitions that a newer one replaced: none of their programs ran, or not the last of several.
    package var dropped = 0
    /// The programs, or whole directories of them, that other users could have changed.
    package var refused = 0

    /// Creates it.
    package init() {}

    /// The numbers with their names, of which there are always the same.
    package var byOutcome: [(name: String, count: Int)] {
        [
            ("succeeded", succeeded), ("failed", failed), ("timedOut", timedOut), ("dropped", dropped), ("refused", refused),
        ]
    }
}
