import Glibc
import Reachability
import Synchronization

/// A network with one cable, on which a test decides what the kernel has routes to.
final class ScriptedNetwork: NetworkSource {
    private struct State {
        /// The destinations with a route; `nil` for all of IPv4.
        var reachable: Set<IPAddress>?
        var now = Duration.seconds(100)
        var deliver: (@Sendable (NetworkEventBatch) -> Duration?)?
        var failure: ReachabilityError?
    }

    private let state: Mutex<State>
    /// Held during a delivery: deliveries are serial.
    private let delivering = Mutex(())
    private let wakeUps = AsyncStream.makeStream(of: Void.self)
    private let (starts, start) = AsyncStream.makeStream(of: Void.self)

    /// - Parameter isConnected: whether there is a route to everything, or to nothing.
    init(isConnected: Bool) {
        state = Mutex(State(reachable: isConnected ? nil : []))
    }

    /// Whether a monitor has ever listened.
    var wasRun: Bool { state.withLock { $0.deliver != nil } }

    /// Returns when a monitor has had its first snapshot.
    func hasStarted() async {
        for await _ in starts { return }
    }

    /// Changes what can be reached and returns when listeners were told.
    func change(reachable: Set<IPAddress>?) {
        state.withLock {
            $0.reachable = reachable
            $0.now += .seconds(1)
        }
        tell([.route(RouteChange(.all(.ipv4)))])
    }

    /// Makes the source end with an error.
    func fail(with error: ReachabilityError) {
        state.withLock { $0.failure = error }
        wakeUps.continuation.finish()
    }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        state.withLock { $0.deliver = deliver }
        tell([])
        start.yield()
        for await _ in wakeUps.stream { tell([]) }
        if let failure = state.withLock(\.failure) { throw failure }
        throw CancellationError()
    }

    func wake() { wakeUps.continuation.yield() }

    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { [Samples.cable] }

    func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        let isReachable = state.withLock { $0.reachable?.contains(query.destination) ?? (query.destination.family == .ipv4) }
        guard isReachable else { return .refused(errno: ENETUNREACH) }
        return .route(
            .init(interface: Samples.cable.index, gateway: Samples.address("192.0.2.1"), source: Samples.address("192.0.2.10")))
    }

    private func tell(_ events: [NetworkEvent]) {
        delivering.withLock { _ in
            let (deliver, now) = state.withLock { ($0.deliver, $0.now) }
            _ = deliver?(NetworkEventBatch(events, now: now, wallTime: Samples.morning))
        }
    }
}
