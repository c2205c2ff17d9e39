import Foundation
import Logging
import Reachability
import ReachableJobs
import ReachableRetry
import ServiceLifecycle
import UnixSignals

/// Sends orders until a signal ends the process.
func serve(_ database: String, to url: URL) async throws {
    let monitor = ReachabilityMonitor()
    let bus = RetryBus(monitor)
    let queue = orderQueue(database, bus: bus)
    queue.registerOrders(HTTPWarehouse(url: url))
    // The last service is shut down first: running attempts still need the bus.
    let group = ServiceGroup(
        services: [monitor, bus, queue], gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "orders"))
    // Cancelled when the group has ended.
    async let _: Void = report(queue.events)
    try await group.run()
}

/// Prints a line for each event of the worker.
func report(_ events: AsyncStream<JobQueueEvent>) async {
    for await event in events {
        let job = event.job.map { "\($0)" } ?? ""
        switch event.kind {
        case .attemptStarted(let number): say("\(job) attempt \(number)")
        case .succeeded: say("\(job) sent")
        case .willRetry(let error): say("\(job) failed, and runs again: \(error ?? "")")
        case .failed(let reason, let error): say("\(job) failed for good (\(reason)): \(error ?? "")")
        case .storeFailed(let error?): say("the queue is out of reach: \(error)")
        case .storeFailed(nil): say("the queue is back")
        default: break
        }
    }
}

/// Writes a line at once, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
