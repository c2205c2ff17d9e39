import Glibc
package import Reachability
import Synchronization

/// The programs of hooks.
package protocol HookPrograms: Sendable {
    /// Returns the names of the programs for one transition, in their order.
    func names() throws(HookProblem) -> [String]

    /// Runs a program until it ends; cancellation ends it with all its descendants: SIGTERM, and SIGKILL five seconds later.
    ///
    /// - Returns: False if there is no such program.
    /// - Throws: ``HookProblem`` if other users could have changed it, ``ChildFailure`` if it failed.
    func run(_ name: String, _ facts: HookFacts) async throws -> Bool
}

/// The last failure of each program: a failure that repeats itself is reported once.
struct HookReports {
    private var last: [String: String] = [:]

    /// Returns true for another failure than the last one of a program.
    mutating func isNew(_ failure: String, of name: String) -> Bool { last.updateValue(failure, forKey: name) != failure }

    /// Forgets the failure of a program, which has succeeded.
    mutating func forget(_ name: String) { last[name] = nil }

    /// Forgets the failures of all programs but these.
    mutating func keep(_ names: [String]) { last = last.filter { names.contains($0.key) } }
}

/// The shell of a ``HookQueue``: follows transitions and runs programs for them.
package final class HookRunner: Sendable {
    private struct State {
        var queue: HookQueue
        var clocks: [StatusClock]
        var reports = HookReports()
    }

    private let programs: any HookPrograms
    private let scopes: [Scope]
    private let clock: any Clock<Duration>
    private let say: @Sendable (String) -> Void
    private let state: Mutex<State>
    // One pending wake-up is enough: each turn looks at everything.
    private let (wakeUps, wakeUp) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Creates it; ``run(following:)`` starts it.
    ///
    /// - Parameters:
    ///   - programs: The programs.
    ///   - scopes: The scopes that are watched.
    ///   - timeLimit: The time after which a program is ended.
    ///   - clock: The clock of the time limit; the default one stands still while the machine is suspended, like the programs.
    ///   - say: Takes messages for people.
    package init(
        _ programs: any HookPrograms, scopes: [Scope], timeLimit: Duration, clock: any Clock<Duration> = SuspendingClock(),
        say: @escaping @Sendable (String) -> Void
    ) {
        (self.programs, self.scopes, self.clock, self.say) = (programs, scopes, clock, say)
        state = Mutex(State(queue: HookQueue(timeLimit: timeLimit), clocks: scopes.map { _ in StatusClock() }))
    }

    /// Runs the programs for each transition of the streams, which are in the order of the scopes, until ``stop()``.
    ///
    /// Returns after the last program has ended.
    package func run(following streams: [AsyncStream<Transition>]) async {
        await withTaskGroup { group in
            for (index, stream) in streams.enumerated() {
                group.addTask { for await transition in stream { self.submit(transition, ofScopeAt: index) } }
            }
            await self.serve(on: self.clock)
            group.cancelAll()
        }
        let (count, dropped) = state.withLock { ($0.queue.count, $0.queue.counts.dropped) }
        if dropped > 0 { say("\(dropped) of \(count) transitions dropped in all") }
    }

    /// The numbers of programs by their ends.
    package var counts: HookCounts { state.withLock(\.queue.counts) }

    /// Starts no further program, and ends the running one.
    package func stop() {
        state.withLock { $0.queue.stop() }
        wakeUp.yield()
    }

    private func submit(_ transition: Transition, ofScopeAt index: Int) {
        // The end of the monitor is that of this program, and no news about the network.
        guard transition.cause.kind != .ended else { return }
        state.withLock { state in
            let elapsed = state.clocks[index].elapsed(before: transition)
            let facts = HookFacts(transition, of: scopes[index], elapsed: elapsed)
            state.queue.submit(HookQueue.Turn(scope: index, facts: facts))
        }
        wakeUp.yield()
    }

    private func serve(on clock: some Clock<Duration>) async {
        let start = clock.now
        var child: Task<Void, Never>?
        var timer: Task<Void, Never>?
        defer { timer?.cancel() }
        // A stop before the first transition is also a wake-up.
        for await _ in wakeUps {
            repeat {
                let names = state.withLock(\.queue.needsPrograms) ? names() : nil
                let now = start.duration(to: clock.now)
                for effect in state.withLock({ $0.queue.step(names, at: now) }) {
                    switch effect {
                    case .start(let name, let facts): child = Task { await execute(name, facts) }
                    case .terminate(let name, let isLate):
                        child?.cancel()
                        if isLate { report(lateness(name), of: name) }
                    case .reportDrops(let count): say(Self.dropped(count))
                    }
                }
            } while state.withLock(\.queue.needsPrograms)
            if state.withLock(\.queue.isFinished) { return }
            timer?.cancel()
            timer = state.withLock(\.queue.nextStep).map { time in
                Task { [wakeUp] in
                    try? await clock.sleep(until: start.advanced(by: time), tolerance: nil)
                    wakeUp.yield()
                }
            }
        }
    }

    private func names() -> [String] {
        do throws(HookProblem) {
            let names = try programs.names()
            state.withLock { $0.reports.keep(names) }
            return names
        } catch {
            state.withLock { $0.queue.refuse() }
            report("\(error)", of: "")
            return []
        }
    }

    private func execute(_ name: String, _ facts: HookFacts) async {
        let outcome = await outcome(of: name, facts)
        state.withLock { state in
            if outcome == .succeeded { state.reports.forget(name) }
            state.queue.ended(outcome)
        }
        wakeUp.yield()
    }

    private func outcome(of name: String, _ facts: HookFacts) async -> HookQueue.Outcome {
        do {
            return try await programs.run(name, facts) ? .succeeded : .skipped
        } catch let problem as HookProblem {
            report("\(problem)", of: name)
            return .refused
        } catch {
            let failure = error as? ChildFailure
            let text = "hook \(quotation(name)): \(ForeignText("\(error)").terminal)"
            let isPassing = failure?.isPassing == true
            // The reason for which this program ended it has a message of its own.
            if failure?.interruption == nil { report(isPassing ? "\(text); it is tried again" : text, of: name) }
            return isPassing ? .notStarted : .failed
        }
    }

    private func report(_ failure: String, of name: String) {
        if state.withLock({ $0.reports.isNew(failure, of: name) }) { say(failure) }
    }

    private func lateness(_ name: String) -> String {
        let limit = durationText(state.withLock(\.queue.timeLimit))
        return "hook \(quotation(name)) runs for longer than \(limit) and is ended; next: start long work in its background"
    }

    private static func dropped(_ count: Int) -> String {
        "\(count) \(count == 1 ? "transition" : "transitions") dropped: newer ones came while a hook ran; "
            + "next: start long work in its background"
    }
}

