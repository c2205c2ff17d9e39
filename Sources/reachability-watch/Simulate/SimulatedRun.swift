import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization

/// A run of a scenario in virtual time, with the real monitor and bus.
struct SimulatedRun: Sendable {
    /// The way in which jobs are repeated.
    enum Method: String, CaseIterable, Sendable {
        /// As the scenario says.
        case bus
        /// With the same policies, without knowledge of the network and of other jobs.
        case plain
    }

    /// The number of jobs up to which waits are recorded.
    static let mostJobsWithWaits = 40

    let scenario: Scenario
    let method: Method
    /// The seed of the jitter.
    let seed: UInt64
    /// The number of attempts at which it stops.
    var mostAttempts = Scenario.mostAttempts

    /// Runs the scenario to its end.
    ///
    /// - Throws: `CancellationError`, or the error of a change that the kernel rejects, which the parser has excluded.
    func perform() async throws -> SimulationRecord {
        var monitorConfiguration = ReachabilityMonitor.Configuration()
        // No change is silent here.
        (monitorConfiguration.auditInterval, monitorConfiguration.auditIntervalWhileUnsatisfied) = (nil, nil)
        var busConfiguration = RetryBus.Configuration()
        busConfiguration.releasePolicy = method == .bus ? scenario.release : .immediate
        // As many as there are attempts, which are limited.
        busConfiguration.bufferedEvents = .max
        let world = TestWorld(
            SimulatedNetwork(scenario.network.kernel), monitorConfiguration: monitorConfiguration,
            busConfiguration: busConfiguration, generator: SeededGenerator(seed: seed))
        let recorder = SimulationRecorder(self)
        try await world.run { world in
            let events = world.bus.events
            world.start { for await event in events { recorder.note(event) } }
            recorder.note(world.monitor.path, at: .zero)
            try await play(world, recorder)
            recorder.finish(at: world.clock.now.offset)
            await world.bus.shutdown(drain: .zero)
        }
        return recorder.record
    }

    private func play(_ world: TestWorld, _ recorder: SimulationRecorder) async throws {
        let steps = Dictionary(grouping: scenario.network.steps, by: \.at)
        let jobs = Dictionary(grouping: scenario.jobs.indices) { scenario.network.effectiveTime(scenario.jobs[$0].at) }
        let moments = Set(steps.keys).union(jobs.keys).sorted()
        for moment in moments where scenario.until.map({ moment <= $0 }) ?? true {
            await advance(world, to: moment) { !recorder.isFull }
            guard !recorder.isFull else { return }
            for step in steps[moment] ?? [] { try await take(step, world, recorder) }
            for job in jobs[moment] ?? [] { submit(job, world, recorder) }
            await world.settle()
        }
        if let until = scenario.until {
            await advance(world, to: until) { !recorder.isFull }
        } else {
            let end = world.clock.now.offset + Scenario.patience
            await advance(world, to: end, isLast: true) { !recorder.isFull && !recorder.isOver }
        }
    }

    /// Advances the clock from one deadline to the next while there is a reason to.
    ///
    /// - Parameter isLast: True to stop at the last deadline instead of at `target`.
    private func advance(
        _ world: TestWorld, to target: Duration, isLast: Bool = false, while hasReason: () -> Bool
    ) async {
        let clock = world.clock.manual
        while hasReason(), let next = clock.nextDeadline, next.offset <= target {
            clock.advance(to: next)
            await world.settle()
        }
        if hasReason(), !isLast { await world.clock.advance(to: .init(offset: target)) }
    }

    private func take(_ step: ScriptedNetwork.Step, _ world: TestWorld, _ recorder: SimulationRecorder) async throws {
        switch step.action {
        case .suspend(let duration): world.network.suspend(for: duration)
        case .retryNow: world.bus.retryNow()
        case .pull, .plug, .down, .up, .defaultRoute:
            try world.network.batch { kernel throws(SimulationError) in
                for change in step.changes { try change.apply(to: &kernel) }
            }
        }
        // Published when the call has returned.
        recorder.note(world.monitor.path, at: world.clock.now.offset, step.action)
        await world.settle()
    }

