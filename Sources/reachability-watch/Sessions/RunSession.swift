import Reachability
import ReachableRetry
import Synchronization

/// What `run` does: it runs a command until it succeeds, and waits for the network meanwhile.
struct RunSession: Sendable {
    let monitor: ReachabilityMonitor
    /// What has to be reached.
    ///
    /// The first is the job's; the others are conditions, which a policy that does not wait has none of.
    let scopes: [Scope]
    let policy: RetryPolicy
    /// Measures delays and deadlines.
    ///
    /// It must count the time that the machine is suspended.
    var clock: any Clock<Duration> = ContinuousClock()
    /// Takes what there is to say.
    let say: @Sendable (String) -> Void
    /// Runs the command once.
    let command: @Sendable () async throws(ChildFailure) -> Void

    /// How it ended.
    struct Outcome: Hashable {
        var code: Int32
        var summary: RunSummary
    }

    private final class Notebook: Sendable {
        let record = Mutex(RunRecord())
    }

    /// Runs the command until it succeeds or the policy gives up.
    func run() async -> Outcome { await run(on: clock) }

    private func run(on clock: some Clock<Duration>) async -> Outcome {
        let start = clock.now
        let now: @Sendable () -> Duration = { start.duration(to: clock.now) }
        // Said before anything asks: the bus then waits for the monitor's first word instead of doing without.
        monitor.expectRun()
        let watching = Task { await watch() }
        let bus = RetryBus(monitor, clock: clock)
        let notebook = Notebook()
        let condition = monitor.condition(for: scopes[0])
        let note: @Sendable () -> Void = { [storage = condition.storage] in
            // Read inside, so that of two threads the later one notes what is later.
            notebook.record.withLock { record in
                let (state, isKnown) = storage.reading
                if isKnown { record.note(isSatisfied: state.isSatisfied, at: now()) }
            }
        }
        let observer = condition.storage.observe(note)
        // The monitor's first word may have come before there was anybody to hear it.
        note()
        let events = bus.events
        let narrating = Task { await narrate(events, notebook) }
        let hasSucceeded = await retry(on: bus, condition, notebook, now)
        await bus.shutdown(drain: nil)
        await narrating.value
        condition.storage.removeObserver(observer)
        watching.cancel()
        await watching.value
        return notebook.record.withLock { record in
            record.note(elapsed: now())
            return Outcome(code: hasSucceeded ? 0 : record.code, summary: record.summary)
        }
    }

    /// Returns whether the command succeeded.
    private func retry(
        on bus: RetryBus, _ condition: Condition, _ notebook: Notebook, _ now: @escaping @Sendable () -> Duration
    ) async -> Bool {
        let others = waits ? scopes.dropFirst().map(monitor.condition(for:)) : []
        do {
            try await bus.retry(policy, to: scopes[0], when: others) { [command] _ in
                let state = condition.state
                // With a monitor that has ended nothing is known.
                let isSatisfied = state.isSatisfied || state.isFinished || !condition.storage.reading.isKnown
                notebook.record.withLock { $0.noteStart(isSatisfied: isSatisfied, at: now()) }
                do throws(ChildFailure) {
                    try await command()
                } catch {
                    notebook.record.withLock { $0.note(error) }
                    throw error
                }
            }
            return true
        } catch {
            return false
        }
    }

    private func watch() async {
        do {
            try await monitor.run()
        } catch let error as ReachabilityError {
            say("\(error.description) Attempts start without waiting for the network.")
        } catch {
            say("\(error). Attempts start without waiting for the network.")
        }
    }

    private var waits: Bool {
        if case .wait = policy.rules.connectivity { true } else { false }
    }

    private func narrate(_ events: AsyncStream<RetryEvent>, _ notebook: Notebook) async {
        var narrator = RunNarrator()
        for await event in events {
            notebook.record.withLock { $0.take(event) }
            if let line = narrator.line(for: event, situation) { say(line) }
        }
    }

    private func situation() -> RunNarrator.Situation {
        RunNarrator.Situation(
            missing: scopes.compactMap { scope in
                guard let path = try? monitor.path(to: scope), path.status == .unsatisfied else { return nil }
                return (scope, path)
            },
            heedsReconnects: policy.rules.connectivity != .ignore && !monitor.condition(for: scopes[0]).state.isFinished)
    }
}
