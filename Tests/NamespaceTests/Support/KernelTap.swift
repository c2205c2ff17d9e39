import Glibc
import Reachability
import ReachabilityTesting
import Synchronization

/// The kernel, with counts of the routes that it tells of and of the questions that it is asked, and a consumer that can be
/// stopped like a process by SIGSTOP.
final class KernelTap: FilteringSource {
    let isHeldUp = Atomic(false)
    private let kernel: KernelNetwork
    private let count = Atomic(0)
    private let settled = Rendezvous(false)
    private let questions = Atomic(0)
    private let dumpCount = Atomic(0)

    init(_ kernel: KernelNetwork) { self.kernel = kernel }

    /// How many events about routes were delivered.
    var routes: Int { count.load(ordering: .acquiring) }

    /// How many look-ups were made since this was last called, and how many dumps.
    func takeRequests() -> (lookups: Int, dumps: Int) {
        (questions.exchange(0, ordering: .acquiringAndReleasing), dumpCount.exchange(0, ordering: .acquiringAndReleasing))
    }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await kernel.run { [self] batch in
            while isHeldUp.load(ordering: .acquiring) { sched_yield() }
            let routes = batch.events.count { if case .route = $0.payload { true } else { false } }
            count.add(routes, ordering: .acquiringAndReleasing)
            settled.change { $0 = false }
            let pause = deliver(batch)
            settled.change { $0 = pause.map { $0 > .seconds(1) } ?? true }
            return pause
        }
    }

    /// Suspends until nothing is to be looked at again because of a hint: only an event or an audit leads to a verdict then.
    func untilSettled() async throws { try await settled.wait { $0 } }

    func wake() { kernel.wake() }
    func watch(_ destinations: Set<IPAddress>) { kernel.watch(destinations) }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        dumpCount.add(1, ordering: .acquiringAndReleasing)
        return try kernel.interfaces()
    }

    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        questions.add(queries.count, ordering: .acquiringAndReleasing)
        return kernel.routes(to: queries)
    }
}
