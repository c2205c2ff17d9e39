import Glibc
import Reachability
import Synchronization
import Testing

/// Losses of events: the reader is held up while more happens than its buffer holds.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(3)), .serialized)
struct FloodTests {
    @Test func aReaderThatWasHeldUpDuringAFloodSeesWhatIsSo() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let source = HeldUpSource(KernelNetwork(networkNamespace: network.near.path))
        let monitor = ReachabilityMonitor(source)
        let running = Task { try await monitor.run() }
        let watcher = Watcher(monitor, .internet, network.near)
        try await watcher.start()

        source.isHeldUp.store(true, ordering: .releasing)
        // The first event is delivered into the hold; the rest piles up in the kernel.
        try await network.near.ip("route add 203.0.113.0/24 via 192.0.2.1")
        try await network.near.ip(
            (0..<60_000).map { "route add 10.\($0 >> 8).\($0 & 255).0/24 via 192.0.2.1" }.joined(separator: "\n"))
        try await network.near.ip((0..<150).map { "link add flood\($0) type veth peer name doolf\($0)" }.joined(separator: "\n"))
        try await network.near.ip("route del default")
        #expect(watcher.path.status == .satisfied)

        let loss = try await watcher.expect(.unsatisfied, .noRoute) { source.isHeldUp.store(false, ordering: .releasing) }
        #expect(loss?.kinds.contains(.resynced) == true)
        #expect(monitor.health.losses >= 1 && monitor.health.resyncs >= 1 && monitor.health.mode == .live)
        try await watcher.expect(.satisfied) { try await network.near.ip("route add default via 192.0.2.1 dev cable0") }
        try await watcher.expect(.unsatisfied, .adminDown) {
            try await network.near.ip("link set cable0 down")
            try await network.near.ip((0..<150).map { "link del flood\($0)" }.joined(separator: "\n"))
        }
        running.cancel()
        try await running.value
    }
}

/// The kernel, with a consumer that can be stopped like a process by SIGSTOP.
private final class HeldUpSource: NetworkSource {
    let isHeldUp = Atomic(false)
    private let kernel: KernelNetwork

    init(_ kernel: KernelNetwork) { self.kernel = kernel }

    func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await kernel.run { [self] batch in
            while isHeldUp.load(ordering: .acquiring) { sched_yield() }
            return deliver(batch)
        }
    }

    func wake() { kernel.wake() }
    func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try kernel.interfaces() }
    func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict { try kernel.route(to: query) }
}
