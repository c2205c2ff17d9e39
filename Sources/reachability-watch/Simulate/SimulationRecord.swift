import Reachability
import ReachableRetry

/// The course of one simulated run.
struct SimulationRecord: Sendable {
    /// An attempt.
    struct Attempt: Hashable, Sendable {
        /// The result of an attempt.
        enum Result: Hashable, Sendable {
            /// It still ran at the end of the simulation.
            case running
            case succeeded
            case failed(ScriptedFailure)
            /// `--attempt-timeout` ended it.
            case timedOut
            /// `--deadline` ended it.
            case cut
        }

        /// The index of the job.
        var job: Int
        /// The number among the job's attempts, from 1.
        var number: Int
        var start: Duration
        /// The end; the end of the simulation while it runs.
        var end: Duration
        var trigger: Trigger
        /// True if the path was unsatisfied at the start.
        var isOffline: Bool
        var result = Result.running
        /// True if it counts against the policy's limit; `nil` for attempts that did not fail.
        var isCharged: Bool?
    }

    /// The reason why an attempt starts.
    enum Trigger: String, Hashable, Sendable {
        /// The job is new.
        case first
        /// The backoff ended.
        case backoff
        /// The delay that the server ordered ended.
        case serverDelay
        /// The network came back, or changed.
        case reconnect
        /// The user's button.
        case retryNow
    }

    /// A period in which a job waits.
    struct Wait: Hashable, Sendable {
        /// The cause of a wait.
        enum Cause: CaseIterable, Hashable, Sendable {
            case network
            case backoff
            case serverDelay
            /// The gate lets other jobs start first.
            case turn
        }

        var job: Int
        var cause: Cause
        var start: Duration
        var end: Duration
    }

    /// A job's end.
    enum Outcome: Hashable, Sendable {
        case unfinished
        case succeeded
        case gaveUp(GiveUp.Reason)
    }

    /// A job.
    struct Job: Hashable, Sendable {
        var submitted: Duration
        /// The end; the end of the simulation if it is unfinished.
        var end: Duration
        var outcome = Outcome.unfinished
        var attempts = 0
        var charged = 0
    }

    /// A change of the path.
    struct PathChange: Hashable, Sendable {
        var at: Duration
        var path: NetworkPath
        /// The scripted change; `nil` at the beginning.
        var action: ScriptedNetwork.Action?
    }

    /// The attempts in the order of their starts.
    var attempts: [Attempt] = []
    /// The jobs that were submitted, in the order of the scenario; `nil` for later ones.
    var jobs: [Job?]
    /// The waits, of a scenario with few jobs.
    var waits: [Wait] = []
    /// The paths, as the monitor has published them.
    var paths: [PathChange] = []
    /// The end of the simulation.
    var end = Duration.zero
    /// True if it was stopped because of the number of attempts.
    var isStopped = false

    /// The times at which the path became satisfied, without the beginning.
    var reconnects: [Duration] {
        zip(paths, paths.dropFirst()).filter { $0.path.status != .satisfied && $1.path.status == .satisfied }.map(\.1.at)
    }

    /// The periods without a path.
    var outages: [(start: Duration, end: Duration)] {
        var outages: [(start: Duration, end: Duration)] = []
        for (index, change) in paths.enumerated() where change.path.status != .satisfied {
            let next = index + 1 < paths.count ? paths[index + 1].at : end
            if let last = outages.last, last.end == change.at {
                outages[outages.count - 1].end = next
            } else {
                outages.append((change.at, next))
            }
        }
        return outages
    }
}

extension SimulationRecord.Attempt.Result {
    /// The kinds of results that pictures distinguish.
    enum Kind: CaseIterable {
        case succeeded
        /// The server answered with an error, or refused the connection.
        case rejected
        /// No server was reached, or none answered.
        case unanswered
        case running
    }

    /// The kind.
    var kind: Kind {
        switch self {
        case .succeeded: .succeeded
        case .failed(.answered), .failed(.refused): .rejected
        case .failed, .timedOut, .cut: .unanswered
        case .running: .running
        }
    }
}
