import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// The sources of this package that need no kernel meet the requirements of `NetworkSource`.
@Suite(.timeLimit(.minutes(10)))
struct SourceConformanceTests {
    @Test func simulatedNetworkMeetsRequirements() async throws {
        try await NetworkSourceConformance { .simulated { $0 } }.check()
    }

    /// An event may come between a request for a batch and that batch.
    @Test func eventsBesidePausesAreNoViolation() async throws {
        let violations = try await Self.violationsOfPauses(before: 2) { batch in batch.events = [.rule(isRemoval: false)] }
        #expect(violations.isEmpty)
    }

    /// A clock that is set brings an empty batch (timerfd_create(2)).
    @Test func oneEmptyBatchTooEarlyIsNoViolation() async throws {
        let violations = try await Self.violationsOfPauses(before: 4) { _ in }
        #expect(violations.isEmpty)
    }

    /// Checks a source that delivers one batch too many before the one of a number: a copy of that one, with a change.
    private static func violationsOfPauses(
        before number: Int, _ change: @escaping @Sendable (inout NetworkEventBatch) -> Void
    ) async throws -> [NetworkSourceConformance.Violation] {
        let conformance = NetworkSourceConformance {
            .simulated { network in
                let count = Counter()
                var source = WarpedSource(network)
                source.pass { batch, deliver in
                    if count.add() == number {
                        var other = batch
                        change(&other)
                        _ = deliver(other)
                    }
                    return deliver(batch)
                }
                return source
            }
        }
        return try await conformance.violations(of: [.pauses])
    }

    @Test func recorderMeetsRequirements() async throws {
        try await NetworkSourceConformance { .simulated { NetworkRecorder($0) { _ in } } }.check()
    }

    @Test func recordedNetworkMeetsRequirements() async throws {
        let recording = try await Self.recording()
        // Its documentation excludes wake-ups and pauses.
        let conformance = NetworkSourceConformance(exempting: [.wakeUps, .pauses]) {
            let clock = ManualClock()
            let network = try RecordedNetwork(recording, pace: .following(clock))
            // The last batch remains for the suite to wait for.
            return .init(
                network, passTime: { _ in },
                changes: Array(repeating: { clock.advance(by: .seconds(1)) }, count: NetworkSourceConformance.Candidate.changes - 1)
            )
        }
        try await conformance.check()
    }

    @Test func recordedNetworkCannotBeWoken() async throws {
        let recording = try await Self.recording()
        let clock = ManualClock()
        let conformance = NetworkSourceConformance(clock: clock) {
            let pace = ManualClock()
            return .init(try RecordedNetwork(recording, pace: .following(pace)))
        }
        let impatience = Impatience(clock)
        impatience.begin()
        let violations = try await conformance.violations(of: [.wakeUps])
        impatience.end()
        #expect(violations.map(\.requirement) == [.wakeUps])
    }

    @Test func errorOfMakerIsRethrown() async throws {
        let conformance = NetworkSourceConformance { throw SimulationError("make", "no candidate exists") }
        await #expect(throws: SimulationError.self) { try await conformance.check() }
    }

    /// Records the session that the suite then replays.
    private static func recording() async throws -> [UInt8] {
        let collected = Recorder<[UInt8]>()
        let conformance = NetworkSourceConformance { .simulated { NetworkRecorder($0) { collected.record($0) } } }
        let violations = try await conformance.violations(of: [.announcements])
        #expect(violations.isEmpty)
        return collected.value.flatMap(\.self)
    }
}

extension NetworkSourceConformance.Candidate {
    /// The number of changes of a simulated candidate.
    static let changes = 5

    /// Makes a source on a simulated network with both families.
    static func simulated(
        _ network: SimulatedNetwork = .online(hasIPv6: true), _ wrap: (SimulatedNetwork) -> any NetworkSource
    ) -> NetworkSourceConformance.Candidate {
        let changes: [@Sendable () throws -> Void] = [
            { try network.pull("eth0") },
            { try network.plug("eth0") },
            { try network.removeRoute(to: "default") },
            { try network.addAddress("eth0", "198.51.100.10/24") },
            { try network.setUp("eth0", false) },
        ]
        return .init(
            wrap(network), pause: .seconds(7), passTime: { network.clock.advance(by: $0) },
            changes: changes.map { change in
                {
                    network.clock.advance(by: .seconds(1))
                    try change()
                }
            }, interruptNextDump: { network.interruptNextDumps(1) })
    }
}

/// Advances a clock from one sleep to the next after a violation, so that no test waits in real time.
final class Impatience: Sendable {
    private let beginning: AsyncStream<Void>.Continuation
    private let driver: Task<Void, any Error>

    init(_ clock: ManualClock) {
        let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
        self.beginning = beginning
        driver = Task {
            for await _ in begun { break }
            while true {
                _ = try await clock.nextSleep()
                clock.advance(by: .seconds(60))
            }
        }
    }

    func begin() { beginning.yield() }

    func end() { driver.cancel() }
}

/// The suite finds each broken source.
@Suite(.timeLimit(.minutes(10)))
struct BrokenSourceTests {
    /// Returns the suite's violations; its patience runs on a manual clock.
    private static func violations(
        _ broken: BrokenSource, of requirements: Set<NetworkSourceConformance.Requirement>
    ) async throws -> [NetworkSourceConformance.Violation] {
        let clock = ManualClock()
        let impatience = Impatience(clock)
        let releases = Recorder<BrokenSource.Means>()
        let conformance = NetworkSourceConformance(clock: clock) {
            let means = BrokenSource.Means(signalViolation: { impatience.begin() })
            releases.record(means)
            return .simulated(means.network) { _ in broken.make(means) }
        }
        let violations = try await conformance.violations(of: requirements)
        impatience.end()
        for means in releases.value {
            means.release.now()
            means.network.stop()
        }
        return violations
    }

    @Test(arguments: BrokenSource.all)
    func violatedRequirementIsFound(broken: BrokenSource) async throws {
        let violations = try await Self.violations(broken, of: [broken.requirement])
        #expect(violations.map(\.requirement) == [broken.requirement], "\(violations)")
    }

    /// A violation that is not a missing event causes no other violation.
    @Test(arguments: BrokenSource.all.filter { !$0.isAbsence })
    func nothingElseIsFound(broken: BrokenSource) async throws {
        let violations = try await Self.violations(broken, of: Set(NetworkSourceConformance.Requirement.all))
        #expect(violations.map(\.requirement) == [broken.requirement], "\(violations)")
    }

    @Test func failureListsAllViolations() {
        let failure = NetworkSourceConformance.Failure([
            .init(.time, "a batch of 1.0 seconds came after one of 2.0 seconds"), .init(.pauses, "none"),
        ])
        #expect(
            failure.description == """
                violated requirements:
                - time: a batch of 1.0 seconds came after one of 2.0 seconds
                - pauses: none
                """)
    }

    @Test func exemptedRequirementIsNotChecked() async throws {
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
