import CommandKit
import Reachability
import ReachableRetry

/// The report of a simulation as JSON lines, with the keys of docs/json.md.
struct SimulationJSON {
    private typealias Member = JSONValue.Member

    let simulation: Simulation

    /// The lines, in the order: the scenario, the network, and for each run its attempts, jobs and summary.
    ///
    /// Made one by one, for there may be half a million.
    var lines: some Sequence<JSONValue> {
        let scenario = JSONValue.object([
            Member("event", .string("scenario")), Member("title", .string(simulation.title)),
            Member("seed", .integer(simulation.seed)), Member("jobs", .integer(simulation.scenario.jobs.count)),
            Member("end", .seconds(simulation.end)),
        ])
        let network = simulation.bus.paths.map { change in
            JSONValue.object([
                Member("event", .string("network")), Member("at", .seconds(change.at)), Member("path", .path(change.path)),
                Member("change", .optional(change.action?.description)),
            ])
        }
        var parts = [AnySequence([scenario] + network)]
        for (method, record) in simulation.runs {
            parts.append(AnySequence(record.attempts.lazy.map { attempt(method, $0) }))
            let jobs = record.jobs.enumerated().lazy.compactMap { index, job in job.map { self.job(method, index, $0) } }
            parts.append(AnySequence(jobs))
            parts.append(AnySequence([summary(method, record)]))
        }
        return parts.joined()
    }

    private func attempt(_ method: SimulatedRun.Method, _ attempt: SimulationRecord.Attempt) -> JSONValue {
        var members = [
            Member("event", .string("attempt")), Member("run", .string(method.rawValue)),
            Member("job", .string(simulation.scenario.jobs[attempt.job].name)), Member("attempt", .integer(attempt.number)),
            Member("at", .seconds(attempt.start)), Member("end", .seconds(attempt.end)),
            Member("trigger", .string(attempt.trigger.rawValue)), Member("offline", .bool(attempt.isOffline)),
            Member("result", .string(attempt.result.name)),
        ]
        if case .failed(.answered(let status, let delay)) = attempt.result {
            members.append(Member("status", .integer(status)))
            members.append(Member("retryAfter", delay.map(JSONValue.seconds) ?? .null))
        }
        members.append(Member("charged", attempt.isCharged.map(JSONValue.bool) ?? .null))
        return .object(members)
    }

    private func job(_ method: SimulatedRun.Method, _ index: Int, _ job: SimulationRecord.Job) -> JSONValue {
        let (outcome, reason): (String, String?) =
            switch job.outcome {
            case .succeeded: ("succeeded", nil)
            case .gaveUp(let reason): ("gaveUp", reason.rawValue)
            case .unfinished: ("unfinished", nil)
            }
        return .object([
            Member("event", .string("job")), Member("run", .string(method.rawValue)),
            Member("job", .string(simulation.scenario.jobs[index].name)), Member("submitted", .seconds(job.submitted)),
            Member("end", .seconds(job.end)), Member("outcome", .string(outcome)), Member("reason", .optional(reason)),
            Member("attempts", .integer(job.attempts)), Member("charged", .integer(job.charged)),
        ])
    }

    private func summary(_ method: SimulatedRun.Method, _ record: SimulationRecord) -> JSONValue {
        let figures = simulation.figures(of: record)
        return .object([
            Member("event", .string("summary")), Member("run", .string(method.rawValue)),
            Member("jobs", .integer(figures.jobs)), Member("succeeded", .integer(figures.succeeded)),
            Member("gaveUp", .integer(figures.gaveUp)), Member("attempts", .integer(figures.attempts)),
            Member("rejected", .integer(figures.rejected)), Member("unanswered", .integer(figures.unanswered)),
            Member("charged", .integer(figures.charged)), Member("startedOffline", .integer(figures.startedOffline)),
            Member("peak", .integer(figures.peak)), Member("lastSuccess", seconds(figures.lastSuccess)),
            Member("complete", .bool(!record.isStopped)), Member("reconnects", .array(figures.reconnects.map(reconnect))),
        ])
    }

    private func reconnect(_ reconnect: SimulationFigures.Reconnect) -> JSONValue {
        .object([
            Member("at", .seconds(reconnect.at)), Member("pending", .integer(reconnect.pending)),
            Member("firstStart", seconds(reconnect.firstStart)), Member("firstSuccess", seconds(reconnect.firstSuccess)),
            Member("lastSuccess", seconds(reconnect.lastSuccess)), Member("attempts", .integer(reconnect.attempts)),
            Member("unanswered", .integer(reconnect.unanswered)), Member("succeeded", .integer(reconnect.succeeded)),
        ])
    }

    private func seconds(_ duration: Duration?) -> JSONValue { duration.map(JSONValue.seconds) ?? .null }
}

extension SimulationRecord.Attempt.Result {
    /// The stable name of the result.
    fileprivate var name: String {
        switch self {
        case .running: "running"
        case .succeeded: "succeeded"
        case .failed(.answered): "answered"
        case .failed(.refused): "refused"
        case .failed(.noRoute): "noRoute"
        case .failed(.unreachable): "unreachable"
        case .failed(.connectTimedOut): "noAnswer"
        case .failed(.connectionLost): "connectionLost"
        case .timedOut: "attemptTimeout"
        case .cut: "deadline"
        }
    }
}
