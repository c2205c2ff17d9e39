public import Reachability
internal import Synchronization

extension RetryBus {
    /// Runs an operation until it succeeds, or joins the job of that name: several callers, one job, one result.
    ///
    /// The first caller's job is submitted as ``retry(_:to:options:isolation:operation:)`` does, with its
    /// policy and its operation. Whoever calls with the same name before it has ended gets its value or error; what else they pass
    /// is of no account. The operation runs in a task of its own with the first caller's priority and task-local values. A caller
    /// whose task is cancelled gets `CancellationError` and leaves the others their job; when the last one has left, it is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - policy: when to try again, and when to give up.
    ///   - scope: what has to be reached.
    ///   - options: The job's destination, conditions and priority; ``JobOptions/id`` is replaced by the name.
    ///   - id: The name of the job that callers share.
    ///   - operation: the work. It should end soon when its task is cancelled.
    /// - Returns: What the operation returned.
    /// - Throws: What the job's first caller would get; ``RetryError/duplicateID`` if the job of that name was not submitted by
    ///   this function, or if its value is of another type.
    public func retry<Value: Sendable>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(), joining id: JobID,
        operation: @escaping @Sendable (Attempt) async throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        var named = options
        named.id = id
        let (shared, number, isFirst) = try enter(id, Value.self)
        if isFirst {
            let task = Task(executorPreference: configuration.executor) { [self, named] in
                // The one that all have left may still be ending.
                await shared.predecessor?.value
                let result: Result<Value, any Error>
                do {
                    let value = try await retry(
                        policy, to: scope, options: named, isolation: nil, operation: operation)
                    result = .success(value)
                } catch {
                    result = .failure(error)
                }
                end(shared, id, result)
            }
            // Before the first caller can leave, which its handler below does.
            state.withLock { _ in shared.task = task }
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait(shared, number, $0) }
        } onCancel: {
            leave(shared, number)
        }
    }

    /// How many callers share a job, for tests.
    package func sharers(of id: JobID) -> Int { state.withLock { $0.sharedJobs[id]?.callers ?? 0 } }

    /// Finds the job of that name, or makes the place for one.
    private func enter<Value: Sendable>(_ id: JobID, _ type: Value.Type) throws(RetryError) -> (SharedJob<Value>, UInt64, Bool) {
        let place = state.withLock { state -> (SharedJob<Value>, UInt64, Bool)? in
            if let known = state.sharedJobs[id], !known.isAbandoned {
                guard let shared = known as? SharedJob<Value> else { return nil }
                return (shared, shared.enter(), false)
            }
            let shared = SharedJob<Value>(after: state.sharedJobs[id]?.task)
            state.sharedJobs[id] = shared
            return (shared, shared.enter(), true)
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

/// A job that several callers share, whatever its value is.
class AnySharedJob: @unchecked Sendable {
    // Unchecked: what varies is read and written under the lock of the job's bus only.

    /// The task that runs the job.
    var task: Task<Void, Never>?
    /// How many want its result.
    var callers: Int { 0 }
    /// Whether all who wanted it have left before its end.
    var isAbandoned = false
}

/// A job that several callers share.
final class SharedJob<Value: Sendable>: AnySharedJob, @unchecked Sendable {
    /// The one before, which all have left.
    let predecessor: Task<Void, Never>?
    private var waiting: [UInt64: CheckedContinuation<Value, any Error>?] = [:]
    private var left: Set<UInt64> = []
    private var nextNumber: UInt64 = 0
    private var result: Result<Value, any Error>?

    init(after predecessor: Task<Void, Never>?) { self.predecessor = predecessor }

    override var callers: Int { waiting.count }

    /// One more caller, by a number.
    func enter() -> UInt64 {
        nextNumber += 1
        waiting[nextNumber] = .some(nil)
        return nextNumber
    }

    /// A caller waits, unless there is a result for it already.
    func wait(_ number: UInt64, _ continuation: CheckedContinuation<Value, any Error>) -> Result<Value, any Error>? {
        if left.remove(number) != nil { return .failure(CancellationError()) }
        if let result { return result }
        waiting[number] = continuation
        return nil
    }

    /// A caller no longer wants it; returns what it waits with, if it does.
    func leave(_ number: UInt64) -> CheckedContinuation<Value, any Error>? {
        guard result == nil, let place = waiting.removeValue(forKey: number) else { return nil }
        if place == nil { left.insert(number) }
        isAbandoned = waiting.isEmpty
        return place
    }

    /// The result is there; returns those who wait for it.
    func end(_ result: Result<Value, any Error>) -> [CheckedContinuation<Value, any Error>] {
        self.result = result
        defer { waiting = [:] }
        return waiting.values.compactMap(\.self)
    }
}
