import ReachabilityTesting
import ReachableJobs
import Testing

@Suite(.timeLimit(.minutes(20)))
struct MemoryStoreConformanceTests {
    @Test func memoryStoreMeetsRequirements() async throws {
        try await JobStoreConformance { .memory() }.check()
    }

    @Test(arguments: BrokenStore.all)
    func violatedRequirementIsFound(broken: BrokenStore) async throws {
        // Only hints are waited for, and a broken store gives none.
        let patience: Duration = broken.requirement == .hints ? .milliseconds(20) : .seconds(10)
        let conformance = JobStoreConformance(patience: patience) { .memory { broken.make($0) } }
        let violations = try await conformance.violations(of: [broken.requirement])
        #expect(violations.map(\.requirement) == [broken.requirement], "\(violations)")
    }

    @Test func everyRequirementHasBrokenStore() {
        #expect(Set(JobStoreConformance.Requirement.allCases) == Set(BrokenStore.all.map(\.requirement)))
    }

    @Test func errorOfStoreIsViolation() async throws {
        let conformance = JobStoreConformance {
            .memory { store in
                var warped = WarpedStore(store)
                warped.replace { (_: String) -> [JobCount] in throw JobStoreError(.busy, "it is locked", next: "wait") }
                return warped
            }
        }
        let violations = try await conformance.violations(of: [.counts])
        #expect(violations.map(\.description) == ["counts: a call threw busy: it is locked; next: wait"])
    }
}

extension JobStoreConformance.Candidate {
    /// A memory store on a manual clock, wrapped.
    static func memory(_ wrap: (MemoryStore) -> any JobStore = { $0 }) -> JobStoreConformance.Candidate {
        let clock = ManualClock()
        let store = MemoryStore(clock: clock)
        return .init(
            wrap(store), passTime: { clock.advance(by: $0) }, crash: { store.crash($0) }, reboot: { store.reboot() })
    }
}
