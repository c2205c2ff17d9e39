#if SQLite
import GRDB
import ReachabilityTesting
import ReachableJobs
import Testing

@Suite(.timeLimit(.minutes(20)))
struct SQLiteConformanceTests {
    @Test func aFileOfItsOwnMeetsTheRequirements() async throws {
        try await JobStoreConformance(patience: .seconds(600)) {
            let bench = try SQLiteBench()
            return try Self.candidate(bench.directory, bench.machine, bench.store, bench.peer())
        }.check()
    }

    @Test func aDatabaseOfTheCallersMeetsTheRequirements() async throws {
        try await JobStoreConformance(patience: .seconds(600)) {
            let (directory, machine) = (try TemporaryDirectory(), TestMachine())
            let writer = try DatabasePool(path: directory.path + "/app.db")
            let store = try SQLiteStore(writer: writer, machine: machine.machine)
            let peer = try SQLiteStore(writer: DatabasePool(path: writer.path), machine: machine.machine)
            return Self.candidate(directory, machine, store, peer)
        }.check()
    }

    private static func candidate(
        _ directory: TemporaryDirectory, _ machine: TestMachine, _ store: SQLiteStore, _ peer: SQLiteStore
    ) -> JobStoreConformance.Candidate {
        .init(
            store, peer: peer,
            passTime: { [directory] duration in
                _ = directory
                machine.pass(duration)
            },
            crash: { store.abandon($0) }, reboot: { machine.reboot() })
    }
}
#endif
