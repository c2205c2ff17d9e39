import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport

/// The kernel as a source that counts route events and requests, and that can stop its consumer as SIGSTOP stops a process.
final class KernelTap: SourceWrapper, FilteringSource {
    let isHeldUp = Atomic(false)
    let network: KernelNetwork
    private let count = Atomic(0)
    private let settled = Rendezvous(false)
    private let lookups = Atomic(0)
    private let dumpCount = Atomic(0)

    init(_ network: KernelNetwork) { self.network = network }

    /// The number of delivered route events.
    var routes: Int { count.load(ordering: .acquiring) }

    /// Returns the numbers of lookups and dumps since the last call.
    func takeRequests() -> (lookups: Int, dumps: Int) {
        (lookups.exchange(0, ordering: .acquiringAndReleasing), dumpCount.exchange(0, ordering: .acquiringAndReleasing))
    }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await network.run { [self] batch in
            while isHeldUp.load(ordering: .acquiring) { sched_yield() }
            let routes = batch.events.count { if case .route = $0.payload { true } else { false } }
            count.add(routes, ordering: .acquiringAndReleasing)
            settled.change { $0 = false }
            let pause = deliver(batch)
            settled.change { $0 = pause.map { $0 > .seconds(1) } ?? true }
            return pause
        }
    }

    /// Suspends until no re-evaluation is due: only an event or an audit leads to the next verdict.
    func untilSettled() async throws { try await settled.wait { $0 } }

    func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        dumpCount.add(1, ordering: .acquiringAndReleasing)
        return try network.interfaces()
    }

    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        lookups.add(queries.count, ordering: .acquiringAndReleasing)
        return network.routes(to: queries)
    }
}
