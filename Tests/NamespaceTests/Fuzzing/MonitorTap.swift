import Reachability
import Synchronization

/// The kernel as a source, where one can see how far the monitor has come.
///
/// A route to an address that the monitor does not ask about serves as a mark: the filter lets it through for the tap's sake, and
/// the monitor, whom it does not concern, does nothing about it. When it has passed, so has all that was announced before.
final class MonitorTap: FilteringSource {
    /// Lines for `ip -batch` that send two marks.
    static let marks = ["route add blackhole \(mark)/32 table 9000", "route del blackhole \(mark)/32 table 9000"]
    private static let mark = "203.0.113.1"

    private struct Guarded {
        var marks = 0
        var isWaiting = false
    }

    private let kernel: KernelNetwork
    private let beat: AsyncStream<Void>.Continuation
    private let guarded = Mutex(Guarded())

    init(_ kernel: KernelNetwork, _ beat: AsyncStream<Void>.Continuation) {
        self.kernel = kernel
        self.beat = beat
    }

    /// How many marks have passed.
    var marks: Int { guarded.withLock(\.marks) }

    /// Whether the monitor has nothing left to do but wait for events, or for a path to have lasted, which takes seconds.
    ///
    /// That is so if it does not audit.
    var isWaiting: Bool { guarded.withLock(\.isWaiting) }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await kernel.run { [self] batch in
            let wait = deliver(batch)
            guarded.withLock { guarded in
                guarded.marks += batch.events.count(where: Self.isMark)
                guarded.isWaiting = (wait ?? .seconds(1)) >= .milliseconds(200) && !batch.hasMore
            }
            beat.yield()
            return wait
        }
    }

    private static func isMark(_ event: NetworkEvent) -> Bool {
        guard case .route(let change) = event.payload else { return false }
        return change.destination.address.description == mark && change.destination.length == 32
    }

    func wake() { kernel.wake() }

    func watch(_ destinations: Set<IPAddress>) { kernel.watch(destinations.union([Self.mark].compactMap { IPAddress($0) })) }

    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try kernel.interfaces() }

    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] { kernel.routes(to: queries) }
}
