import Foundation
import Reachability
import ReachableRetry

func upload(_ photo: Data, over bus: RetryBus, monitor: ReachabilityMonitor, send: (Data) async throws -> Void) async throws {
    try await bus.retry(options: JobOptions(when: [monitor.validatedCondition])) { _ in  // waits behind a portal
        try await send(photo)
    }
}
