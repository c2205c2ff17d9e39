import Reachability
import ReachabilityTesting
import Testing

/// A monitor on a simulated network, running while the body looks at it.
func withMonitor(
    _ configuration: ReachabilityMonitor.Configuration = .init(), online: Bool = true,
    _ body: @Sendable (ReachabilityMonitor, SimulatedNetwork, ManualClock) async throws -> Void
) async throws {
    let clock = ManualClock()
    let network = online ? SimulatedNetwork.online(clock: clock) : SimulatedNetwork(clock: clock)
    let monitor = ReachabilityMonitor(network, configuration: configuration)
    let running = Task { try await monitor.run() }
    do {
        try await network.untilRunning()
        try await body(monitor, network, clock)
    } catch {
        running.cancel()
        throw error
    }
    running.cancel()
    try await running.value
}

/// A listener that has taken its baseline.
struct Listener {
    private var iterator: AsyncStream<Transition>.AsyncIterator
    let baseline: Transition

    init(_ stream: AsyncStream<Transition>) async throws {
        iterator = stream.makeAsyncIterator()
        baseline = try #require(await iterator.next(isolation: #isolation))
        #expect(baseline.isBaseline && baseline.kinds.isEmpty)
    }

    /// The next transition, which has been published already.
    mutating func next(_ location: SourceLocation = #_sourceLocation) async throws -> Transition {
        try #require(await iterator.next(isolation: #isolation), sourceLocation: location)
    }

    mutating func end() async -> Transition? { await iterator.next(isolation: #isolation) }
}
