public import Reachability

/// Work as a value: it can be stored, passed on and run any number of times.
///
/// ```swift
/// let refresh = bus.job(policy) { _ in try await api.fetchFeed() }
///     .onlyWhen(isLoggedIn)
///     .onEvent { log.debug("refresh: \($0)") }
/// let feed = try await refresh.value
/// ```
///
/// Each access to ``value``, each iteration of ``events`` and each ``submit(detached:)`` is an independent life: a job of its
/// own on the bus, with its own count of attempts. Thread-safe.
///
/// ## Topics
/// ### Running
/// - ``value``
/// - ``events``
/// - ``submit(detached:)``
/// ### Changing
/// - ``onEvent(_:)``
/// - ``onlyWhen(_:)``
/// - ``repeating(every:)``
public struct Job<Value: Sendable>: Sendable {
    let definition: JobDefinition<Value>

    /// The job's value: runs one life of the job until it succeeds.
    ///
    /// Works like `RetryBus.retry`; cancelling the task cancels the job.
    ///
    /// - Throws: The operation's last error if the job gave up after it; ``RetryError`` if there was no attempt, if time cut it, or
    ///   if the bus rejected the job; `CancellationError` if the task or the job was cancelled.
    public var value: Value {
        get async throws {
            try Task.checkCancellation()
            let iteration = JobIteration(definition)
            while let event = await iteration.next(isolation: #isolation) {
                switch event {
                case .succeeded(let value): return value
                case .gaveUp(let error, _): throw error
                case .cancelled: throw CancellationError()
                case .waiting, .attemptStarted, .attemptSucceeded, .attemptFailed, .backingOff: continue
                }
            }
            throw CancellationError()
        }
    }

    /// The events of a life of the job, which continues when its reader asks for the next event.
    public var events: JobEvents<Value> { JobEvents(definition: definition) }

    /// Submits the job to the bus without waiting for its end.
    ///
    /// The job's handlers (``onEvent(_:)``), ``RetryPolicy/onGiveUp(_:)`` and ``RetryBus/events`` report what happens. The job
    /// outlives its submitter; ``RetryBus/cancel(_:)`` and ``RetryBus/shutdown(drain:)`` end it.
    ///
    /// By default it runs with the task-local values and the priority of its submitter. A task keeps them, which sleeps while the
    /// job waits and takes 1 to 3 kB. A detached job keeps only the priority: it has no task while it waits and takes little more
    /// than 100 bytes.
    ///
    /// - Parameter detached: If `true`, the job runs without its submitter's task-local values. For tens of thousands of waiting
    ///   jobs.
    /// - Returns: The name of this life.
    /// - Throws: ``RetryError/duplicateID`` or ``RetryError/shutDown`` if the bus rejects the job.
    @discardableResult
    public func submit(detached: Bool = false) throws(RetryError) -> JobID {
        var request = definition.request
        (request.wantsWaits, request.isAwaited) = (!definition.handlers.isEmpty, false)
        request.taskPriority = Task.basePriority ?? Task.currentPriority
        if detached { request.definition = definition }
        let handle = try definition.bus.submit(request)
        if !detached { definition.drive(handle) }
        return handle.id
    }

    /// Adds a handler of each event of each life, called after earlier handlers.
    ///
    /// The task that runs a life calls its handlers one at a time, in the order of the events. The next event waits for them, so
    /// handlers should return soon.
    public func onEvent(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> Job {
        Job(definition: definition.adding(handler))
    }

    /// Starts no attempt until every condition is satisfied.
    public func onlyWhen(_ condition: Condition) -> Job { Job(definition: definition.adding(condition)) }

    /// Repeats the job: at once, and at an interval after each success.
    ///
    /// A negative interval is treated as zero.
    public func repeating(every interval: Duration) -> RepeatingJob<Value> {
        RepeatingJob(definition: definition.repeating(every: interval))
    }
}

extension RetryBus {
    /// Creates a job without starting it; see ``Job``.
    ///
    /// The parameters are those of ``retry(_:to:options:isolation:operation:)``. With an `id` the job has one life at a time.
    public func job<Value: Sendable>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        operation: @escaping @Sendable (Attempt) async throws -> Value
    ) -> Job<Value> {
        job(policy, to: scope, options: options) { operation }
    }

    /// Creates a job whose lives each have an operation of their own.
    package func job<Value: Sendable>(
        _ policy: RetryPolicy, to scope: Scope, options: JobOptions,
        makeOperation: @escaping @Sendable () -> @Sendable (Attempt) async throws -> Value
    ) -> Job<Value> {
        let request = JobRequest(policy: policy, scope: scope, options: options)
        return Job(definition: JobDefinition(self, request, makeOperation))
    }
}

