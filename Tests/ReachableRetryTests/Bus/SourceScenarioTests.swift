import Reachability
import ReachabilityTesting
import ReachableRetry
import TestSupport
import Testing

/// Attempts whose source address is lost.
@Suite(.timeLimit(.minutes(10))) struct SourceScenarioTests {
    private static let policy = RetryPolicy.scenario.interruptsAttempt(.whenSourceIsLost(grace: .seconds(5))).giveUpAfter(
        maxAttempts: 1)

    private static func plugSecondCable(_ network: SimulatedNetwork) throws {
        try network.addLink("eth1")
        try network.addAddress("eth1", "198.51.100.7/24")
        try network.replaceRoute(to: "default", via: "198.51.100.1", dev: "eth1")
    }

    /// Submits a job whose first attempt takes 100 s, runs the changes, and waits for the end.
    private func run(expecting starts: [Double], _ happen: @Sendable (Scenario) async throws -> Void) async throws {
        try await Scenario().run { scenario in
            // The bus's own condition of the internet exists from here on.
            let usage = scenario.monitor.usage + 1
            await scenario.submit("job", Self.policy, .ok(after: .seconds(100)), .ok())
            try await happen(scenario)
            await scenario.advance(to: .seconds(200))
            #expect(scenario.starts("job") == starts && scenario.result("job") == "ok")
            #expect(scenario.bus.usage == [0, 0, 0, 0, 0] && scenario.monitor.usage == usage, "no address is followed")
        }
    }

    @Test func aSecondCableInterruptsNothing() async throws {
        try await run(expecting: [0]) { scenario in
            try await scenario.at(.seconds(2)) { try Self.plugSecondCable($0) }
            #expect(scenario.monitor.path.interface?.name == "eth1", "new connections go there")
        }
    }

    @Test func aPulledCableInterruptsNothing() async throws {
        try await run(expecting: [0]) { scenario in
            try await scenario.at(.seconds(2)) { try Self.plugSecondCable($0) }
            try await scenario.at(.seconds(3)) { try $0.pull("eth0") }
        }
    }

    @Test func lossOfTheSourceOnASatisfiedPathInterrupts() async throws {
        try await run(expecting: [0, 8]) { scenario in
            try await scenario.at(.seconds(2)) { try Self.plugSecondCable($0) }
            try await scenario.at(.seconds(3)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            #expect(scenario.monitor.path.status == .satisfied)
            await scenario.advance(to: .milliseconds(7999))
            #expect(scenario.bus.pending.map(\.state) == [.running])
        }
    }

    @Test func lossOfTheOnlyAddressInterrupts() async throws {
        try await run(expecting: [0, 20]) { scenario in
            try await scenario.at(.seconds(3)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            await scenario.advance(to: .milliseconds(7999))
            #expect(scenario.bus.pending.map(\.state) == [.running])
            await scenario.advance(to: .seconds(8))
            let job = try #require(scenario.bus.pending.first)
            #expect(job.state == .waiting && job.charged == 0 && job.networkFailures == 1)
            try await scenario.at(.seconds(20)) { try Self.plugSecondCable($0) }
        }
    }

    @Test func renewalWithinTheGraceInterruptsNothing() async throws {
        try await run(expecting: [0]) { scenario in
            try await scenario.at(.seconds(3)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            try await scenario.at(.milliseconds(7900)) { network in
                try network.addAddress("eth0", "192.0.2.10/24")
                try network.replaceRoute(to: "default", via: "192.0.2.1", dev: "eth0")
            }
        }
    }

    @Test func theNextAttemptHasTheNewSource() async throws {
        try await Scenario().run { scenario in
            await scenario.submit("job", Self.policy, .ok(after: .seconds(100)))
            try await scenario.at(.seconds(2)) { try Self.plugSecondCable($0) }
            try await scenario.at(.seconds(3)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            try await scenario.at(.seconds(10)) { try $0.addAddress("eth0", "192.0.2.10/24") }
            try await scenario.at(.seconds(20)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            try await scenario.at(.seconds(30)) { try $0.removeAddress("eth1", "198.51.100.7/24") }
            await scenario.advance(to: .seconds(40))
            #expect(scenario.starts("job") == [0, 8] && scenario.bus.pending.first?.networkFailures == 2)
        }
    }

    @Test func aSequenceKeepsTheSourceOfItsAttempt() async throws {
        try await Scenario().run { scenario in
            let (bus, feed, usage) = (scenario.bus, Feed(), scenario.monitor.usage + 1)
            let reading = scenario.start { try await feed.retry(Self.policy, on: bus).reduce(into: [Int]()) { $0.append($1) } }
            try await scenario.at(.seconds(2)) { try Self.plugSecondCable($0) }
            // The next element is awaited after new connections would use another source.
            feed.iteration?.yield(1)
            try await scenario.at(.seconds(3)) { try $0.removeAddress("eth0", "192.0.2.10/24") }
            #expect(bus.usage[2] == 1)
            await scenario.advance(to: .seconds(8))
            feed.iteration?.yield(2)
            feed.iteration?.finish()
            await scenario.letPass(until: reading)
            #expect(try await reading.value == [1, 2] && feed.count == 2)
            #expect(bus.usage == [0, 0, 0, 0, 0] && scenario.monitor.usage == usage)
        }
    }
}

/// A sequence that the test feeds, separately for each iteration.
private final class Feed: AsyncSequence, Sendable {
    typealias Element = Int
    typealias Failure = Never

    private let iterations = Recorder<AsyncStream<Int>.Continuation>()

    var iteration: AsyncStream<Int>.Continuation? { iterations.value.last }
    var count: Int { iterations.value.count }

    func makeAsyncIterator() -> AsyncStream<Int>.Iterator {
        let (stream, iteration) = AsyncStream.makeStream(of: Int.self)
        iterations.record(iteration)
        return stream.makeAsyncIterator()
    }
}
