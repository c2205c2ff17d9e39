import Glibc
import Reachability
import ReachabilityTesting
import Synchronization

/// A simulated network with replaceable members.
struct WarpedSource: NetworkSource {
    typealias Deliver = @Sendable (NetworkEventBatch) -> Duration?

    let network: SimulatedNetwork
    var running: @Sendable (@escaping Deliver) async throws -> Void
    var waking: @Sendable () -> Void
    var askingInterfaces: @Sendable () throws(ReachabilityError) -> [NetworkInterface]
    var askingRoutes: @Sendable ([RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>]

    init(_ network: SimulatedNetwork) {
        self.network = network
        running = { try await network.run(deliver: $0) }
        waking = { network.wake() }
        askingInterfaces = { () throws(ReachabilityError) in try network.interfaces() }
        askingRoutes = { network.routes(to: $0) }
    }

    func run(deliver: @escaping Deliver) async throws { try await running(deliver) }
    func wake() { waking() }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try askingInterfaces() }
    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] { askingRoutes(queries) }

    /// Passes each batch through a closure on its way to the listener.
    mutating func pass(_ passing: @escaping @Sendable (NetworkEventBatch, @escaping Deliver) -> Duration?) {
        running = { [running] deliver in try await running { passing($0, deliver) } }
    }
}

/// The threads within `deliver`, and a way to call it again.
final class Listener: Sendable {
    private struct State {
        var deliver: WarpedSource.Deliver?
        var threads: [pthread_t] = []
    }

    private let state = Mutex(State())

    /// True if the calling thread is within `deliver`.
    var isHere: Bool { state.withLock { $0.threads.contains(pthread_self()) } }
    /// True if any thread is within `deliver`.
    var isAnywhere: Bool { state.withLock { !$0.threads.isEmpty } }

    func deliver(_ batch: NetworkEventBatch, _ deliver: @escaping WarpedSource.Deliver) -> Duration? {
        state.withLock { $0.deliver = deliver }
        return call(batch)
    }

    /// Delivers again to the last listener.
    @discardableResult
    func call(_ batch: NetworkEventBatch) -> Duration? {
        begin { _ in true }.flatMap { end($0, batch) }
    }

    /// Delivers again unless a thread is within `deliver`: that would violate another requirement.
    func callAlone(_ batch: NetworkEventBatch) {
        if let deliver = begin({ $0.isEmpty }) { _ = end(deliver, batch) }
    }

    private func begin(_ mayCall: ([pthread_t]) -> Bool) -> WarpedSource.Deliver? {
        state.withLock { state in
            guard mayCall(state.threads), let deliver = state.deliver else { return nil }
            state.threads.append(pthread_self())
            return deliver
        }
    }

    private func end(_ deliver: WarpedSource.Deliver, _ batch: NetworkEventBatch) -> Duration? {
        let pause = deliver(batch)
        state.withLock { state in
            if let place = state.threads.firstIndex(of: pthread_self()) { state.threads.remove(at: place) }
        }
        return pause
    }
}
