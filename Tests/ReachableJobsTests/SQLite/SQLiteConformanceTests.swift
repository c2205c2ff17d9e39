#if SQLite
import GRDB
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

/// The requirements of all stores, and random histories that give the answers of the memory store.
@Suite(.timeLimit(.minutes(20)))
struct SQLiteConformanceTests {
    @Test func aFileOfItsOwnMeetsTheRequirements() async throws {
        try await JobStoreConformance.check {
            let bench = try SQLiteBench()
            return try Self.candidate(bench.directory, bench.machine, bench.store, bench.peer())
        }
    }

    @Test func aDatabaseOfTheCallersMeetsTheRequirements() async throws {
        try await JobStoreConformance.check {
            let (directory, machine) = (try TemporaryFolder(), TestMachine())
            let writer = try DatabasePool(path: directory.path + "/app.db")
            let store = try SQLiteStore(writer: writer, machine: machine.machine)
            let peer = try SQLiteStore(writer: DatabasePool(path: writer.path), machine: machine.machine)
            return Self.candidate(directory, machine, store, peer)
        }
    }

    private static func candidate(
        _ directory: TemporaryFolder, _ machine: TestMachine, _ store: SQLiteStore, _ peer: SQLiteStore
    ) -> JobStoreConformance.Candidate {
        .init(
            store: store, peer: peer,
            passTime: { duration in withExtendedLifetime(directory) { machine.pass(duration) } },
            crash: { store.abandon($0) }, reboot: { machine.reboot() })
    }

    @Test func answersAreThoseOfOracle() async throws {
        try await StoreHistory.check {
            let bench = try SQLiteBench(in: TemporaryFolder.memory)
            return .init(bench.store, bench)
        }
    }
}

extension StoreHistory.Subject {
    /// A store in the directory of a bench.
    init(_ store: SQLiteStore, _ bench: SQLiteBench) {
        self.init(
            store: store, passTime: { bench.machine.pass($0) }, notice: { await store.notice() },
            crash: { worker in
                store.abandon(worker)
                await store.notice()
            },
            reboot: {
                bench.machine.endBoot()
                await store.notice()
            })
    }
}

extension JobStore {
    /// Lets a store on SQLite free the jobs of workers that have ended, as each heartbeat does: that of a worker that is not there.
    func notice() async { _ = try? await extend(WorkerID(rawValue: 0)) }
}
#endif
