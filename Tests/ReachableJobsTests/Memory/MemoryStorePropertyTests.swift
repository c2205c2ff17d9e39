import ReachabilityTesting
import ReachableJobs
import TestTraits
import Testing

/// Random histories give the answers that the promises demand.
@Suite(.timeLimit(.minutes(20)), .computing)
struct MemoryStorePropertyTests {
    @Test func answersAreThoseOfOracle() async throws {
        try await StoreHistory.check {
            let clock = ManualClock()
            let store = MemoryStore(clock: clock, date: { StoreHistory.date })
            return StoreHistory.Subject(
                store: store, passTime: { clock.advance(by: $0) }, notice: { _ = try await store.count(queue: "none") },
                crash: { store.crash($0) }, reboot: { store.reboot() })
        }
    }
}
