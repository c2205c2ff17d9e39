import Reachability
import Synchronization

/// The kernel's network, with an observer that is called on the reader's thread after each delivery.
final class ObservedNetwork: NetworkSource {
    private let kernel: KernelNetwork
    private let observer = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ kernel: KernelNetwork) { self.kernel = kernel }

    /// Sets the observer, before the network runs.
    func observe(_ body: @escaping @Sendable () -> Void) { observer.withLock { $0 = body } }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        let observer = observer.withLock { $0 }
        try await kernel.run { batch in
            defer { observer?() }
            return deliver(batch)
        }
    }

    func wake() { kernel.wake() }
    func didTellConditions() { kernel.didTellConditions() }
    func watch(_ destinations: Set<IPAddress>) { kernel.watch(destinations) }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try kernel.interfaces() }
    func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict { try kernel.route(to: query) }
    func routes(to queries: [RouteQuery]) throws(ReachabilityError) -> [RouteVerdict] { try kernel.routes(to: queries) }
}