/// A job that repeats after each success: see ``Job/repeating(every:)``.
///
/// ```swift
/// try await bus.job { _ in try await inbox.poll() }.repeating(every: .seconds(60)).run()
/// ```
///
/// The policy starts over with each life. The interval counts from the success; neither a reconnect nor
/// ``RetryBus/retryNow(_:ignoringServerDelays:)`` ends it early. If the machine is offline then, the next life begins with the
/// reconnect. The first life that gives up is the last.
public struct RepeatingJob<Value: Sendable>: Sendable {
    let definition: JobDefinition<Value>

    /// The events of all lives; the next life begins after the interval, when its reader asks for it.
    public var events: JobEvents<Value> { JobEvents(definition: definition) }

    /// Runs until a life gives up.
    ///
    /// - Throws: The errors of ``Job/value``; `CancellationError` if the task or the job was cancelled.
    public func run() async throws {
        let iteration = JobIteration(definition)
        while let event = await iteration.next(isolation: #isolation) {
            if case .gaveUp(let error, _) = event { throw error }
            if case .cancelled = event { throw CancellationError() }
        }
        throw CancellationError()
    }

    /// Adds a handler of each event, called after earlier handlers.
    public func onEvent(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> RepeatingJob {
        RepeatingJob(definition: definition.adding(handler))
    }

    /// Starts no attempt until every condition is satisfied.
    public func onlyWhen(_ condition: Condition) -> RepeatingJob { RepeatingJob(definition: definition.adding(condition)) }
}

/// The definition of a cold job of any type, which the bus keeps while the job has no task.
class AnyJobDefinition: @unchecked Sendable {
    // Unchecked because it has subclasses, which have Sendable constants only.

    /// Makes a task that drives the job until there is nothing to do.
    func launch(_ handle: JobHandle, _ priority: TaskPriority) {}
}

/// The definition of a cold job.
final class JobDefinition<Value: Sendable>: AnyJobDefinition, @unchecked Sendable {
    typealias Operation = @Sendable (Attempt) async throws -> Value

    let bus: RetryBus
    /// The request of each life.
    let request: JobRequest
    let handlers: [@Sendable (JobEvent<Value>) -> Void]
    /// The interval between a success and the next life; `nil` if there is one life only.
    let interval: Duration?
    /// Makes the operation of a life, whose attempts may share state.
    let makeOperation: @Sendable () -> Operation

    init(
        _ bus: RetryBus, _ request: JobRequest, handlers: [@Sendable (JobEvent<Value>) -> Void] = [], interval: Duration? = nil,
        _ makeOperation: @escaping @Sendable () -> Operation
    ) {
        self.bus = bus
        self.request = request
        self.handlers = handlers
        self.interval = interval
        self.makeOperation = makeOperation
    }

    /// Returns the job with another condition.
    func adding(_ condition: Condition) -> JobDefinition {
        var request = request
        request.options.conditions.append(condition)
        return JobDefinition(bus, request, handlers: handlers, interval: interval, makeOperation)
    }

    /// Returns the job with another handler, called after earlier ones.
    func adding(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> JobDefinition {
        JobDefinition(bus, request, handlers: handlers + [handler], interval: interval, makeOperation)
    }

    /// Returns the job with an interval.
    func repeating(every interval: Duration) -> JobDefinition {
        JobDefinition(bus, request, handlers: handlers, interval: max(.zero, interval), makeOperation)
    }

    func callHandlers(with event: JobEvent<Value>) {
        for handler in handlers { handler(event) }
    }

    override func launch(_ handle: JobHandle, _ priority: TaskPriority) {
        // Detached: the task that woke the bus is unrelated to the job.
        Task.detached(executorPreference: bus.configuration.executor, priority: priority) { [self] in
            let iteration = JobIteration(self, handle, mayLeave: true)
            while await iteration.next(isolation: nil) != nil {}
        }
    }

    /// Drives a submitted job to its end in a task with its submitter's priority and task-local values.
    func drive(_ handle: JobHandle) {
        _ = bus.task { [self] in
            // The submitter's attempt does not wait for it.
            await RunningAttempt.$current.withValue(nil) {
                let iteration = JobIteration(self, handle, mayLeave: false)
                while await iteration.next(isolation: nil) != nil {}
            }
        }
    }
}
