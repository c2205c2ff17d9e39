import CommandKit
import Reachability
import ReachableRetry
import Synchronization

/// The work of `run`: retries a command until it succeeds; waits while offline.
struct RunSession: Sendable {
    let monitor: ReachabilityMonitor
    /// The scopes to wait for.
    ///
    /// The first is the job's scope; the others are conditions if the policy waits.
    let scopes: [Scope]
    let policy: RetryPolicy
    /// The clock of delays and deadlines.
    ///
    /// It must include the time of suspend.
    var clock: any Clock<Duration> = ContinuousClock()
    /// Takes messages for people.
    let say: @Sendable (String) async -> Void
    /// Shows the waits between the messages.
    var display: WaitDisplay?
    /// Executes the command once.
    let command: @Sendable () async throws(ChildFailure) -> Void

    /// The result.
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
        // First of all: the bus then waits for the monitor's first verdict instead of starting without one.
        monitor.expectRun()
        let watching = Task { await watch() }
        let bus = RetryBus(monitor, clock: clock)
        let notebook = Notebook()
        let conditions = (waits ? scopes[...] : scopes.prefix(1)).map(monitor.condition(for:))
        let note: @Sendable () -> Void = {
            // Read the state under the lock: otherwise an older state could overwrite a newer one.
            notebook.record.withLock { record in
                let readings = conditions.map(\.storage.reading)
                if readings.allSatisfy(\.isKnown) { record.note(isSatisfied: readings.allSatisfy(\.state.isSatisfied), at: now()) }
            }
        }
        let observers = conditions.map { $0.storage.observe(note) }
        // The first verdict may precede the observers.
        note()
        let events = bus.events
        let reporting = Task { await report(events, notebook) }
        await display?.begin { wait(on: bus) }
        let hasSucceeded = await retry(on: bus, conditions, notebook, now)
        await bus.shutdown(drain: nil)
        await reporting.value
        await display?.end()
        for (condition, observer) in zip(conditions, observers) { condition.storage.removeObserver(observer) }
        watching.cancel()
        await watching.value
        return notebook.record.withLock { record in
            record.noteEnd(at: now())
            return Outcome(code: hasSucceeded ? 0 : record.code, summary: record.summary)
        }
    }

    /// Runs the job; returns `true` if the command succeeded.
    private func retry(
        on bus: RetryBus, _ conditions: [Condition], _ notebook: Notebook, _ now: @escaping @Sendable () -> Duration
    ) async -> Bool {
        // After the monitor's end nothing is known.
        let isSatisfied: @Sendable () -> Bool = {
            conditions.allSatisfy { $0.state.isSatisfied || $0.state.isFinished || !$0.storage.reading.isKnown }
        }
        do {
            try await bus.retry(policy, to: scopes[0], options: JobOptions(when: Array(conditions.dropFirst()))) { _ in
                notebook.record.withLock { $0.noteStart(isSatisfied: isSatisfied(), at: now()) }
                display?.clear()
                do throws(ChildFailure) {
                    try await command()
                } catch {
                    notebook.record.withLock { $0.noteFailure(error, at: now()) }
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
            await say("attempts start without waiting for the network: \(error.description)")
        } catch {
            await say("attempts start without waiting for the network: \(error)")
        }
    }

    private var waits: Bool {
        if case .wait = policy.rules.connectivity { true } else { false }
    }

    private func report(_ events: AsyncStream<RetryEvent>, _ notebook: Notebook) async {
        var messages = RunMessages()
        for await event in events {
            notebook.record.withLock { $0.take(event) }
            if let line = messages.line(for: event, situation) { await say(line) }
            await display?.refresh(isNew: event.kind == .attemptStarted)
        }
    }

    /// Returns the job's wait; `nil` while an attempt runs.
    private func wait(on bus: RetryBus) -> RunWait? {
        guard let job = bus.pending.first, job.state != .running else { return nil }
        let kind: RunWait.Kind =
            switch job.state {
            case .backingOff: .delay(max(job.softDelay ?? .zero, job.hardDelay ?? .zero))
            case .waiting: .event(WaitWords.waits(for: needs(of: job)))
            default: .event(job.reason)
            }
        return RunWait(
            kind: kind, attempt: job.attempts + 1, charged: job.charged, limit: policy.rules.maxAttempts, timeLeft: job.timeLeft)
    }

    /// Returns the missing paths in words: `the network: eth0 has no carrier (noCarrier)`.
    private func needs(of job: PendingJob) -> [String] {
        scopes.filter { job.unmet.contains("\($0)") }.map { WaitWords.network($0, missing: monitor.missing(for: $0)) }
    }

    private func situation() -> RunMessages.Situation {
        RunMessages.Situation(
            missing: scopes.compactMap { scope in
                guard let path = try? monitor.path(to: scope), let reason = path.offlineReason else { return nil }
                // The lookup may have outrun the monitor.
                let obstacle = monitor.obstacle(to: scope).flatMap { $0.reason == nil ? nil : $0.words }
                return (scope, obstacle ?? reason.description)
            },
            heedsReconnects: policy.rules.connectivity != .ignore && !monitor.condition(for: scopes[0]).state.isFinished)
    }
}
