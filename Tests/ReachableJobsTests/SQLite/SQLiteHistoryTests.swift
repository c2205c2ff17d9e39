#if SQLite
import ReachableJobs
import Testing

/// Random histories give the answers that the promises demand.
@Suite(.timeLimit(.minutes(20)))
struct SQLiteHistoryTests {
    @Test func answersAreThoseOfOracle() async throws {
        try await StoreHistory.check {
            let (directory, machine) = (try TemporaryDirectory(in: TemporaryDirectory.memory), TestMachine())
            let store = try SQLiteStore(path: directory.path + "/jobs.db", machine: machine.machine)
            // The heartbeat of a worker that is not there frees the jobs of those whose lease has ended.
            let notice: @Sendable () async -> Void = { _ = try? await store.extend(WorkerID(rawValue: 0)) }
            return StoreHistory.Subject(
                store: store,
                passTime: { [directory] duration in
                    _ = directory
                    machine.pass(duration)
                },
                notice: notice,
                crash: { worker in
                    store.abandon(worker)
                    await notice()
                },
                reboot: {
                    machine.endBoot()
                    await notice()
                })
        }
    }
}
#endif
