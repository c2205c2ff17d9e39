import CSandbox
import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import Testing

/// An event socket that outlives its readers, as a service manager keeps it: a restart misses no event.
@Suite(.tags(.kernel), .enabled(if: Namespaces.isAvailable), .timeLimit(.minutes(10)))
struct EventSocketHandOverTests {
    /// The socket of a service manager, with the groups of Packaging/systemd/system/reachability-netlink.socket.
    private final class ManagersSocket {
        let descriptor: Int32

        init(in namespace: Namespace, receiveBuffer: UInt32 = 16 << 20) throws {
            descriptor = csandbox_listen_netlink(namespace.path, 2_172_913_105, receiveBuffer)
            try #require(descriptor >= 0, "errno \(-descriptor)")
        }

        deinit { close(descriptor) }

        /// The size of the receive buffer.
        var receiveBuffer: Int {
            var (size, length): (Int32, socklen_t) = (0, 4)
            getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, &length)
            return Int(size)
        }

        /// A source on a copy of the descriptor, as each process of a service gets one.
        func source(in namespace: Namespace) throws -> KernelNetwork {
            let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            return try KernelNetwork(takingOver: copy, networkNamespace: namespace.path)
        }
    }

    /// Collects the events of one reader.
    private final class Reader: Sendable {
        private let batches = Rendezvous<[NetworkEventBatch]>([])
        private let running: Task<Void, any Error>

        init(_ source: KernelNetwork) {
            running = Task { [batches] in
                try await source.run { batch in
                    batches.change { $0.append(batch) }
                    return nil
                }
            }
        }

        /// Waits until it has delivered a number of batches.
        func reach(_ count: Int) async throws { try await batches.wait { $0.count >= count } }

        /// Ends it; returns what it delivered.
        func end() async -> [NetworkEventBatch] {
            running.cancel()
            _ = await running.result
            return batches.value
        }
    }

    /// The added addresses in a list of events, in their order.
    private static func added(_ events: [NetworkEvent]) -> [String] {
        events.compactMap { event in
            guard case .address(let address, _) = event.payload, address.address.family == .ipv4 else { return nil }
            return "\(address.address)"
        }
    }

    @Test func thousandChangesDuringTwentyRestartsAreAllReadInOrder() async throws {
        let machine = try await Namespace()
        let manager = try ManagersSocket(in: machine)
        var (batches, sent): ([NetworkEventBatch], [String]) = ([], [])
        // Twenty restarts; the last reader finds what the others have left.
        for run in 0...20 {
            let addresses = run < 20 ? (1...50).map { "10.0.\(run).\($0)" } : []
            sent += addresses
            let lines = addresses.map { "addr add \($0)/32 dev lo" }
            // Before the reader starts, while it runs, and while it ends.
            if !lines.isEmpty { try await machine.ip(lines[..<10].joined(separator: "\n")) }
            let reader = Reader(try manager.source(in: machine))
            async let changes: Void = lines.isEmpty ? () : machine.ip(lines[10...].joined(separator: "\n"))
            try await reader.reach(1)
            if run % 5 == 0 { try await changes }
            batches += await reader.end()
            try await changes
        }
        let events = batches.flatMap(\.events)
        #expect(sent.count == 1000)
        #expect(Self.added(events) == sent)
        #expect(!events.contains(.overrun) && batches.allSatisfy { $0.drops == 0 && $0.reopens == 0 })
    }

    @Test func waitingEventsMakeNoTransitions() async throws {
        let network = try await CabledNetwork()
        try await network.addIPv4()
        let manager = try ManagersSocket(in: network.near)
        // More than a batch holds, if there is room; in the middle of them the cable is unplugged.
        let flaps = manager.receiveBuffer >= 8 << 20 ? 200 : 20
        try await network.near.ip(
            Array(repeating: "link set cable0 down\nlink set cable0 up", count: flaps).joined(separator: "\n")
                + "\nroute add default via 192.0.2.1 dev cable0")
        try await network.watching(on: manager.source(in: network.near)) { watcher in
            #expect(watcher.path.isSatisfied)
            try await watcher.expectSilence(pulling: network) {}
            let health = watcher.monitor.health
            #expect(health.losses == 0 && health.receiveBuffer == manager.receiveBuffer)
            #expect(watcher.monitor.eventCounts[.link] >= 2 * flaps)
        }
    }

    @Test func lossBeforeTheStartIsReported() async throws {
        let machine = try await Namespace()
        let manager = try ManagersSocket(in: machine, receiveBuffer: 1)
        try await machine.ip((0..<50).map { "rule add priority \(1000 + $0) to 203.0.113.0/24 prohibit" }.joined(separator: "\n"))
        let reader = Reader(try manager.source(in: machine))
        try await reader.reach(1)
        let first = try #require(await reader.end().first)
        #expect(first.events.contains(.overrun) && first.events.count > 1)
        // The drops of one reader are none of the next one's.
        let next = Reader(try manager.source(in: machine))
        try await next.reach(1)
        #expect(await next.end().allSatisfy { !$0.events.contains(.overrun) && $0.drops == 0 })
    }

    @Test func otherDescriptorsAreRefused() async throws {
        let machine = try await Namespace()
        let manager = try ManagersSocket(in: machine)
        // Of another namespace than this process's.
        let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        for (descriptor, errno) in [(manager.descriptor, EXDEV), (file, ENOTSOCK), (-1, EBADF)] {
            let error = #expect(throws: ReachabilityError.self) { _ = try KernelNetwork(takingOver: descriptor) }
            #expect(error?.code == .invalidSocket && error?.errno == errno)
        }
        #expect(fcntl(manager.descriptor, F_GETFD) >= 0, "a refused descriptor stays open")
    }
}
