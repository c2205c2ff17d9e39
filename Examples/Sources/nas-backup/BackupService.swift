import Logging
import Reachability
import ReachableFleet
import ReachableJobs
import ReachableRetry
import ServiceLifecycle
import UnixSignals

/// Returns the queue of the backups.
///
/// - Parameter place: A file, or for a queue that machines share the connection string of PostgreSQL.
func backupQueue(_ place: String, bus: RetryBus) throws -> JobQueue {
    if place.hasPrefix("postgres:") {
        JobQueue(PostgreSQLStore(place, bus: bus, installsTables: true), bus: bus)
    } else {
        try JobQueue(SQLiteStore(path: place), bus: bus)
    }
}

/// Makes backups while the NAS is there, until a signal ends the process.
func serve(_ place: String, _ home: Home) async throws {
    let monitor = ReachabilityMonitor()
    let bus = RetryBus(monitor)
    let member = try home.member(nil, monitor)
    let queue = try backupQueue(place, bus: bus)
    queue.registerBackups(HTTPBackupServer(), when: member.condition(for: try FleetName("nas")))
    // The last service is shut down first: running attempts still need the others.
    let group = ServiceGroup(
        services: [monitor, bus, member, queue], gracefulShutdownSignals: [.sigterm, .sigint],
        logger: Logger(label: "nas-backup"))
    // Cancelled when the group has ended.
    async let _: Void = report(member.changes, of: member)
    async let _: Void = report(queue.events)
    try await group.run()
}

/// Prints a line for each change of the fleet.
func report(_ changes: AsyncStream<FleetChange>, of member: FleetMember) async {
    for await change in changes {
        switch change.kind {
        case .current:
            let nodes = member.nodes.nodes.map(\.description).joined(separator: ", ")
            say("broker connected, nodes: \(nodes.isEmpty ? "none" : nodes)")
        case .unknown: say("no broker")
        case .node(let node): say("\(node)")
        default: break
        }
    }
}

/// Prints a line for each event of the worker.
func report(_ events: AsyncStream<JobQueueEvent>) async {
    for await event in events {
        let job = event.job.map { "\($0)" } ?? ""
        switch event.kind {
        case .attemptStarted(let number): say("\(job) attempt \(number)")
        case .succeeded: say("\(job) stored")
        case .willRetry(let error): say("\(job) failed, and runs again: \(error ?? "")")
        case .failed(let reason, let error): say("\(job) failed for good (\(reason)): \(error ?? "")")
        default: break
        }
    }
}
