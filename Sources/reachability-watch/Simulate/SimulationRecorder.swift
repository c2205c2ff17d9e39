import Reachability
import ReachableRetry
import Synchronization

/// Makes the record of a run from the events of its bus.
final class SimulationRecorder: Sendable {
    private let state: Mutex<State>

    /// Creates the recorder of a run.
    init(_ run: SimulatedRun) { state = Mutex(State(run)) }

    /// The record so far.
    var record: SimulationRecord { state.withLock(\.record) }

    /// True if there are as many attempts as a simulation may have.
    var isFull: Bool { state.withLock(\.record.isStopped) }

    /// True if all jobs have ended.
    var isOver: Bool { state.withLock { $0.unfinished == 0 } }

    /// Notes the path at a time, if it is another one.
    func note(_ path: NetworkPath, at time: Duration, _ action: ScriptedNetwork.Action? = nil) {
        state.withLock { state in
            if state.record.paths.last?.path != path { state.record.paths.append(.init(at: time, path: path, action: action)) }
        }
    }

    /// Notes that a job is submitted.
    func noteSubmission(of job: Int, at time: Duration) {
        state.withLock { state in
            state.record.jobs[job] = .init(submitted: time, end: time)
            state.beginWait(.turn, job, at: time)
        }
    }

    /// Notes an event of the bus.
    func note(_ event: RetryEvent) { state.withLock { $0.note(event) } }

    /// Ends the record; later events are consequences of the simulation's end.
    func finish(at time: Duration) { state.withLock { $0.finish(at: time) } }
}

/// The record, and what the next events depend on.
private struct State {
    /// A job at present.
    struct Progress {
        /// The index of its server.
        let server: Int?
        /// The index of its running attempt.
        var running: Int?
        /// Its wait; the end is that of a delay, unless a reconnect comes first.
        var wait: (cause: SimulationRecord.Wait.Cause, start: Duration, end: Duration?)?
        /// The end of the delay that the server ordered with the last failure.
        var orderedUntil: Duration?
        /// True if its next attempt waits for that delay, not for a longer backoff.
        var hasOrderedDelay = false
    }

    var record: SimulationRecord
    private(set) var unfinished: Int
    private var jobs: [Progress]
    /// The indices of jobs by their names.
    private let indices: [String: Int]
    /// The ends of the delays that servers ordered, by server; `nil` if they do not apply to other jobs.
    private var holds: [Int: Duration]?
    private var isFinished = false
    private let recordsWaits: Bool
    private let mostAttempts: Int

    init(_ run: SimulatedRun) {
        let scripted = run.scenario.jobs
        record = SimulationRecord(jobs: Array(repeating: nil, count: scripted.count))
        unfinished = scripted.count
        jobs = scripted.map { Progress(server: $0.server) }
        indices = Dictionary(uniqueKeysWithValues: zip(scripted.map(\.name), 0...))
        holds = run.method == .bus ? [:] : nil
        recordsWaits = scripted.count <= SimulatedRun.mostJobsWithWaits
        mostAttempts = run.mostAttempts
    }

    mutating func note(_ event: RetryEvent) {
        guard !isFinished, let job = indices[event.job.description] else { return }
        switch event.kind {
        case .waiting: beginWait(.network, job, at: event.at)
        case .attemptStarted: start(job, event)
        case .attemptFailed: fail(job, event)
        case .backingOff:
            let end = event.at + (event.delay ?? .zero)
            let isOrdered = jobs[job].hasOrderedDelay && end == jobs[job].orderedUntil
            jobs[job].hasOrderedDelay = isOrdered
            beginWait(isOrdered ? .serverDelay : .backoff, job, at: event.at, until: end)
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
            case .timer?: jobs[job].hasOrderedDelay ? .serverDelay : .backoff
            default: .first
            }
        endWait(job, at: event.at)
        record.jobs[job]?.attempts += 1
        jobs[job].running = record.attempts.count
        record.attempts.append(
            .init(
                job: job, number: event.attempt, start: event.at, end: event.at, trigger: trigger,
                isOffline: record.paths.last?.path.status != .satisfied))
        if record.attempts.count >= mostAttempts { record.isStopped = true }
    }

    private mutating func fail(_ job: Int, _ event: RetryEvent) {
        let isCharged = event.failure?.isCharged == true
        var delay: Duration?
        let result: SimulationRecord.Attempt.Result
        switch event.failure?.error {
        case let error as ScriptedFailure:
            result = .failed(error)
            if case .answered(_, let ordered) = error { delay = ordered }
        case let error as RetryError where error == .attemptTimedOut: result = .timedOut
        default: result = .cut
        }
        endAttempt(of: job, result, isCharged: isCharged, at: event.at)
        if isCharged { record.jobs[job]?.charged += 1 }
        jobs[job].orderedUntil = delay.map { event.at + $0 }
        jobs[job].hasOrderedDelay = delay != nil
        if let end = jobs[job].orderedUntil, let server = jobs[job].server, let hold = holds?[server, default: .zero] {
            holds?[server] = max(hold, end)
        }
        // Unless another event follows.
        beginWait(.turn, job, at: event.at)
    }

    private mutating func end(
        _ job: Int, _ outcome: SimulationRecord.Outcome, _ result: SimulationRecord.Attempt.Result, at time: Duration
    ) {
        endWait(job, at: time)
        endAttempt(of: job, result, isCharged: nil, at: time)
        record.jobs[job]?.outcome = outcome
        record.jobs[job]?.end = time
        unfinished -= 1
    }

    private mutating func endAttempt(
        of job: Int, _ result: SimulationRecord.Attempt.Result, isCharged: Bool?, at time: Duration
    ) {
        guard let index = jobs[job].running else { return }
        jobs[job].running = nil
        record.attempts[index].end = time
        record.attempts[index].result = result
        record.attempts[index].isCharged = isCharged
    }

    mutating func finish(at time: Duration) {
        isFinished = true
        record.end = time
        for job in jobs.indices {
            endWait(job, at: time)
            if record.jobs[job]?.outcome == .unfinished { record.jobs[job]?.end = time }
            endAttempt(of: job, .running, isCharged: nil, at: time)
        }
    }

    // MARK: - Waits

    mutating func beginWait(_ cause: SimulationRecord.Wait.Cause, _ job: Int, at time: Duration, until end: Duration? = nil) {
        endWait(job, at: time)
        jobs[job].wait = (cause, time, end)
    }

    private mutating func endWait(_ job: Int, at time: Duration) {
        guard let wait = jobs[job].wait else { return }
        jobs[job].wait = nil
        guard recordsWaits else { return }
        // No event tells when a wait for the network or a delay becomes one for the server or the gate.
        let change = record.paths.last
        let end: Duration =
            switch wait.cause {
            case .network: change?.path.status == .satisfied ? change?.at ?? time : time
            case .backoff, .serverDelay: wait.end ?? time
            case .turn: wait.start
            }
        let hold = max(jobs[job].orderedUntil ?? .zero, jobs[job].server.flatMap { holds?[$0] } ?? .zero)
        let own = max(wait.start, min(time, end))
        let free = max(own, min(time, hold))
        append(wait.cause, job, from: wait.start, to: own)
        append(.serverDelay, job, from: own, to: free)
        append(.turn, job, from: free, to: time)
    }

    private mutating func append(_ cause: SimulationRecord.Wait.Cause, _ job: Int, from start: Duration, to end: Duration) {
        if start < end { record.waits.append(.init(job: job, cause: cause, start: start, end: end)) }
    }
}
