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

/// One attempt of a job whose state is kept elsewhere, which the bus has accepted: it has to be run.
///
/// Such a job has one life per attempt. Gate, limits, conditions, budget and backoff are those of any job.
package struct StoredAttempt: Sendable {
    fileprivate let driver: JobDriver

    /// Waits until the attempt may start, runs it, and returns what follows.
    ///
    /// Cancelling the calling task cancels the job.
    package func run<Value: Sendable>(_ operation: @Sendable (Attempt) async throws -> Value) async -> AttemptEnd<Value> {
        while true {
            switch await driver.next() {
            case .start(let attempt):
                if case .succeeded(let value) = await driver.run(attempt, isolation: nil, operation) {
                    return .succeeded(value, started: attempt.number)
                }
            case .ended(let end):
                defer { driver.bus.noteEndHandled() }
                if let handBack = end.handBack { return .handedBack(handBack, end.lastError ?? CancellationError()) }
                return driver.conclude(end).report.map(AttemptEnd.gaveUp) ?? .cancelled
            case .waiting, .announced, .left: continue
            }
        }
    }
}

extension RetryBus {
    /// Submits one attempt of a job whose state is kept elsewhere.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - past: The counts of earlier attempts.
    /// - Throws: ``RetryError/duplicateID`` or ``RetryError/shutDown`` if the bus rejects the job.
    // Apart from `run`, whose frame would keep all of this while the job waits.
    package func submitAttempt(
        _ policy: RetryPolicy, to scope: Scope, options: JobOptions, past: JobPast
    ) throws(RetryError) -> StoredAttempt {
        var request = JobRequest(policy: policy, scope: scope, options: options)
        (request.past, request.isAwaited) = (past, false)
        return StoredAttempt(driver: JobDriver(bus: self, handle: try submit(request), policy: policy))
    }
}
