package import Reachability

/// The end of one attempt of a durable job.
package enum AttemptEnd<Value: Sendable>: Sendable {
    /// It succeeded; with the number of started attempts.
    case succeeded(Value, started: Int)
    /// It failed, and the job goes on in another life.
    case handedBack(HandBack, any Error)
    /// The job gave up.
    case gaveUp(GiveUp)
    /// The caller's task, or the bus's shutdown, cancelled it.
    case cancelled
}

extension RetryBus {
    /// Waits until a job may start an attempt, runs it, and returns what follows.
    ///
    /// A job whose state is kept elsewhere has one life per attempt. Gate, limits, conditions, budget and backoff are those of any
    /// job. Cancelling the calling task cancels the job.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - past: The counts of earlier attempts.
    ///   - operation: The work.
    /// - Throws: ``RetryError/duplicateID`` or ``RetryError/shutDown`` if the bus rejects the job.
    package func runAttempt<Value: Sendable>(
        _ policy: RetryPolicy, to scope: Scope, options: JobOptions, past: JobPast,
        operation: @Sendable (Attempt) async throws -> Value
    ) async throws(RetryError) -> AttemptEnd<Value> {
        var request = JobRequest(policy: policy, scope: scope, options: options)
        request.past = past
        let driver = JobDriver(bus: self, handle: try submit(request), policy: policy)
        while true {
            switch await driver.next() {
            case .start(let attempt):
                if case .succeeded(let value) = await driver.run(attempt, isolation: nil, operation) {
                    return .succeeded(value, started: attempt.number)
                }
            case .ended(let end):
                defer { noteEndHandled() }
                if let handBack = end.handBack { return .handedBack(handBack, end.lastError ?? CancellationError()) }
                return driver.conclude(end).report.map(AttemptEnd.gaveUp) ?? .cancelled
            case .waiting, .left: continue
            }
        }
    }
}
