public import Reachability
internal import Synchronization

extension RetryBus {
    /// Runs an operation until it succeeds, or joins the job of that name: several callers, one job, one result.
    ///
    /// The first call submits a job with its policy and operation, as ``retry(_:to:options:isolation:operation:)`` does. Later
    /// calls with the same name get the job's value or error until it has ended; their other arguments are ignored. The operation
    /// runs in a task of its own with the first caller's priority and task-local values. A caller whose task is cancelled gets
    /// `CancellationError`, and the job continues for the others. The last cancellation cancels the job.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions and priority. The name replaces ``JobOptions/id``.
    ///   - id: The name of the job that callers share.
    ///   - operation: The work. It should end soon after its task is cancelled.
    /// - Returns: The operation's value.
    /// - Throws: The errors of the job's first call; ``RetryError/duplicateID`` if this function did not submit the job of that
    ///   name, if its value has another type, or if the job waits for the calling attempt, which would never end.
    public func retry<Value: Sendable>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(), joining id: JobID,
        operation: @escaping @Sendable (Attempt) async throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        var named = options
        named.id = id
        let (shared, number, isFirst) = try enter(id, Value.self)
        if isFirst {
            let task = task { [self, named] in
                // The attempts that wait for it are those of its callers, who may leave.
                await RunningAttempt.$current.withValue(nil) {
                    // The abandoned job of this name may still be ending.
                    await shared.predecessor?.value
                    let result: Result<Value, any Error>
                    do {
                        let value = try await retry(policy, to: scope, options: named, isolation: nil, operation: operation)
                        result = .success(value)
                    } catch {
                        result = .failure(error)
                    }
                    end(shared, id, result)
                }
            }
            // Before the handler below is set, so that the first caller cannot leave earlier.
            state.withLock { _ in shared.task = task }
        }
        return try await withCancellableContinuation {
            wait(shared, number, $0)
        } onCancel: {
            leave(shared, number)
        }
    }

    /// The number of callers that share a job, for tests.
    package func sharers(of id: JobID) -> Int { state.withLock { $0.sharedJobs[id]?.callers ?? 0 } }

    /// Joins the job of that name, or creates it.
    private func enter<Value: Sendable>(_ id: JobID, _ type: Value.Type) throws(RetryError) -> (SharedJob<Value>, UInt64, Bool) {
        let stack = RunningAttempt.stack.filter { $0.bus == ObjectIdentifier(self) }
        var place: (SharedJob<Value>, UInt64, Bool)?
        change { state, now in
            if state.isAwaited(id, by: stack) { return [] }
            if let known = state.sharedJobs[id], !known.isAbandoned {
                guard let shared = known as? SharedJob<Value> else { return [] }
                place = (shared, shared.enter(stack), false)
                guard let lender = stack.last?.key, let key = state.key(of: id) else { return [] }
                return state.core.lend(lender, to: key, at: now)
            }
            let shared = SharedJob<Value>(after: state.sharedJobs[id]?.task)
            state.sharedJobs[id] = shared
            place = (shared, shared.enter(stack), true)
            return []
        }
        guard let place else { throw .duplicateID }
        return place
    }

    private func wait<Value: Sendable>(
        _ shared: SharedJob<Value>, _ number: UInt64, _ continuation: CheckedContinuation<Value, any Error>
    ) {
        let result = state.withLock { _ in shared.wait(number, continuation) }
        if let result { continuation.resume(with: result) }
    }

    private func leave<Value: Sendable>(_ shared: SharedJob<Value>, _ number: UInt64) {
        let (continuation, task) = state.withLock { _ in (shared.leave(number), shared.isAbandoned ? shared.task : nil) }
        task?.cancel()
        continuation?.resume(throwing: CancellationError())
    }

    private func end<Value: Sendable>(_ shared: SharedJob<Value>, _ id: JobID, _ result: Result<Value, any Error>) {
        let waiting = state.withLock { state in
            if state.sharedJobs[id] === shared { state.sharedJobs[id] = nil }
            return shared.end(result)
        }
        for continuation in waiting { continuation.resume(with: result) }
    }
}

extension RetryBus.State {
    /// The attempts that wait for a job from its submission.
    func attempts(waitingFor id: JobID?, submittedBy submitter: AttemptKey?) -> [AttemptKey] {
        var attempts = id.flatMap { sharedJobs[$0] }?.stacks.values.compactMap { $0.last?.key } ?? []
        if let submitter { attempts.append(submitter) }
        return attempts
    }

    /// Returns true if one of the attempts belongs to the job of this name, or if that job waits for one, over any number of jobs.
    fileprivate func isAwaited(_ id: JobID, by attempts: [RunningAttempt]) -> Bool {
        var (open, seen) = (attempts, Set<JobID>())
        while let attempt = open.popLast() {
            guard let name = attempt.name, core.isRunning(attempt.key) else { continue }
            if name == id { return true }
            if seen.insert(name).inserted { open += sharedJobs[name]?.stacks.values.flatMap(\.self) ?? [] }
        }
        return false
    }
}

/// A shared job of any type.
class AnySharedJob: @unchecked Sendable {
    // Unchecked: all variables are read and written under the lock of the job's bus.

    /// The task that runs the job.
    var task: Task<Void, Never>?
    /// The number of callers that wait for the result.
    var callers: Int { 0 }
    /// The attempts that wait for the result, by caller.
    fileprivate(set) var stacks: [UInt64: [RunningAttempt]] = [:]
    /// True if all callers left before the end.
    var isAbandoned = false
}

/// A job that several callers share.
final class SharedJob<Value: Sendable>: AnySharedJob, @unchecked Sendable {
    /// The task of the abandoned job of the same name before.
    let predecessor: Task<Void, Never>?
    private var waiting: [UInt64: CheckedContinuation<Value, any Error>?] = [:]
    private var left: Set<UInt64> = []
    private var nextNumber: UInt64 = 0
    private var result: Result<Value, any Error>?

    init(after predecessor: Task<Void, Never>?) { self.predecessor = predecessor }

    override var callers: Int { waiting.count }

    /// Adds a caller, with the attempts that it runs in; returns its number.
    func enter(_ stack: [RunningAttempt]) -> UInt64 {
        nextNumber += 1
        waiting[nextNumber] = .some(nil)
        if !stack.isEmpty { stacks[nextNumber] = stack }
        return nextNumber
    }

    /// Lets a caller wait; returns the result if there is one already.
    func wait(_ number: UInt64, _ continuation: CheckedContinuation<Value, any Error>) -> Result<Value, any Error>? {
        if left.remove(number) != nil { return .failure(CancellationError()) }
        if let result { return result }
        waiting[number] = continuation
        return nil
    }

    /// Removes a caller; returns its continuation if it waits.
    func leave(_ number: UInt64) -> CheckedContinuation<Value, any Error>? {
        guard result == nil, let place = waiting.removeValue(forKey: number) else { return nil }
        stacks[number] = nil
        if place == nil { left.insert(number) }
        isAbandoned = waiting.isEmpty
        return place
    }

    /// Sets the result; returns the continuations of the waiting callers.
    func end(_ result: Result<Value, any Error>) -> [CheckedContinuation<Value, any Error>] {
        self.result = result
        stacks = [:]
        defer { waiting = [:] }
        return waiting.values.compactMap(\.self)
    }
}
