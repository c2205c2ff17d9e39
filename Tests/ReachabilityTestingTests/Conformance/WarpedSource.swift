import Glibc
import Reachability
import ReachabilityTesting
import Synchronization

/// A simulated network of which each member can be replaced.
struct WarpedSource: NetworkSource {
    typealias Deliver = @Sendable (NetworkEventBatch) -> Duration?

    let network: SimulatedNetwork
    var running: @Sendable (@escaping Deliver) async throws -> Void
    var waking: @Sendable () -> Void
    var askingInterfaces: @Sendable () throws(ReachabilityError) -> [NetworkInterface]
    var askingRoute: @Sendable (RouteQuery) throws(ReachabilityError) -> RouteVerdict

    init(_ network: SimulatedNetwork) {
        self.network = network
        running = { try await network.run(deliver: $0) }
        waking = { network.wake() }
        askingInterfaces = { () throws(ReachabilityError) in try network.interfaces() }
        askingRoute = { query throws(ReachabilityError) in try network.route(to: query) }
    }

    func run(deliver: @escaping Deliver) async throws { try await running(deliver) }
    func wake() { waking() }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try askingInterfaces() }
    func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict { try askingRoute(query) }

    /// Has something else be done with each batch on its way to the listener.
    mutating func pass(_ passing: @escaping @Sendable (NetworkEventBatch, @escaping Deliver) -> Duration?) {
        running = { [running] deliver in try await running { passing($0, deliver) } }
    }
}

/// Who is within `deliver`, and how to get there.
final class Listener: Sendable {
    private struct State {
        var deliver: WarpedSource.Deliver?
        var threads: [pthread_t] = []
    }

    private let state = Mutex(State())

    /// Whether the calling thread is within `deliver`.
    var isHere: Bool { state.withLock { $0.threads.contains(pthread_self()) } }
    /// Whether any thread is.
    var isAnywhere: Bool { state.withLock { !$0.threads.isEmpty } }

    func deliver(_ batch: NetworkEventBatch, _ deliver: @escaping WarpedSource.Deliver) -> Duration? {
        state.withLock { $0.deliver = deliver }
        return call(batch)
    }

    /// Delivers again, to the last listener.
    @discardableResult
    func call(_ batch: NetworkEventBatch) -> Duration? {
        let thread = pthread_self()
        let deliver = state.withLock { state in
            state.threads.append(thread)
            return state.deliver
        }
        let pause = deliver.flatMap { $0(batch) }
        state.withLock { state in
            if let place = state.threads.firstIndex(of: thread) { state.threads.remove(at: place) }
        }
        return pause
    }
}
