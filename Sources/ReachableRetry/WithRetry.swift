public import Reachability

/// Runs an operation until it succeeds, for work that needs no bus of its own.
///
/// It does what ``RetryBus/retry(_:to:options:isolation:operation:)`` does.
/// With `ReachabilityMonitor.shared` all such calls use ``RetryBus/shared``; with another monitor, which somebody has to run, each
/// has a bus of its own.
///
/// - Parameters:
///   - policy: when to try again, and when to give up.
///   - monitor: tells about the network.
///   - isolation: where the operation runs; by default the caller's actor.
///   - operation: the work.
/// - Returns: What the operation returned.
/// - Throws: As `RetryBus.retry` does.
public func withRetry<Value>(
    _ policy: RetryPolicy = .default, on monitor: ReachabilityMonitor = .shared,
    isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
) async throws -> Value {
    let bus = monitor === ReachabilityMonitor.shared ? RetryBus.shared : RetryBus(monitor)
    return try await bus.retry(policy, isolation: isolation, operation: operation)
}
