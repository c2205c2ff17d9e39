public import Reachability

/// Work that has not begun: a value that can be kept, passed on, and run any number of times.
///
/// ```swift
/// let refresh = bus.job(policy) { _ in try await api.fetchFeed() }
///     .onlyWhen(isLoggedIn)
///     .onEvent { log.debug("refresh: \($0)") }
/// let feed = try await refresh.value
/// ```
///
/// Each access to ``value``, each iteration of ``events`` and each ``submit(detached:)`` is an independent life: a job of its
/// own on the bus, with its own count of attempts. Safe to use from any thread.
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

    /// Runs the job until it succeeds, and returns its value: one life.
    ///
    /// As `RetryBus.retry` does; a cancelled task cancels the job.
    ///
    /// - Throws: The operation's last error if the job gave up after it; ``RetryError`` if there was no attempt, if time cut it, or
    ///   if the bus does not take the job; `CancellationError` if the task or the job was cancelled.
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

    /// What happens in a life of the job, which goes on when the next event is asked for.
    public var events: JobEvents<Value> { JobEvents(definition: definition) }

    /// Submits the job to the bus as a life that no caller waits for, and returns at once.
    ///
    /// What happens goes to the job's handlers (``onEvent(_:)``), to ``RetryPolicy/onGiveUp(_:)`` and to ``RetryBus/events``. The
    /// job lives on without its submitter; ``RetryBus/cancel(_:)`` and ``RetryBus/shutdown(drain:)`` end it.
    ///
    /// By default it runs with the task-local values and the priority of its submitter. They live in a task that sleeps while the
    /// job waits, which takes one to three kilobytes. A detached job keeps the priority only: it has no task while it waits, and
    /// takes little more than a hundred bytes.
    ///
    /// - Parameter detached: Whether the job runs without its submitter's task-local values. For jobs that may wait by the ten
    ///   thousand.
    /// - Returns: The name of this life.
    /// - Throws: ``RetryError/duplicateID`` or ``RetryError/shutDown`` if the bus does not take it.
    @discardableResult
    public func submit(detached: Bool = false) throws(RetryError) -> JobID {
        var request = definition.request
        (request.wantsWaits, request.taskPriority) = (!definition.handlers.isEmpty, Task.basePriority ?? Task.currentPriority)
        if detached { request.definition = definition }
        let handle = try definition.bus.submit(request)
        if !detached { definition.drive(handle) }
        return handle.id
    }

    /// Calls a handler with each event of each life, after the handlers that were given before.
    ///
    /// The handlers of a life are called one at a time and in the order of the events, by the task that runs the life. The next
    /// event waits meanwhile: a handler should return soon.
    public func onEvent(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> Job {
        Job(definition: definition.adding(handler))
    }

    /// Has no attempt start while a condition is not satisfied; of several all have to be.
    public func onlyWhen(_ condition: Condition) -> Job { Job(definition: definition.adding(condition)) }

    /// Runs the job again and again: at once, and so long after each success.
    ///
    /// Below zero counts as zero.
    public func repeating(every interval: Duration) -> RepeatingJob<Value> {
        RepeatingJob(definition: definition.repeating(every: interval))
    }
}

