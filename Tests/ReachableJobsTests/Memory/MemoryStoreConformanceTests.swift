import ReachabilityTesting
import ReachableJobs
import Testing

/// `Tests/Mutants/store.txt` breaks each requirement, to prove that its check finds that.
@Suite(.timeLimit(.minutes(20)))
struct MemoryStoreConformanceTests {
    @Test func memoryStoreMeetsRequirements() async throws {
        try await JobStoreConformance.check {
            let clock = ManualClock()
            let store = MemoryStore(clock: clock)
            return .init(
                store: store, peer: store, passTime: { clock.advance(by: $0) }, crash: { store.crash($0) },
                reboot: { store.reboot() })
        }
    }
}
