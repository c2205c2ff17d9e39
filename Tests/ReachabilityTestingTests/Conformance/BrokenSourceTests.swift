import Reachability
import ReachabilityTesting
import Testing

/// Sources that violate a requirement are found by the conformance suite, and told in words.
@Suite(.timeLimit(.minutes(10)))
struct BrokenSourceTests {
    /// What the suite finds, with a clock of its own that runs once nothing good can come any more.
    private static func violations(
        _ broken: BrokenSource, of requirements: Set<NetworkSourceConformance.Requirement>
    ) async throws -> [NetworkSourceConformance.Violation] {
        let clock = ManualClock()
        let impatience = Impatience(clock)
        let releases = Recorder<BrokenSource.Means>()
        let conformance = NetworkSourceConformance(clock: clock) {
            let means = BrokenSource.Means(sin: { impatience.begin() })
            releases.record(means)
            return .simulated(means.network) { _ in broken.make(means) }
        }
        let violations = try await conformance.violations(of: requirements)
        impatience.end()
        for means in releases.values {
            means.release.now()
            means.network.stop()
        }
        return violations
    }

    @Test(arguments: BrokenSource.all)
    func aViolatedRequirementIsFound(broken: BrokenSource) async throws {
        let violations = try await Self.violations(broken, of: [broken.requirement])
        #expect(violations.map(\.requirement) == [broken.requirement], "\(violations)")
    }

    /// What breaks by itself, not by being absent, is not mistaken for anything else.
    @Test(arguments: BrokenSource.all.filter { !$0.isAbsence })
    func nothingElseIsFound(broken: BrokenSource) async throws {
        let violations = try await Self.violations(broken, of: Set(NetworkSourceConformance.Requirement.all))
        #expect(violations.map(\.requirement) == [broken.requirement], "\(violations)")
    }

    @Test func aFailureTellsAllThatWasFound() {
        let failure = NetworkSourceConformance.Failure([
            .init(.time, "a batch of 1.0 seconds came after one of 2.0 seconds"), .init(.pauses, "none"),
        ])
        #expect(
            failure.description == """
                the source violates requirements of NetworkSource:
                - time: a batch of 1.0 seconds came after one of 2.0 seconds
                - pauses: none
                """)
    }

    @Test func anExemptedRequirementIsNotChecked() async throws {
        let conformance = NetworkSourceConformance(exempting: [.pauses]) {
            NetworkSourceConformance.Candidate.simulated { network in
                var source = WarpedSource(network)
                source.pass { batch, deliver in
                    _ = deliver(batch)
                    return nil
                }
                return source
            }
        }
        try await conformance.check()
    }
}
