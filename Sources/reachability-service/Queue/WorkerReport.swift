import CommandKit
import ReachableJobs

/// A worker as `queue list` writes it.
struct WorkerReport {
    let worker: RegisteredWorker

    /// The object of JSON, with the keys of docs/json.md.
    var json: JSONValue {
        .object([
            .init("id", .integer(worker.id.rawValue)), .init("host", .optional(worker.host)),
            .init("process", worker.process.map { .integer($0) } ?? .null), .init("claims", .integer(worker.claims)),
            .init("sinceHeartbeat", .seconds(worker.sinceHeartbeat)),
        ])
    }

    /// The line of `queue list`.
    var line: String {
        let commands =
            switch worker.claims {
            case 0: "runs no command"
            case 1: "runs 1 command"
            case let count: "runs \(count) commands"
            }
        return "worker on \(place): \(commands), heard from \(durationText(worker.sinceHeartbeat)) ago"
    }

    /// The host and, if it is known, the process; the node of a worker without a host.
    var place: String {
        let host = ForeignText(worker.host ?? worker.node).terminal
        return host + (worker.process.map { ", process \($0)" } ?? "")
    }
}
