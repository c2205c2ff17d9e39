import ReachabilityTesting
import ReachableJobs
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct HandoverTests {
    @Test func anotherMachineSendsTheOrder() async throws {
        let clock = ManualClock()
        let store = MemoryStore(clock: clock)
        let (silent, open) = (TestWarehouse(answersAfter: .seconds(3600), clock), TestWarehouse(answersAfter: .zero, clock))
        try await TestWorld(.online(clock: clock)).run { near in
            try await TestWorld(.online(clock: clock)).run { far in
                let queue = startMachine("near", near, store, silent)
                try far.network.pull("eth0")
                let other = startMachine("far", far, store, open)
                try await queue.push(SendOrder(number: 1, item: "lamp"))
                await near.settle()
                #expect(silent.orders.map(\.number) == [1], "the first machine waits for an answer")

                try far.network.plug("eth0")
                await far.settle()
                #expect(open.orders.isEmpty, "a job has one attempt at a time")

                try near.network.pull("eth0")
                await near.clock.advance(by: .seconds(2))
                await far.settle()
                #expect(open.orders.map(\.number) == [1])
                #expect(open.orders.map(\.key) == silent.orders.map(\.key), "the warehouse can tell that it is the same")
                let job = try await queue.jobs()[0]
                #expect(job.state == .succeeded && job.counters.started == 2 && job.counters.charged == 0)
                await queue.shutdown()
                await other.shutdown()
            }
        }
    }

    /// Starts a worker on a machine with a network of its own.
    private func startMachine(_ name: String, _ world: TestWorld, _ store: MemoryStore, _ warehouse: TestWarehouse) -> JobQueue {
        var configuration = JobQueue.Configuration()
        configuration.node = name
        let queue = JobQueue(store, bus: world.bus, configuration: configuration)
        queue.registerOrders(warehouse)
        world.start { await queue.run() }
        return queue
    }
}

/// A warehouse that takes its time.
private final class TestWarehouse: Warehouse {
    private let log = Mutex<[(number: Int, key: String)]>([])
    private let delay: Duration
    private let clock: ManualClock

    init(answersAfter delay: Duration, _ clock: ManualClock) { (self.delay, self.clock) = (delay, clock) }

    var orders: [(number: Int, key: String)] { log.withLock { $0 } }

    func accept(_ order: SendOrder, key: String) async throws {
        log.withLock { $0.append((order.number, key)) }
        try await clock.sleep(for: delay)
    }
}
