import Reachability
import Synchronization

/// The kernel's network, with an observer that is called on the reader's thread after each delivery.
final class ObservedNetwork: FilteringSource, HostResolving, TaskRunningSource {
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
    func runTasks() { kernel.runTasks() }
    func watch(_ addresses: Set<IPAddress>) { kernel.watch(addresses) }
    func resolve(_ host: String) { kernel.resolve(host) }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try kernel.interfaces() }
    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] { kernel.routes(to: queries) }
}
