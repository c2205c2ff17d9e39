import CommandKit
import Reachability
import ReachableRetry

/// A simulated scenario: its own run and that of a plain backoff.
struct Simulation: Sendable {
    let scenario: Scenario
    /// The title of the scenario, or the name of its file.
    let title: String
    let seed: UInt64
    /// With the network's state and the gate.
    let bus: SimulationRecord
    /// With the same policies and without them.
    let plain: SimulationRecord

    /// Runs a scenario both ways.
    ///
    /// - Parameters:
    ///   - name: The title of a scenario that has none.
    ///   - seed: The seed of the jitter.
    ///   - mostAttempts: The number of attempts at which a run stops.
    init(_ scenario: Scenario, name: String, seed: UInt64, mostAttempts: Int = Scenario.mostAttempts) async throws {
        (self.scenario, self.seed) = (scenario, seed)
        title = scenario.title ?? name
        bus = try await SimulatedRun(scenario: scenario, method: .bus, seed: seed, mostAttempts: mostAttempts).perform()
        plain = try await SimulatedRun(scenario: scenario, method: .plain, seed: seed, mostAttempts: mostAttempts).perform()
    }

    /// The end of the run that ends later.
    var end: Duration { max(bus.end, plain.end) }

    /// The two runs.
    var runs: [(method: SimulatedRun.Method, record: SimulationRecord)] { [(.bus, bus), (.plain, plain)] }

    /// Returns the figures of a run.
    func figures(of record: SimulationRecord) -> SimulationFigures {
        SimulationFigures(record, reconnects: bus.reconnects)
    }

    /// The message about a simulation that was stopped; `nil` for a complete one.
    var remark: String? {
        let stopped = runs.filter(\.record.isStopped)
        guard let first = stopped.first else { return nil }
        let names = stopped.map { $0.method.name.lowercased() }.joined(separator: " and ")
        return "stopped at \(durationText(first.record.end)): the \(names) had made \(first.record.attempts.count) attempts; "
            + "next: end earlier with 'until', or simulate fewer jobs"
    }
}

extension SimulatedRun.Method {
    /// The name for people.
    var name: String { self == .bus ? "Retry bus" : "Plain backoff" }
}

/// The figures of a simulated run.
struct SimulationFigures: Hashable {
    /// The number of reconnects that are counted.
    static let mostReconnects = 20

    /// The jobs after a reconnect, until the next one.
    struct Reconnect: Hashable {
        var at: Duration
        /// The number of jobs that had not ended.
        var pending = 0
        /// The time until the first attempt starts; `nil` without one.
        var firstStart: Duration?
        /// The time until the first success; `nil` without one.
        var firstSuccess: Duration?
        /// The time until the last success before the next reconnect.
        var lastSuccess: Duration?
        /// The number of attempts that start.
        var attempts = 0
        /// The attempts that get no answer.
        var unanswered = 0
        /// The number of jobs that succeed.
        var succeeded = 0
    }

    /// The number of jobs.
    var jobs: Int
    /// The jobs that succeeded.
    var succeeded = 0
    /// The jobs that gave up.
    var gaveUp = 0
    /// The number of attempts.
    var attempts: Int
    /// The attempts that the server answered with an error or refused.
    var rejected = 0
    /// The attempts without an answer.
    var unanswered = 0
    /// The attempts that count against the limit of their job.
    var charged = 0
    /// The attempts that started while the path was unsatisfied.
    var startedOffline = 0
    /// The most attempts that started within one second.
    var peak = 0
    /// The time of the last success.
    var lastSuccess: Duration?
    /// The first reconnects.
    var reconnects: [Reconnect] = []

    /// Counts the figures.
    ///
    /// - Parameter times: The times of the reconnects.
    init(_ record: SimulationRecord, reconnects times: [Duration]) {
        (jobs, attempts) = (record.jobs.count, record.attempts.count)
        for job in record.jobs.compactMap(\.self) {
            charged += job.charged
            switch job.outcome {
            case .succeeded:
                succeeded += 1
                lastSuccess = max(lastSuccess ?? .zero, job.end)
            case .gaveUp: gaveUp += 1
            case .unfinished: break
            }
        }
        var first = 0
        for (index, attempt) in record.attempts.enumerated() {
            switch attempt.result.kind {
            case .rejected: rejected += 1
            case .unanswered: unanswered += 1
            case .succeeded, .running: break
            }
            if attempt.isOffline { startedOffline += 1 }
            while attempt.start - record.attempts[first].start >= .seconds(1) { first += 1 }
            peak = max(peak, index - first + 1)
        }
        for (index, time) in times.prefix(Self.mostReconnects).enumerated() {
            reconnects.append(Reconnect(record, at: time, until: index + 1 < times.count ? times[index + 1] : nil))
        }
    }
}

extension SimulationFigures.Reconnect {
    fileprivate init(_ record: SimulationRecord, at time: Duration, until end: Duration?) {
        at = time
        for job in record.jobs.compactMap(\.self) {
            if job.submitted <= time, job.end > time || job.outcome == .unfinished { pending += 1 }
            guard job.outcome == .succeeded, job.end >= time, end.map({ job.end < $0 }) ?? true else { continue }
            succeeded += 1
            firstSuccess = min(firstSuccess ?? job.end - time, job.end - time)
            lastSuccess = max(lastSuccess ?? .zero, job.end - time)
        }
        for attempt in record.attempts where attempt.start >= time && end.map({ attempt.start < $0 }) ?? true {
            firstStart = firstStart ?? attempt.start - time
            attempts += 1
            if attempt.result.kind == .unanswered { unanswered += 1 }
        }
    }
}
