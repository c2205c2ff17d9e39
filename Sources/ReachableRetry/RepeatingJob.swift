public import Reachability

/// A job that begins anew after each success: see ``Job/repeating(every:)``.
///
/// ```swift
/// try await bus.job { _ in try await inbox.poll() }.repeating(every: .seconds(60)).run()
/// ```
///
/// The policy starts anew with each life. The interval counts from the success, and neither a reconnect nor
/// ``RetryBus/retryNow(_:ignoringServerDelays:)`` cuts it short;
/// if the network is away when it is over, the next life begins when it is back. The first life that gives up is the last.
public struct RepeatingJob<Value: Sendable>: Sendable {
    let plan: JobPlan<Value>

    /// What happens, life after life; the next one begins when it is asked for, and not before the interval is over.
    public var events: JobEvents<Value> { JobEvents(plan: plan) }

    /// Runs until a life gives up.
    ///
    /// - Throws: What a caller of ``Job/value`` would get; `CancellationError` if the task or the job was cancelled.
    public func run() async throws {
        let life = JobLife(plan, isPulled: false)
        while let event = await life.next(isolation: #isolation) {
            if case .gaveUp(let error, _) = event { throw error }
            if case .cancelled = event { throw CancellationError() }
        }
        throw CancellationError()
    }

    /// Has a handler called with each event, after those that were given before.
    public func onEvent(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> RepeatingJob {
        RepeatingJob(plan: plan.adding(handler))
    }

    /// Has no attempt start while a condition is not satisfied; of several all have to be.
    public func onlyWhen(_ condition: Condition) -> RepeatingJob { RepeatingJob(plan: plan.adding(condition)) }
}
