#if SQLite
import Foundation
import GRDB
import ReachableJobs
import ReachableRetry
import TestSupport
import Testing

/// A file that this version has written opens in all later ones.
///
/// `JOBS_WRITE_FIXTURE=Tests/ReachableJobsTests/SQLite/Fixtures/version-1.db` writes it again; keep those of older versions.
@Suite(.timeLimit(.minutes(5)))
struct SQLiteFixtureTests {
    private static let target: String? = variable("JOBS_WRITE_FIXTURE")

    /// Fills a store with jobs of every state, named after what they are.
    private func fill(_ bench: SQLiteBench) async throws {
        let store = bench.store
        let lost = try await store.register()
        for name in ["succeeded", "failed", "again", "running"] { try await bench.store.push(name) { $0.destination = "server" } }
        let jobs = try await store.claim(lost).jobs
        _ = try await store.start(jobs.map(\.ticket), by: lost)
        let outcomes: [AttemptResult.Outcome] = [
            .succeeded, .failed(reason: "attempts"), .again(soft: .seconds(60), isNetwork: true, hard: .seconds(1)),
        ]
        let results = zip(jobs, outcomes).map { AttemptResult($0.ticket, $1, counters: $0.job.counters, error: "trouble") }
        _ = try await store.finish(results, by: lost)
        try await bench.store.push("delayed") { ($0.delay, $0.priority) = (.seconds(3600), .interactive) }
        try await bench.store.push("first") { ($0.serialKey, $0.priority) = ("serial", .bulk) }
        try await bench.store.push("blocked") {
            ($0.serialKey, $0.unique, $0.timeLimit) = ("serial", .keep("unique"), .seconds(86_400))
        }
        _ = try await store.cancel([try await bench.store.push("cancelled")])
        try await store.setPaused(true, queue: "paused")
    }

    @Test(.enabled(if: target != nil)) func writeFixture() async throws {
        let bench = try SQLiteBench()
        try await fill(bench)
        let queue = try DatabaseQueue(path: bench.store.path)
        try await queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        let target = try #require(Self.target)
        try? FileManager.default.removeItem(atPath: target)
        try FileManager.default.copyItem(atPath: bench.store.path, toPath: target)
    }

    @Test(arguments: [1]) func fileOfVersionWorks(version: Int) async throws {
        let fixture = URL(fileURLWithPath: #filePath).deletingLastPathComponent().path + "/Fixtures/version-\(version).db"
        let (directory, machine) = (try TemporaryFolder(), TestMachine())
        let path = directory.path + "/jobs.db"
        try FileManager.default.copyItem(atPath: fixture, toPath: path)
        chmod(path, 0o600)
        machine.reboot()
        let store = try SQLiteStore(path: path, machine: machine.machine)
        let jobs = try await store.find(JobFilter())
        let expected: [(String, DurableJob.State)] = [
            ("succeeded", .succeeded), ("failed", .failed), ("again", .available), ("running", .running), ("delayed", .available),
            ("first", .available), ("blocked", .available), ("cancelled", .cancelled),
        ]
        #expect(jobs.map(\.name) == expected.map(\.0) && jobs.map(\.state) == expected.map(\.1))
        #expect(jobs.map(\.isBlocked) == expected.map { $0.0 == "blocked" })
        #expect(jobs[1].failureReason == "attempts" && jobs[1].lastError == "trouble" && jobs[2].softDelay?.isNetwork == true)
        // All but the delayed and the blocked one run.
        let queue = jobs[0].queue
        let worker = try await store.register(queue: queue, node: "node")
        let claims = try await store.claim(worker)
        #expect(claims.jobs.map(\.job.name) == ["again", "running", "first"] && claims.nextDue == jobs[4].notBefore)
        #expect(claims.jobs.map(\.job.hasUnknownOutcome) == [false, true, false])
        #expect(try await store.succeed(claims.jobs, by: worker) == [.recorded, .recorded, .recorded])
        #expect(try await store.claim(worker).jobs.map(\.job.name) == ["blocked"])
        try await store.push("new") { $0.queue = queue }
        #expect(try await store.claim(worker).jobs.map(\.job.name) == ["new"])
    }
}
#endif