    private func submit(_ index: Int, _ world: TestWorld, _ recorder: SimulationRecorder) {
        let job = scenario.jobs[index]
        var policy = scenario.policies[job.policy].policy
        var destination = job.server.map { scenario.servers[$0].name }
        if method == .plain {
            policy = policy.connectivity(.ignore)
            // Jobs with a destination share what they learn about it.
            destination = nil
        }
        let options = JobOptions(destination: destination, priority: job.priority, id: JobID(job.name))
        let (bus, clock) = (world.bus, world.clock.manual)
        recorder.noteSubmission(of: index, at: clock.now.offset)
        world.start { [policy, scenario] in
            // Its end is an event of the bus.
            try? await bus.retry(policy, options: options) { _ in
                let end = scenario.end(ofAttemptAt: clock.now.offset, of: job)
                try await clock.sleep(until: .init(offset: end.at))
                if let failure = end.failure { throw failure }
            }
        }
    }
}

/// Makes the record of a run from the events of its bus.
private final class SimulationRecorder: Sendable {
    fileprivate struct State {
        var record: SimulationRecord
        /// The indices of jobs by their names.
        let indices: [String: Int]
        /// The index of each job's latest attempt.
        var latest: [Int?]
        /// The wait of each job.
        var waits: [(cause: SimulationRecord.Wait.Cause, start: Duration)?]
        /// The ends of the delays that servers ordered, by job.
        var orderedUntil: [Duration?]
        /// True for jobs whose backoff ends earlier than the delay that their server ordered.
        var hasOrderedDelay: [Bool]
        /// The ends of the delays that servers ordered, by server, if they apply to other jobs.
        var holds: [Int: Duration] = [:]
        let sharesDelays: Bool
        /// The server of each job.
        let servers: [Int?]
        /// The number of jobs that have not ended.
        var unfinished: Int
        var isFinished = false
        let recordsWaits: Bool
        let mostAttempts: Int
    }

    private let state: Mutex<State>

    init(_ run: SimulatedRun) {
        let scenario = run.scenario
        let count = scenario.jobs.count
        state = Mutex(
            State(
                record: SimulationRecord(jobs: Array(repeating: nil, count: count)),
                indices: Dictionary(uniqueKeysWithValues: zip(scenario.jobs.map(\.name), 0...)),
                latest: Array(repeating: nil, count: count), waits: Array(repeating: nil, count: count),
                orderedUntil: Array(repeating: nil, count: count), hasOrderedDelay: Array(repeating: false, count: count),
                sharesDelays: run.method == .bus, servers: scenario.jobs.map(\.server), unfinished: count,
                recordsWaits: count <= SimulatedRun.mostJobsWithWaits, mostAttempts: run.mostAttempts))
    }

    var record: SimulationRecord { state.withLock(\.record) }

    /// True if there are as many attempts as a simulation may have.
    var isFull: Bool { state.withLock(\.record.isStopped) }

    /// True if all jobs have ended.
    var isOver: Bool { state.withLock { $0.unfinished == 0 } }

    func note(_ path: NetworkPath, at time: Duration, _ action: ScriptedNetwork.Action? = nil) {
        state.withLock { state in
            if state.record.paths.last?.path != path { state.record.paths.append(.init(at: time, path: path, action: action)) }
        }
    }

    func noteSubmission(of job: Int, at time: Duration) {
        state.withLock { state in
            state.record.jobs[job] = .init(submitted: time, end: time)
            state.waits[job] = (.turn, time)
        }
    }

    func note(_ event: RetryEvent) { state.withLock { $0.note(event) } }

    /// Ends the record; later events are consequences of the simulation's end.
    func finish(at time: Duration) { state.withLock { $0.finish(at: time) } }
}

extension SimulationRecorder.State {
    fileprivate mutating func note(_ event: RetryEvent) {
        guard !isFinished, let job = indices[event.job.description] else { return }
        switch event.kind {
        case .waiting: beginWait(.network, job, at: event.at)
        case .attemptStarted: start(job, event)
        case .attemptFailed: fail(job, event)
        case .backingOff:
            hasOrderedDelay[job] = hasOrderedDelay[job] && event.at + (event.delay ?? .zero) == orderedUntil[job]
            beginWait(hasOrderedDelay[job] ? .serverDelay : .backoff, job, at: event.at)
        case .succeeded: end(job, .succeeded, .succeeded, at: event.at)
        case .gaveUp: end(job, .gaveUp(event.report?.reason ?? .permanent), .cut, at: event.at)
        default: break
        }
    }

