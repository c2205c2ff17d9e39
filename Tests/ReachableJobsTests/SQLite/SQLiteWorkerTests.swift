#if SQLite
import Foundation
import GRDB
import ReachableJobs
import Testing

/// The ends of workers: locks, heartbeats and boots.
@Suite(.timeLimit(.minutes(20)))
struct SQLiteWorkerTests {
    /// A job that a worker has claimed and started.
    private func claimed(_ bench: SQLiteBench) async throws -> (WorkerID, Claims.Claimed) {
        try await bench.store.push("a")
        let worker = try await bench.store.register()
        let job = try #require(try await bench.store.claim(worker).jobs.first)
        #expect(try await bench.store.start([job.ticket], by: worker) == [true])
        return (worker, job)
    }

    @Test func workersAreOfThisMachine() async throws {
        let bench = try SQLiteBench()
        let worker = try await bench.store.register()
        let (own, other) = (try await bench.store.workers(of: nil), try await bench.peer().workers(of: nil))
        let host = try String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8).filter { $0 != "\n" }
        #expect(own.map(\.id) == [worker] && own.map(\.host) == [host])
        #expect(own.map(\.process) == [Int(getpid())])
        // The kernel does not tell whose lock it is.
        #expect(other.map(\.id) == [worker] && other.map(\.process) == [nil])
        bench.store.abandon(worker)
        #expect(try await bench.peer().workers(of: nil).isEmpty)
    }

    @Test func theEndOfAProcessFreesItsJobsAtOnceAndCountsACrash() async throws {
        let bench = try SQLiteBench()
        let (worker, _) = try await claimed(bench)
        // The lock of the worker moves to another process, which is then killed.
        bench.store.abandon(worker)
        let process = try Stranger(
            """
            file = open(sys.argv[1], "r+b")
            fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, int(sys.argv[2]), 1, 0))
            print(flush=True); time.sleep(60)
            """, bench.store.path + "-workers", "\(worker.rawValue)")
        let peer = try bench.peer()
        let other = try await peer.register()
        #expect(try await peer.claim(other).jobs.isEmpty)
        process.kill()
        let jobs = try await peer.claim(other).jobs
        #expect(jobs.map(\.job.counters.crashes) == [1])
    }

    @Test func aStoreThatIsGoneHasEnded() async throws {
        let bench = try SQLiteBench()
        var peer: SQLiteStore? = try bench.peer()
        try await bench.store.push("a")
        let lost = try #require(try await peer?.register())
        _ = try await peer?.claim(lost)
        let worker = try await bench.store.register()
        #expect(try await bench.store.claim(worker).jobs.isEmpty)
        peer = nil
        // A process that another test starts has a copy of the lock until its execve(2).
        while try await bench.store.workers(of: nil).contains(where: { $0.id == lost }) { await Task.yield() }
        // Its attempt had not started.
        #expect(try await bench.store.claim(worker).jobs.map(\.job.counters.crashes) == [0])
    }

    @Test func suspensionAndClockStepsEndNoLease() async throws {
        let bench = try SQLiteBench()
        let (worker, job) = try await claimed(bench)
        bench.machine.suspend(.seconds(86_400))
        bench.machine.setWall(0)
        let peer = try bench.peer()
        let other = try await peer.register()
        #expect(try await peer.claim(other).jobs.isEmpty)
        #expect(try await bench.store.succeed([job], by: worker) == [.recorded])
    }

    @Test func aBoardThatLearnsTheTimeExpiresNothing() async throws {
        let bench = try SQLiteBench()
        try await bench.store.push("a") { $0.delay = .seconds(3600) }
        bench.machine.reboot()
        bench.machine.setWall(5_000_000_000)
        let worker = try await bench.store.register()
        #expect(try await bench.store.claim(worker).jobs.isEmpty)
        bench.machine.setWall(1_800_000_000_000_000_000)
        #expect(try await bench.store.claim(worker).jobs.isEmpty)
        for _ in 0..<180 {
            bench.machine.pass(.seconds(20))
            _ = try await bench.store.extend(worker)
        }
        #expect(try await bench.store.claim(worker).jobs.count == 1)
    }

    @Test func destinationsThatComeOnceLeaveNoRows() async throws {
        let bench = try SQLiteBench()
        let worker = try await bench.store.register()
        for start in stride(from: 0, to: 10_000, by: 1000) {
            let jobs = (start..<start + 1000).map { number in NewJob.named("") { $0.destination = "host \(number)" } }
            _ = try await bench.store.push(jobs, limit: nil)
        }
        for outcome in [AttemptResult.Outcome.again(soft: .seconds(1), isNetwork: true, hard: nil), .succeeded] {
            let claims = try await bench.store.claim(worker, 10_000)
            #expect(claims.jobs.count == 10_000)
            _ = try await bench.store.finish(
                claims.jobs.map { AttemptResult($0.ticket, outcome, counters: $0.job.counters) }, by: worker)
            bench.machine.pass(.seconds(2))
        }
        while try await bench.store.prune(Retention(succeeded: .zero, failed: .zero), limit: 1000) > 0 {}
        let reader = try DatabaseQueue(path: bench.store.path)
        let rows = try await reader.read { db in
            try ["reachable_jobs", "reachable_payloads", "reachable_lanes"].map {
                try Int.fetchOne(db, sql: "SELECT count(*) FROM \($0)")
            }
        }
        #expect(rows == [0, 0, 0])
    }

    /// A machine that was restored from a snapshot: neither leases nor delays last longer.
    @Test func leasesRunOnFromARestoredClock() async throws {
        let bench = try SQLiteBench()
        bench.machine.pass(.seconds(5000))
        let (_, job) = try await claimed(bench)
        bench.machine.restore(by: .seconds(4000))
        let peer = try bench.peer()
        let other = try await peer.register()
        #expect(try await peer.claim(other).jobs.isEmpty)
        bench.machine.pass(.seconds(31))
        #expect(try await peer.claim(other).jobs.map(\.job.id) == [job.ticket.id])
    }

    /// A late heartbeat counts while no other worker has noticed.
    @Test func lateHeartbeatIsHonoured() async throws {
        let bench = try SQLiteBench()
        let (worker, job) = try await claimed(bench)
        bench.machine.pass(.seconds(40))
        _ = try await bench.store.extend(worker)
        #expect(try await bench.store.succeed([job], by: worker) == [.recorded])
        bench.machine.pass(.seconds(40))
        // Nothing is there to claim, and the claim itself is valid.
        #expect(try await bench.store.claim(worker).jobs.isEmpty)
        // A worker of another process removes it.
        let peer = try bench.peer()
        _ = try await peer.claim(try await peer.register())
        #expect(await storeError { _ = try await bench.store.extend(worker) }?.code == .unknownWorker)
    }
}
#endif
