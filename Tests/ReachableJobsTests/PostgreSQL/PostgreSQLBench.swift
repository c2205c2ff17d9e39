#if PostgreSQL
import Foundation
import Glibc
import ReachabilityTesting
import Synchronization
import Testing

@testable import ReachableJobs

/// True if Scripts/postgresql has started a server.
///
/// With CI set the tests run without one as well, and fail.
let hasPostgreSQL = getenv("PGHOST") != nil || getenv("CI") != nil

/// A connection whose notifications and end tests wait for; it is closed when it is released.
final class PostgreSQLBench: Sendable {
    let connection: PostgreSQLConnection
    let notifications = Rendezvous(0)
    let ends = Rendezvous(0)

    /// Opens a connection to the server of the environment.
    init(_ conninfo: String = "", timeLimit: Duration = .seconds(60)) async throws {
        connection = try await PostgreSQLConnection.open(
            PostgreSQLConninfo(conninfo), timeLimit: timeLimit,
            onNotification: { [notifications] in notifications.change { $0 += 1 } }, onEnd: { [ends] _ in ends.change { $0 += 1 } })
    }

    deinit { connection.close() }

    @discardableResult
    func query(_ sql: String, _ values: [PostgreSQLParameter] = []) async throws -> PostgreSQLResult {
        try await connection.query(sql, values)
    }

    /// The number of the server's process.
    func backend() async throws -> Int64 { try #require(try await query("SELECT pg_backend_pid()").int(0, 0)) }

    /// Returns as soon as the server's process waits for a lock.
    func waitUntilBlocked(_ backend: Int64) async throws {
        try await query(
            """
            DO $$ BEGIN
                WHILE NOT EXISTS (SELECT FROM pg_locks WHERE pid = \(backend) AND NOT granted) LOOP
                    PERFORM pg_sleep(0.005);
                END LOOP;
            END $$
            """)
    }

    /// Closes the connection and waits until its thread has ended.
    func close() async throws {
        connection.close()
        try await ends.wait { $0 > 0 }
    }
}

/// Returns the failure of an operation, or `nil` if it succeeds.
func postgreSQLFailure(_ body: () async throws -> some Any) async -> PostgreSQLFailure? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? PostgreSQLFailure
    }
}

extension PostgreSQLResult {
    func int(_ row: Int, _ column: Int) -> Int64? { value(row, column) }
    func text(_ row: Int, _ column: Int) -> String? { value(row, column) }
    var rowCount: Int { rows.count }
    var firstTexts: [String] { rows.indices.compactMap { text($0, 0) } }
}

/// A TCP socket that listens and never answers: the kernel accepts connections, and nothing reads from them.
final class SilentSocket: Sendable {
    let descriptor: Int32
    let port: UInt16

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let error = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(descriptor, $0, size) | Glibc.listen(descriptor, 5) | getsockname(descriptor, $0, &size)
            }
        }
        try #require(error == 0)
        port = UInt16(bigEndian: address.sin_port)
    }

    deinit { Glibc.close(descriptor) }
}
#endif
