import Dispatch
import Reachability
import Synchronization
import TestSupport
import Testing

/// Requests from other threads beside the reader.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct ConcurrentRequestTests {
    @Test func busyReaderBlocksNoOtherThread() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let source = HaltingSource(KernelNetwork(networkNamespace: network.near.path))
        try await network.watching(on: source) { watcher in
            let monitor = watcher.monitor
            var iterator = source.halts.makeAsyncIterator()
            source.haltNext()
            try await network.near.ip("route del default")
            // The reader is inside a lookup now.
            _ = await iterator.next(isolation: #isolation)
            let paths = try await withCheckedThrowingContinuation { continuation in
                detachThread {
                    var bound = Scope.internet
                    bound.interface = "cable0"
                    let scopes = [Scope.internet, bound] + [IPAddress("192.0.2.77")].compactMap(\.self).map { .address($0) }
                    continuation.resume(with: Result { try scopes.map { try monitor.path(to: $0) } })
                }
            }
            #expect(
                paths.map(\.description) == [
                    "unsatisfied: no route", "unsatisfied: no route", "satisfied via cable0, source 192.0.2.10, IPv4",
                ])
            #expect(monitor.path.isSatisfied, "the reader has not gone on")
            // One dump, for the baseline.
            #expect(source.dumps == 1)
            try await watcher.expect(.unsatisfied, .noRoute) { source.goOn() }
        }
    }
}

/// The kernel, with a reader that can be halted inside a lookup.
private final class HaltingSource: SourceWrapper, FilteringSource {
    /// The halts of the reader.
    let halts: AsyncStream<Void>
    private let halt: AsyncStream<Void>.Continuation
    let network: KernelNetwork
    private let isArmed = Atomic(false)
    private let gate = DispatchSemaphore(value: 0)
    private let dumpCount = Atomic(0)

    init(_ network: KernelNetwork) {
        self.network = network
        (halts, halt) = AsyncStream.makeStream()
    }

    /// The number of dumps.
    var dumps: Int { dumpCount.load(ordering: .acquiring) }

    /// Halts the next lookup.
    func haltNext() { isArmed.store(true, ordering: .releasing) }

    func goOn() { gate.signal() }

    func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        dumpCount.add(1, ordering: .acquiringAndReleasing)
        return try network.interfaces()
    }

    func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        if isArmed.exchange(false, ordering: .acquiringAndReleasing) {
            halt.yield()
            gate.wait()
        }
        return network.routes(to: queries)
    }
}