    private mutating func start(_ job: Int, _ event: RetryEvent) {
        let trigger: SimulationRecord.Trigger =
            switch event.trigger {
            case .reconnect?, .condition?: .reconnect
            case .retryNow?: .retryNow
            case .timer?: hasOrderedDelay[job] ? .serverDelay : .backoff
            default: .first
            }
        endWait(job, at: event.at)
        record.jobs[job]?.attempts += 1
        latest[job] = record.attempts.count
        record.attempts.append(
            .init(
                job: job, number: event.attempt, start: event.at, end: event.at, trigger: trigger,
                isOffline: record.paths.last?.path.status != .satisfied))
        if record.attempts.count >= mostAttempts { record.isStopped = true }
    }

    private mutating func fail(_ job: Int, _ event: RetryEvent) {
        guard let index = runningAttempt(of: job) else { return }
        let failure = event.failure
        record.attempts[index].end = event.at
        record.attempts[index].isCharged = failure?.isCharged
        if failure?.isCharged == true { record.jobs[job]?.charged += 1 }
        switch failure?.error {
        case let error as ScriptedFailure: record.attempts[index].result = .failed(error)
        case let error as RetryError where error == .attemptTimedOut: record.attempts[index].result = .timedOut
        default: record.attempts[index].result = .cut
        }
        if case .failed(.answered(_, let delay?)) = record.attempts[index].result {
            orderedUntil[job] = event.at + delay
            if sharesDelays, let server = servers[job] { holds[server] = max(holds[server] ?? .zero, event.at + delay) }
        } else {
            orderedUntil[job] = nil
        }
        hasOrderedDelay[job] = orderedUntil[job] != nil
        // Unless another event follows.
        beginWait(.turn, job, at: event.at)
    }

    private func runningAttempt(of job: Int) -> Int? { latest[job].flatMap { record.attempts[$0].result == .running ? $0 : nil } }

    private mutating func end(
        _ job: Int, _ outcome: SimulationRecord.Outcome, _ result: SimulationRecord.Attempt.Result, at time: Duration
    ) {
        endWait(job, at: time)
        if let index = runningAttempt(of: job) {
            record.attempts[index].end = time
            record.attempts[index].result = result
        }
        record.jobs[job]?.outcome = outcome
        record.jobs[job]?.end = time
        unfinished -= 1
    }

    fileprivate mutating func finish(at time: Duration) {
        isFinished = true
        record.end = time
        for job in waits.indices {
            endWait(job, at: time)
            if record.jobs[job]?.outcome == .unfinished { record.jobs[job]?.end = time }
            if let index = runningAttempt(of: job) { record.attempts[index].end = time }
        }
    }

    // MARK: - Waits

    private mutating func beginWait(_ cause: SimulationRecord.Wait.Cause, _ job: Int, at time: Duration) {
        endWait(job, at: time)
        waits[job] = (cause, time)
    }

    private mutating func endWait(_ job: Int, at time: Duration) {
        guard let wait = waits[job] else { return }
        waits[job] = nil
        guard recordsWaits else { return }
        // No event tells when a wait for the network becomes one for the server or the gate.
        var start = wait.start
        switch wait.cause {
        case .network:
            let change = record.paths.last
            let isBack = change?.path.status == .satisfied
            let back = isBack ? min(time, max(start, change?.at ?? time)) : time
            append(.network, job, from: start, to: back)
            start = back
        case .turn: break
        case .backoff, .serverDelay: return append(wait.cause, job, from: start, to: time)
        }
        let hold = max(orderedUntil[job] ?? .zero, servers[job].flatMap { holds[$0] } ?? .zero)
        let free = max(start, min(time, hold))
        append(.serverDelay, job, from: start, to: free)
        append(.turn, job, from: free, to: time)
    }

    private mutating func append(_ cause: SimulationRecord.Wait.Cause, _ job: Int, from start: Duration, to end: Duration) {
        if start < end { record.waits.append(.init(job: job, cause: cause, start: start, end: end)) }
    }
}
