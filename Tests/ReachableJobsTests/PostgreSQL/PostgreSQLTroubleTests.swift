#if PostgreSQL
import Foundation
import Glibc
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// Connections that end, or that cannot be made.
@Suite(.timeLimit(.minutes(2)), .serialized, .enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"))
struct PostgreSQLTroubleTests {
    /// Returns a connection whose request waits for a lock of the other one.
    private func blocked(
        timeLimit: Duration = .seconds(60)
    ) async throws -> (waiter: PostgreSQLBench, holder: PostgreSQLBench, backend: Int64, task: Task<PostgreSQLFailure?, Never>) {
        let (waiter, holder) = (try await PostgreSQLBench(timeLimit: timeLimit), try await PostgreSQLBench())
        let backend = try await waiter.backend()
        try await holder.query("SELECT pg_advisory_lock(1)")
        let task = Task { await postgreSQLFailure { try await waiter.query("SELECT pg_advisory_lock(1)") } }
        try await holder.waitUntilBlocked(backend)
        return (waiter, holder, backend, task)
    }

    @Test func aTerminatedSessionIsLost() async throws {
        let (waiter, holder, backend, task) = try await blocked()
        try await holder.query("SELECT pg_terminate_backend($1::int)", [.value(backend)])
        let failure = await task.value
        #expect(failure?.kind == .lost(wasSent: true) && failure?.sqlstate == "57P01")
        try await waiter.ends.wait { $0 == 1 }
        let later = await postgreSQLFailure { try await waiter.query("SELECT 1") }
        #expect(later?.kind == .lost(wasSent: false))
        waiter.connection.close()
        #expect(waiter.ends.value == 1)
        try await holder.close()
    }

    @Test func aSessionTerminatedWhileIdleIsLost() async throws {
        let (idle, other) = (try await PostgreSQLBench(), try await PostgreSQLBench())
        try await other.query("SELECT pg_terminate_backend($1::int)", [.value(idle.backend())])
        try await idle.ends.wait { $0 == 1 }
        let failure = await postgreSQLFailure { try await idle.query("SELECT 1") }
        #expect(failure?.kind == .lost(wasSent: false) && failure?.storeError(for: "here").code == .unavailable)
        try await other.close()
    }

    @Test func closingFailsRequestsThatWait() async throws {
        let (waiter, holder, _, task) = try await blocked()
        waiter.connection.close()
        waiter.connection.close()
        #expect(await task.value == .closed.lost(wasSent: true))
        try await waiter.ends.wait { $0 == 1 }
        try await holder.close()
    }

    @Test func aFrozenServerIsLost() async throws {
        let name = "frozen \(UUID())"
        let frozen = try await PostgreSQLBench("application_name='\(name)'", timeLimit: .milliseconds(300))
        // Its own first answer may take longer than that.
        let other = try await PostgreSQLBench()
        let found = try await other.query(
            "SELECT pid FROM pg_stat_activity WHERE application_name = $1", [.value(name)])
        try await other.close()
        let backend = pid_t(try #require(found.int(0, 0)))
        // Another user's process cannot be stopped.
        guard kill(backend, SIGSTOP) == 0 else { return }
        defer { kill(backend, SIGCONT) }
        let began = ContinuousClock.now
        let failure = await postgreSQLFailure { try await frozen.query("SELECT 1") }
        #expect(failure?.kind == .lost(wasSent: true))
        #expect(ContinuousClock.now - began >= .milliseconds(300))
        try await frozen.ends.wait { $0 == 1 }
    }

    @Test func aMissingDatabaseIsReported() async throws {
        let failure = try #require(await postgreSQLFailure { try await PostgreSQLBench("dbname=missing") })
        #expect(failure.kind == .connect && failure.sqlstate == "3D000")
        #expect(failure.message.hasSuffix(#"FATAL: database "missing" does not exist"#))
        let error = failure.storeError(for: PostgreSQLConninfo("dbname=missing").address)
        #expect(error.code == .unavailable && error.advice.hasPrefix("create the database"))
    }

    @Test func aSilentServerFailsAfterTheTimeLimit() async throws {
        let silent = try SilentSocket()
        let began = ContinuousClock.now
        let failure = await postgreSQLFailure {
            try await PostgreSQLBench("host=127.0.0.1 port=\(silent.port) connect_timeout=1 sslmode=disable")
        }
        #expect(failure?.kind == .connect && failure?.message == "the server did not answer within 1 s")
        #expect(ContinuousClock.now - began >= .seconds(1))
        // The next server has its own time.
        let socket = String(cString: try #require(getenv("PGHOST")))
        let number = String(cString: try #require(getenv("PGPORT")))
        let second = try await PostgreSQLBench("host=127.0.0.1,\(socket) port=\(silent.port),\(number) connect_timeout=10")
        try await second.close()
    }

    @Test(arguments: [
        "postgres://u:secretpw@127.0.0.1:1/db", "postgres://u:secretpw@127.0.0.1:1,127.0.0.1:2/db",
        "postgres://u:secretpw@127.0.0.1:x/db", "postgres://u:p@secretpw@h/db", "postgres://u:p/secretpw@h/db",
        "postgres://u:p?secretpw@h/db", "postgres://u:p:secretpw@h/db",
        "postgres://u:p#secretpw@h/db", "postgres://u:%zzsecretpw@h/db", "host=127.0.0.1 port=1 password=p secretpw",
        "host=127.0.0.1 port=1 password='secretpw", "host=127.0.0.1 port=1 password=secretpw sslmode=wrong",
        "host=127.0.0.1 port=1 passwort=secretpw", "postgres://u:secretpw@127.0.0.1:1/db?nonsense=1",
    ])
    func passwordsStayOutOfMessages(conninfo: String) async throws {
        let failure = try #require(await postgreSQLFailure { try await PostgreSQLBench(conninfo) })
        let address = PostgreSQLConninfo(conninfo).address
        #expect(failure.kind == .connect)
        #expect(!"\(failure) \(address) \(failure.storeError(for: address))".contains("secretpw"))
    }

    /// Runs in its own process: tests of servers have hundreds of connections.
    @Test func closedConnectionsLeaveNothingBehind() async {
        await #expect(processExitsWith: .success) {
            func count(_ list: String) throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/self/\(list)").count
            }
            let before = (try count("fd"), try count("task"))
            for _ in 0..<200 {
                let bench = try await PostgreSQLBench()
                try await bench.close()
            }
            // The last thread may not have ended yet.
            try #require(try count("fd") < before.0 + 100)
            try #require(try count("task") < before.1 + 100)
        }
    }

    @Test func withoutDescriptorsOpeningFails() async throws {
        await #expect(processExitsWith: .success) {
            // The second time, the connection has a descriptor for waking its thread, but libpq has none for a socket.
            for spare in [0, 1, 2] {
                var limit = rlimit()
                getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                let next = dup(0)
                close(next)
                var lower = limit
                lower.rlim_cur = rlim_t(next) + rlim_t(spare)
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &lower)
                let failure = await postgreSQLFailure { try await PostgreSQLBench() }
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                if spare < 2 { #expect(failure?.kind == .local, "\(failure?.message ?? "")") }
            }
        }
    }
}
#endif
