internal import Synchronization

/// One run of a job's operation, as the operation is told of it.
public struct Attempt: Sendable {
    /// The number of the attempt; the first is 1.
    ///
    /// Attempts that the network broke off count here, too.
    public var number: Int
    /// Why the attempt before failed; `nil` for the first.
    public var previousFailure: (any Error)?
    /// How long the attempt may take, counted from its start; `nil` if nothing limits it.
    ///
    /// The attempt's timeout or what is left until the job's timeLimit, whichever is less. Then it is cancelled.
    public var timeLimit: Duration?
    /// Counts the reconnects: how often what the job waits for had become available when the attempt started.
    ///
    /// To be compared with the epoch of another attempt of the same job. If they differ, the network was away or changed in
    /// between: connections that were kept are likely dead.
    public var epoch: UInt64

    /// Has the bus note that the attempt gets somewhere.
    var progress: (@Sendable () -> Void)?

    /// Reports that the operation gets somewhere, such as that the server answers or takes data.
    ///
    /// That proves the way to the destination: other jobs need not wait until this attempt has ended. For operations that take
    /// long; a success is reported without it. It does not reset the count of charged attempts, nor extend a limit. May be called
    /// from any thread, and any number of times. Does nothing after the attempt's end, and for an attempt without a bus.
    public func reportProgress() { progress?() }

    /// Makes an attempt, to call an operation without a bus.
    public init(number: Int = 1, previousFailure: (any Error)? = nil, timeLimit: Duration? = nil, epoch: UInt64 = 0) {
        self.number = number
        self.previousFailure = previousFailure
        self.timeLimit = timeLimit
        self.epoch = epoch
    }
}

extension RetryBus {
    /// Runs one attempt in a task of its own, so that it can be cancelled without its caller, and awaits it whatever happens.
    ///
    /// Not a child task: a group resumes its parent through the executor even if all is done, which is a detour of tens of
    /// microseconds on the main actor. The caller's cancellation comes here through the bus, its priority through a handler.
    func perform<Value>(
        _ attempt: Attempt, _ handle: JobHandle, isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async -> Result<Value, any Error> {
        let attemptTask = AttemptTask()
        guard attemptBegins(handle, attemptTask) else { return .failure(CancellationError()) }
        let trace = beginTrace(handle, attempt)
        let running = RunningAttempt(bus: ObjectIdentifier(self), attempt: ParentAttempt(handle.key, attempt.number))
        return await withoutActuallyEscaping(operation) { operation in
            let run = AttemptRun(operation)
            // Starts here and now: an operation that does not suspend costs no switch of tasks.
            let task = JobTrace.propagate(trace) {
                Task.immediate(executorPreference: Self.preferredExecutor ?? configuration.executor) {
                    // Captured, so that the task is isolated like its caller.
                    _ = isolation
                    attemptTask.begin()
                    await RunningAttempt.$current.withValue(running) { await run.perform(attempt) }
                }
            }
            attemptTask.keep(task)
            await withTaskPriorityEscalationHandler {
                await task.value
            } onPriorityEscalated: { _, priority in
                task.escalatePriority(to: priority)
            }
            return run.result ?? .failure(CancellationError())
        }
    }

    /// Where the caller's task prefers to run: a task of its own does not inherit that (SE-0417), as a child would.
    private static var preferredExecutor: (any TaskExecutor)? {
        #if compiler(>=6.3)
        withUnsafeCurrentTask { $0?.unownedTaskExecutor?.asTaskExecutor() }
        #else
        nil
        #endif
    }
}

/// The attempt that a task runs in: jobs that it submits to the same bus use its place.
struct RunningAttempt: Sendable {
    @TaskLocal static var current: RunningAttempt?

    let bus: ObjectIdentifier
    let attempt: ParentAttempt
}

/// Cancels an attempt from any thread, from the operation's first instruction on.
///
/// An attempt begins on the thread that creates its task, before anyone has a handle of that task: an operation that never suspends
/// would run to its end out of reach.
final class AttemptTask: Sendable {
    private struct State {
        var isCancelled = false
        /// The task as it sees itself, until its creator has a handle.
        var current: Current?
        var task: Task<Void, Never>?
    }

    /// Sendable: only `cancel()` is called, which any thread may call as long as the task has not been released.
    private struct Current: @unchecked Sendable {
        let task: UnsafeCurrentTask
    }

    private let state = Mutex(State())

    /// Called by the task, before its operation.
    func begin() {
        let current = withUnsafeCurrentTask { $0.map(Current.init) }
        let isCancelled = state.withLock { state in
            if state.task == nil { state.current = current }
            return state.isCancelled
        }
        if isCancelled { cancel() }
    }

    /// Called by the task's creator, which holds the task until then.
    func keep(_ task: Task<Void, Never>) {
        state.withLock { state in
            (state.task, state.current) = (task, nil)
        }
    }

    /// Cancels the task, or has it cancel itself when it begins.
    func cancel() {
        let (task, current) = state.withLock { state in
            state.isCancelled = true
            return (state.task, state.current)
        }
        // Outside of the lock: cancellation handlers run here.
        if let task { task.cancel() } else { current?.task.cancel() }
        // The creator holds the task until `keep`, and this object holds it after that: it outlives the call.
        withExtendedLifetime(self) {}
    }
}

/// One attempt and its result.
///
/// Sendable although neither operation nor result need be: the task that uses them has its caller's isolation, and the caller
/// does nothing but wait from its start to its end. What the task wrote is read after it was awaited.
private final class AttemptRun<Value>: @unchecked Sendable {
    private let operation: (Attempt) async throws -> Value
    private(set) var result: Result<Value, any Error>?

    init(_ operation: @escaping (Attempt) async throws -> Value) { self.operation = operation }

    func perform(_ attempt: Attempt) async {
        do { result = .success(try await operation(attempt)) } catch { result = .failure(error) }
    }
}
