import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport

/// A simulated network that records the watched addresses.
final class WatchedNetwork: SourceWrapper, FilteringSource, HostResolving {
    let network: SimulatedNetwork
    private let sets = Recorder<Set<IPAddress>>()
    private let unwatched = Mutex<Set<IPAddress>>([])
    /// The number of next lookups that fail as for a vanishing interface.
    let races = Atomic(0)

    init(_ network: SimulatedNetwork = .online()) { self.network = network }

    var watched: [Set<IPAddress>] { sets.value }
    var askedUnwatched: Set<IPAddress> { unwatched.withLock { $0 } }

    func watch(_ destinations: Set<IPAddress>) { sets.record(destinations) }

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
