#if PostgreSQL
import Foundation
import PostgreSQLSchema
import ReachabilityTesting
import ReachableRetry
import Synchronization
import TestSupport
import Testing

@testable import ReachableJobs

/// A store in a schema of its own, on the test server, with a clock that the test holds.
final class PostgreSQLStoreBench: Sendable {
    /// The machine's boot, whose clock goes on with the server's.
    final class Boot: Sendable {
        let clock = Atomic<Int64>(0)
        let number = Atomic<Int>(1)
    }

    let store: PostgreSQLStore
    let conninfo: String
    let boot = Boot()
    let schema: String
    private let connection: PostgreSQLConnection
    private let users = Recorder<String>()
    private let clients = Recorder<PostgreSQLConnection>()

    init(install: Bool = true) async throws {
        schema = "t" + UUID().uuidString.lowercased().filter { $0 != "-" }
        conninfo = "options=-csearch_path=\(schema)"
        connection = try await PostgreSQLConnection.open(PostgreSQLConninfo(conninfo))
        store = Self.store(conninfo, boot)
        try await run("CREATE SCHEMA \(schema)")
        guard install else { return }
        try await store.install()
        // The server's wall clock, which tests move.
        try await run("CREATE TABLE test_time (wall bigint NOT NULL)")
        try await run("INSERT INTO test_time VALUES (1767225600000000000)")
        try await run(
            """
            CREATE OR REPLACE FUNCTION reachable_wall() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT wall FROM test_time'
            """)
        try await run("UPDATE reachable_clock SET wall = 1767225600000000000")
    }

    deinit {
        store.close()
        for client in clients.value { client.close() }
        let (connection, schema, users) = (connection, schema, users.value)
        Task {
            _ = try? await connection.query("DROP SCHEMA \(schema) CASCADE")
            for user in users { _ = try? await connection.query("DROP USER \(user)") }
            connection.close()
        }
    }

    /// Executes a statement in the store's schema.
    @discardableResult
    func run(_ sql: String, _ values: [PostgreSQLParameter] = []) async throws -> PostgreSQLResult {
        try await connection.query(sql, values)
    }

    /// A connection of another program, with an isolation level as the database's default.
    func client(_ level: String) async throws -> PostgreSQLConnection {
        let client = try await PostgreSQLConnection.open(PostgreSQLConninfo(conninfo), timeLimit: .seconds(60))
        clients.record(client)
        _ = try await client.query("SELECT set_config('default_transaction_isolation', $1, false)", [.value(level)])
        return client
    }

    /// Another store for the same jobs, as another process has it.
    func peer() -> PostgreSQLStore { Self.store(conninfo, boot) }

    private static func store(_ conninfo: String, _ boot: Boot) -> PostgreSQLStore {
        PostgreSQLStore(conninfo, bus: nil) {
            StoreClock.Reading(
                bootID: "\(boot.number.load(ordering: .relaxed))", boot: boot.clock.load(ordering: .relaxed), wall: 0)
        }
    }

    /// Installs the roles, and lets them into the schema of this test.
    func installRoles() async throws {
        // Roles belong to all databases of the server.
        try await run("BEGIN")
        try await run("SELECT pg_advisory_xact_lock(1919246592, 1)")
        for statement in PostgreSQLSchema.roles { try await run(statement) }
        try await run("COMMIT")
    }

    /// A store of a user who has a role and nothing else.
    func store(as role: String) async throws -> PostgreSQLStore {
        let user = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }
        try await run("CREATE USER \(user) IN ROLE \(role)")
        users.record(user)
        return Self.store("\(conninfo) user=\(user)", boot)
    }

    /// Ends the process of a worker, for others of its machine.
    func endProcess(of worker: WorkerID) async throws {
        try await run("UPDATE reachable_workers SET process = '0:0' WHERE number = $1", [.value(worker.rawValue)])
    }

    /// Ends all workers as a new boot does.
    func reboot() async throws {
        boot.number.add(1, ordering: .relaxed)
        try await run("UPDATE reachable_workers SET heartbeat = -1000000000000")
        try await notice()
    }

    /// Moves the server's wall clock and the clock of leases at once.
    func jump(_ duration: Duration) async throws {
        boot.clock.add(duration.nanoseconds, ordering: .relaxed)
        try await run("UPDATE test_time SET wall = wall + $1", [.value(duration.nanoseconds)])
        try await run(
            "UPDATE reachable_clock SET lease = lease + $1, instant = instant + $1, wall = wall + $1",
            [.value(duration.nanoseconds)])
    }

    /// Does what the next claim or heartbeat would do first.
    func notice() async throws {
        try await run("SELECT reachable_sweep(0, reachable_now())")
        try await run("SELECT reachable_number_lanes()")
    }

    /// Moves the server's wall clock; heartbeats of other workers move the store's clock with it.
    func pass(_ duration: Duration) async throws {
        boot.clock.add(duration.nanoseconds, ordering: .relaxed)
        var rest = duration
        while rest > .zero {
            let step = min(rest, .seconds(10))
            try await run("UPDATE test_time SET wall = wall + $1", [.value(step.nanoseconds)])
            try await run("SELECT reachable_tick()")
            rest -= step
        }
    }
}
#endif
