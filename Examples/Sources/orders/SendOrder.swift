import ReachableHTTP
import ReachableJobs
import ReachableRetry

/// A job: the warehouse gets an order.
struct SendOrder: JobParameters {
    static let jobName = "send order"
    var number: Int
    var item: String

    /// All jobs go to one server, which may order a delay for all.
    var options: DurableOptions { DurableOptions(destination: "warehouse") }
}

/// The server of the warehouse.
protocol Warehouse: Sendable {
    /// Accepts an order; a request with a key that the warehouse has seen changes nothing.
    func accept(_ order: SendOrder, key: String) async throws
}

extension JobQueue {
    /// Registers the handlers of all kinds of jobs.
    func registerOrders(_ warehouse: some Warehouse) {
        registerJob(parameters: SendOrder.self, policy: .orders) { order, attempt in
            try await warehouse.accept(order, key: attempt.idempotencyKey)
        }
    }
}

extension RetryPolicy {
    /// Tries until the warehouse has the order or refuses it.
    static let orders = RetryPolicy(.exponential(initial: .milliseconds(500), maximum: .seconds(300)).jitter(.full))
        .giveUpAfter(maxAttempts: nil)
        .attemptTimeout(.seconds(60))
        .interruptsAttempt(.whenUnsatisfied(grace: .seconds(2)))
        .classifyingHTTP()
}
