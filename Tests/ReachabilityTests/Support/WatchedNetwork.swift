import Reachability
import ReachabilityTesting
import Synchronization

/// A simulated network that records the watched addresses.
final class WatchedNetwork: FilteringSource, HostResolving {
    let network: SimulatedNetwork
    private let sets = Mutex<[Set<IPAddress>]>([])
    private let unwatched = Mutex<Set<IPAddress>>([])
    /// The number of next lookups that fail as for a vanishing interface.
    let races = Atomic(0)

    init(_ network: SimulatedNetwork = .online()) { self.network = network }

    var watched: [Set<IPAddress>] { sets.withLock { $0 } }
    var askedUnwatched: Set<IPAddress> { unwatched.withLock { $0 } }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws { try await network.run(deliver: deliver) }
    func wake() { network.wake() }
    func watch(_ destinations: Set<IPAddress>) { sets.withLock { $0.append(destinations) } }
    func resolve(_ host: String) { network.resolve(host) }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try network.interfaces() }

    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        queries.flatMap { query -> [Result<RouteVerdict, ReachabilityError>] in
            if watched.last?.contains(query.destination) != true { unwatched.withLock { _ = $0.insert(query.destination) } }
            if races.load(ordering: .relaxed) > 0 {
                races.subtract(1, ordering: .relaxed)
                return [.success(.refused(errno: 19))]
            }
            return network.routes(to: [query])
        }
    }
}
