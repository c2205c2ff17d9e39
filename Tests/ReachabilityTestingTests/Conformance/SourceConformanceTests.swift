import Reachability
import ReachabilityTesting
import Testing

/// The sources of this package that need no kernel meet the requirements of `NetworkSource`.
@Suite(.timeLimit(.minutes(10)))
struct SourceConformanceTests {
    @Test func theSimulatedNetworkMeetsTheRequirements() async throws {
        try await NetworkSourceConformance { .simulated { $0 } }.check()
    }

    @Test func aRecorderMeetsTheRequirementsLikeItsSource() async throws {
        try await NetworkSourceConformance { .simulated { NetworkRecorder($0) { _ in } } }.check()
    }

    @Test func aRecordedNetworkMeetsTheRequirements() async throws {
        let recording = try await Self.recording()
        // It says itself that it is not woken, and that it waits as long as the recorded source did.
        let conformance = NetworkSourceConformance(exempting: [.wakeUps, .pauses]) {
            let clock = ManualClock()
            let network = try RecordedNetwork(recording, pace: .following(clock))
            // The last batch is left to be waited for.
            return .init(
                network, passTime: { _ in },
                changes: Array(repeating: { clock.advance(by: .seconds(1)) }, count: NetworkSourceConformance.Candidate.changes - 1)
            )
        }
        try await conformance.check()
    }

    @Test func aRecordedNetworkWithoutExemptionsIsFoundNotToWake() async throws {
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

    @Test func whatTheMakerOfACandidateThrowsIsThrown() async throws {
        let conformance = NetworkSourceConformance { throw SimulationError("make", "there is none") }
        await #expect(throws: SimulationError.self) { try await conformance.check() }
    }

    /// Records the very session that a replay will be asked about.
    private static func recording() async throws -> [UInt8] {
        let collected = Recorder<[UInt8]>()
        let conformance = NetworkSourceConformance { .simulated { NetworkRecorder($0) { collected.record($0) } } }
        let violations = try await conformance.violations(of: [.announcements])
        #expect(violations.isEmpty)
        return collected.values.flatMap(\.self)
    }
}

extension NetworkSourceConformance.Candidate {
    /// How many changes a simulated candidate makes.
    static let changes = 5

    /// A source on a simulated network with both families.
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

/// Runs a clock from one deadline to the next once something went wrong: nothing good will come of waiting then.
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
