import Glibc
import Reachability
import Synchronization
import Testing

/// Lost events: more occur than the buffer of a delayed reader holds.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)), .serialized)
struct FloodTests {
    @Test func delayedReaderRecoversAfterFlood() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let source = KernelTap(KernelNetwork(networkNamespace: network.near.path, usesFilter: false))
        let monitor = ReachabilityMonitor(source)
        let running = Task { try await monitor.run() }
        let watcher = Watcher(monitor, .internet, network.near)
        try await watcher.start()
        // Otherwise a re-evaluation could find the lost route before the lost events are noticed.
        try await source.untilSettled()

        source.isHeldUp.store(true, ordering: .releasing)
        // The first event blocks the reader; the kernel queues the rest.
        try await network.near.ip("route add 203.0.113.0/24 via 192.0.2.1")
        try await network.near.ip(
            (0..<60_000).map { "route add 10.\($0 >> 8).\($0 & 255).0/24 via 192.0.2.1" }.joined(separator: "\n"))
        try await network.near.ip((0..<150).map { "link add flood\($0) type veth peer name doolf\($0)" }.joined(separator: "\n"))
        try await network.near.ip("route del default")
        #expect(watcher.path.status == .satisfied)

        // A resync reads more than 60 000 routes.
        let loss = try await watcher.expect(.unsatisfied, .noRoute, delay: .seconds(2)) {
            source.isHeldUp.store(false, ordering: .releasing)
        }
        #expect(loss?.kinds.contains(.resynced) == true)
        #expect(monitor.health.losses >= 1 && monitor.health.resyncs >= 1 && monitor.health.mode == .live)
        #expect(monitor.health.drops > 10_000 && monitor.health.reopens == 0)
        try await watcher.expect(.satisfied) { try await network.near.ip("route add default via 192.0.2.1 dev cable0") }
        try await watcher.expect(.unsatisfied, .adminDown, delay: .seconds(2)) {
            try await network.near.ip("link set cable0 down")
            try await network.near.ip((0..<150).map { "link del flood\($0)" }.joined(separator: "\n"))
        }
        running.cancel()
        try await running.value
    }

    @Test func smallestBufferSurvivesChurn() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        // The kernel raises this to 2304 bytes (SOCK_MIN_RCVBUF, net/sock.h): a few messages.
        let kernel = KernelNetwork(networkNamespace: network.near.path, usesFilter: false, receiveBuffer: 1)
        try await network.watching(on: kernel) { watcher in
            let churn = try Self.churn(in: network.near)
            for await health in watcher.monitor.healthUpdates where health.drops >= 100 { break }
            for _ in 0..<12 {
                try await watcher.expect(.unsatisfied, .noRoute) { try await network.near.ip("route del default") }
                try await watcher.expect(.satisfied) { try await network.near.ip("route add default via 192.0.2.1 dev cable0") }
            }
            // Only a dump reveals the link.
            try await watcher.expect(.unsatisfied, .noCarrier, delay: .seconds(5) + Watcher.carrierDelay) {
                try await network.pull()
            }
            churn.signal(SIGKILL)
            let health = watcher.monitor.health
            #expect(health.receiveBuffer == 2304 && health.losses > 0 && health.resyncs > 0 && health.resyncs <= health.losses)
            // On a slow machine an audit may find the change first.
            #expect(health.reopens == 0)
        }
    }

    /// Adds and removes routes and an address until it is killed.
    private static func churn(in namespace: Namespace) throws -> Child {
        var lines = (0..<200).flatMap { number in
            let route = "10.9.\(number).0/24"
            return ["route add \(route) via 192.0.2.1", "route del \(route) via 192.0.2.1"]
        }
        lines += ["addr add 203.0.113.9/32 dev lo", "addr del 203.0.113.9/32 dev lo"]
        let batch = lines.joined(separator: "\n")
        return try Child(["sh", "-c", "while :; do ip -n \(namespace.name) -force -batch - <<EOF\n\(batch)\nEOF\ndone"])
    }
}