/// The program of `watch --exec`.
package struct HookProgram: HookPrograms {
    private let name: ForeignText
    private let supervisor: ChildSupervisor

    /// Creates it.
    ///
    /// - Parameter name: A path, or a name in the PATH.
    package init(_ name: [UInt8], supervisor: ChildSupervisor) { (self.name, self.supervisor) = (ForeignText(name), supervisor) }

    package func names() -> [String] { [name.text] }

    package func run(_: String, _ facts: HookFacts) async throws -> Bool {
        var start = ProcessStart(words: [name.bytes, Array(facts.status.utf8)])
        start.environment = facts.environment(inherited: ProcessStart.ownEnvironment)
        try await supervisor.runHook(start)
        return true
    }
}

extension ChildSupervisor {
    /// Runs a hook without input.
    ///
    /// - Parameter output: The descriptor of its output: by default standard error, so that it cannot disturb lines of JSON.
    package func runHook(_ start: ProcessStart, output: Int32 = STDERR_FILENO) async throws(ChildFailure) {
        let nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)
        guard nothing >= 0 else { throw ChildFailure(cause: .notStarted("/dev/null", errno)) }
        defer { close(nothing) }
        var start = start
        start.descriptors = [nothing, output, output]
        try await ChildCommand(start, supervisor: self).run()
    }
}
