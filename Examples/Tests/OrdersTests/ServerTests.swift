import Foundation
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import Testing

/// Uses the server that `PGHOST` names, and a simulated network.
@Suite(.timeLimit(.minutes(1)), .enabled(if: ProcessInfo.processInfo.environment["PGHOST"] != nil)) struct ServerTests {
    @Test func anOrderOfTheDatabaseIsSent() async throws {
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let running = Task { try await monitor.run() }
        defer { running.cancel() }
        // A queue of its own: other tests use the same database.
        let queue = orderQueue("", bus: RetryBus(monitor, clock: ContinuousClock()), name: UUID().uuidString)
        let warehouse = KeptOrders()
        queue.registerOrders(warehouse)
        try await queue.push(SendOrder(number: 1, item: "lamp"))
        _ = await queue.runUntilEmpty()
        #expect(warehouse.numbers == [1])
        #expect(try await queue.jobs().map(\.state) == [.succeeded])
    }
}

/// A warehouse in memory.
private final class KeptOrders: Warehouse {
    private let log = Mutex<[Int]>([])

    var numbers: [Int] { log.withLock { $0 } }

    func accept(_ order: SendOrder, key: String) async throws { log.withLock { $0.append(order.number) } }
}
