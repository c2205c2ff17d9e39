import CommandKit
import Reachability
import ReachableJobs

/// The answer to `/status`: each scope with its evidence, the queue, the fleet, and the monitor's health.
///
/// Pure.
struct StatusDocument {
    /// The service's own state.
    struct Service: Hashable {
        var version: String
        /// The name of the machine.
        var host: String
        /// The time of its start, since 1970.
        var started: Duration
        /// The file of the history; `nil` for none.
        var history: String?
        /// The reason why the history is not written now.
        var historyProblem: String?
    }

    /// The time of day.
    var now: Duration
    var service: Service
    var records: [ScopeRecord]
    /// The explanations of scopes, as far as the kernel could be asked.
    var explanations: [Explanation]
    var health: MonitorHealth
    /// The queue; `nil` if none is shown.
    var queue: QueueSnapshot?
    /// The hooks; `nil` if none run.
    var hooks: Hooks?
    /// The fleet; `nil` if this machine is not announced.
    var fleet: FleetSnapshot?

    /// The hooks of the service.
    struct Hooks: Hashable {
        /// The path of their directory.
        var directory: String
        var counts: HookCounts
    }

    /// The document, with the keys of docs/json.md.
    var json: JSONValue {
        .object([
            .init("time", .wallTime(now)), .init("version", .string(service.version)), .init("host", .string(service.host)),
            .init("started", .wallTime(service.started)), .init("scopes", .array(records.map(scope))),
            .init("health", Self.health(health)), .init("queue", queue?.json ?? .null),
            .init("hooks", hooks.map(Self.hooks) ?? .null),
            .init(
                "history",
                .object([.init("file", .optional(service.history)), .init("problem", .optional(service.historyProblem))])),
            .init("fleet", fleet?.json ?? .null),
        ])
    }

    private func scope(_ record: ScopeRecord) -> JSONValue {
        let explanation = explanations.first { $0.scope == record.scope }
        return .object([
            .init("scope", .string(record.scope.description)),
            .init("path", .path(record.last.current)),
            .init("summary", .string(record.last.current.summary)),
            .init("since", .wallTime(record.beginning.wallTime)),
            // The service has seen no change of the status: it may be older.
            .init("sinceStart", .bool(record.beginning.isBaseline)),
            .init("sequence", .integer(record.last.sequence)), .init("epoch", .integer(record.last.epoch)),
            .init("flapPenalty", .double(record.last.flapPenalty)),
            .init("chain", explanation.map { EvidenceChain($0).json } ?? .array([])),
            .init("explain", explanation.map(JSONValue.explanation) ?? .null),
        ])
    }

    private static func hooks(_ hooks: Hooks) -> JSONValue {
        .object(
            [.init("directory", .string(hooks.directory))] + hooks.counts.byOutcome.map { .init($0, .integer($1)) })
    }

    private static func health(_ health: MonitorHealth) -> JSONValue {
        .object([
            .init("mode", .string(health.mode.rawValue)), .init("losses", .integer(health.losses)),
            .init("drops", .integer(health.drops)), .init("resyncs", .integer(health.resyncs)),
            .init("reopens", .integer(health.reopens)), .init("spoofed", .integer(health.spoofed)),
            .init("malformed", .integer(health.malformed)), .init("failedRequests", .integer(health.failedRequests)),
            .init("missedByEvents", .integer(health.missedByEvents)),
            .init("problem", .optional((health.impairment ?? health.lastFailure)?.description)),
        ])
    }
}

extension JSONValue {
    /// Returns a time of day as RFC 3339, or `null` if it is not known.
    static func wallTime(_ time: Duration) -> JSONValue { .optional(time == .zero ? nil : CalendarTime(time).rfc3339) }
}

/// The jobs of a queue that have not ended well, as the service shows them.
///
/// Without arguments, directories and output: on a loopback address every user of the machine reads it.
struct QueueSnapshot {
    /// The number of jobs that are listed.
    static let most = 50

    /// The file of the store.
    var store: String
    /// The numbers of jobs by state.
    var counts: [DurableJob.State: Int] = [:]
    /// The first jobs that wait, run or have failed, in the order of the queue.
    var jobs: [PendingDurableJob] = []
    /// The commands of these jobs, and the exit codes of their last attempts.
    var programs: [DurableJobID: String] = [:]
    var exitCodes: [DurableJobID: Int32] = [:]
    /// The reason why the store cannot be read.
    var problem: String?

    /// The queue with the keys of docs/json.md.
    var json: JSONValue {
        .object([
            .init("store", .string(store)), .init("problem", .optional(problem)),
            .init(
                "counts",
                .object(DurableJob.State.allCases.map { .init($0.rawValue, .integer(counts[$0] ?? 0)) })),
            .init("jobs", .array(jobs.map(job))),
            .init("more", .bool(counts.filter { !$0.key.hasEndedWell }.reduce(0) { $0 + $1.value } > jobs.count)),
        ])
    }

    private func job(_ pending: PendingDurableJob) -> JSONValue {
        let job = pending.job
        return .object([
            .init("id", .string("\(job.id)")), .init("state", .string(job.state.rawValue)),
            .init("name", .optional(job.uniqueKey)), .init("serial", .optional(job.serialKey)),
            .init("program", .optional(programs[job.id])), .init("scope", .string(job.scope)),
            .init("attempts", .integer(job.counters.started)),
            .init("waitingFor", .array(pending.waitingFor.map(JSONValue.string))),
            .init("startsIn", pending.startsIn.map { .seconds($0) } ?? .null),
            .init("exitCode", exitCodes[job.id].map { .integer($0) } ?? .null),
        ])
    }
}

extension DurableJob.State {
    /// True for a state that needs no attention.
    fileprivate var hasEndedWell: Bool { self == .succeeded || self == .cancelled }
}
