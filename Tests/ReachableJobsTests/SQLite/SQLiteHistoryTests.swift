#if SQLite
import Glibc
import ReachableJobs
import Testing

/// Random histories give the answers that the promises demand.
@Suite(.timeLimit(.minutes(20)))
struct SQLiteHistoryTests {
    /// STORE_SEEDS is the number of histories, STORE_SEED the first one.
    private static let seeds: Range<UInt64> = {
        func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
        let first = number("STORE_SEED") ?? 1
        return first..<first + (number("STORE_SEEDS") ?? 20)
    }()

    @Test func answersAreThoseOfOracle() async throws {
        for seed in Self.seeds {
            let (directory, machine) = (try TemporaryDirectory(in: TemporaryDirectory.memory), TestMachine())
            let store = try SQLiteStore(path: directory.path + "/jobs.db", machine: machine.machine)
            // A worker that extends a lease, and so frees the jobs of those whose lease has ended.
            let subject = StoreHistory.Subject(
                store: store, passTime: { machine.pass($0) },
                notice: { _ = try? await store.extend(WorkerID(rawValue: 0)) },
                crash: { worker in
                    store.abandon(worker)
                    _ = try? await store.extend(WorkerID(rawValue: 0))
                },
                reboot: {
                    machine.endBoot()
                    _ = try? await store.extend(WorkerID(rawValue: 0))
                }, hasOwnNumbers: true)
            var history = StoreHistory(seed: seed, subject)
            guard let flaw = try await history.run(150) else { continue }
            Issue.record(
                "STORE_SEED=\(seed): \(flaw)\nafter \(history.calls.count) calls:\n\(history.calls.joined(separator: "\n"))")
            return
        }
    }
}
#endif