extension RetryBus {
    /// Makes a job that has not begun.
    ///
    /// The parameters are those of ``retry(_:to:options:isolation:operation:)``; with an `id` there is one
    /// life at a time. Nothing happens before somebody asks: see ``Job``.
    public func job<Value: Sendable>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        operation: @escaping @Sendable (Attempt) async throws -> Value
    ) -> Job<Value> {
        let request = JobRequest(policy: policy, scope: scope, options: options)
        return Job(definition: JobDefinition(self, request) { JobInstance(policy, operation) })
    }

    /// Makes a job whose lives have a policy and an operation of their own each; these count by `policy`'s rules.
    package func job<Value: Sendable>(
        _ policy: RetryPolicy, to scope: Scope, options: JobOptions, instance: @escaping @Sendable () -> JobInstance<Value>
    ) -> Job<Value> {
        let request = JobRequest(policy: policy, scope: scope, options: options)
        return Job(definition: JobDefinition(self, request, instance))
    }
}

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
    let definition: JobDefinition<Value>

    /// What happens, life after life; the next one begins when it is asked for, and not before the interval is over.
    public var events: JobEvents<Value> { JobEvents(definition: definition) }

    /// Runs until a life gives up.
    ///
    /// - Throws: What a caller of ``Job/value`` would get; `CancellationError` if the task or the job was cancelled.
    public func run() async throws {
        let iteration = JobIteration(definition)
        while let event = await iteration.next(isolation: #isolation) {
            if case .gaveUp(let error, _) = event { throw error }
            if case .cancelled = event { throw CancellationError() }
        }
        throw CancellationError()
    }

    /// Has a handler called with each event, after those that were given before.
    public func onEvent(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> RepeatingJob {
        RepeatingJob(definition: definition.adding(handler))
    }

    /// Has no attempt start while a condition is not satisfied; of several all have to be.
    public func onlyWhen(_ condition: Condition) -> RepeatingJob { RepeatingJob(definition: definition.adding(condition)) }
}

/// A cold job as the bus keeps it before it has a task, whatever its value is.
class AnyJobDefinition: @unchecked Sendable {
    // Unchecked, for it has subclasses: what they have are Sendable constants.

    /// Makes the task that drives a job that has none, until there is nothing to do.
    func launch(_ handle: JobHandle, _ priority: TaskPriority) {}
}

/// The policy and the operation of one life of a cold job.
package struct JobInstance<Value: Sendable>: Sendable {
    package var policy: RetryPolicy
    package var operation: @Sendable (Attempt) async throws -> Value

    package init(_ policy: RetryPolicy, _ operation: @escaping @Sendable (Attempt) async throws -> Value) {
        (self.policy, self.operation) = (policy, operation)
    }
}

/// All that a cold job consists of.
final class JobDefinition<Value: Sendable>: AnyJobDefinition, @unchecked Sendable {
    let bus: RetryBus
    /// The submission of each life.
    let request: JobRequest
    let handlers: [@Sendable (JobEvent<Value>) -> Void]
    /// How long after a success the next life begins; `nil` if there is only one.
    let interval: Duration?
    /// Makes the policy and the operation of a life, which may share a state that no other life has.
    let makeInstance: @Sendable () -> JobInstance<Value>

    init(
        _ bus: RetryBus, _ request: JobRequest, handlers: [@Sendable (JobEvent<Value>) -> Void] = [], interval: Duration? = nil,
        _ makeInstance: @escaping @Sendable () -> JobInstance<Value>
    ) {
        self.bus = bus
        self.request = request
        self.handlers = handlers
        self.interval = interval
        self.makeInstance = makeInstance
    }

    /// The same job with another condition.
    func adding(_ condition: Condition) -> JobDefinition {
        var request = request
        request.options.conditions.append(condition)
        return JobDefinition(bus, request, handlers: handlers, interval: interval, makeInstance)
    }

    /// The same job with another handler, which is called after the others.
    func adding(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> JobDefinition {
        JobDefinition(bus, request, handlers: handlers + [handler], interval: interval, makeInstance)
    }

    /// The same job, again and again.
    func repeating(every interval: Duration) -> JobDefinition {
        JobDefinition(bus, request, handlers: handlers, interval: max(.zero, interval), makeInstance)
    }

    func callHandlers(with event: JobEvent<Value>) {
        for handler in handlers { handler(event) }
    }

    override func launch(_ handle: JobHandle, _ priority: TaskPriority) {
        // Detached: what made the bus look has nothing to do with the job.
        Task.detached(executorPreference: bus.configuration.executor, priority: priority) { [self] in
            let iteration = JobIteration(self, handle, mayLeave: true)
            while await iteration.next(isolation: nil) != nil {}
        }
    }

    /// Drives a submitted job in a task of its submitter's priority and task-local values, which lasts as long as the job.
    func drive(_ handle: JobHandle) {
        Task(executorPreference: bus.configuration.executor) { [self] in
            let iteration = JobIteration(self, handle, mayLeave: false)
            while await iteration.next(isolation: nil) != nil {}
        }
    }
}
