internal import Reachability

/// A cold job as the bus keeps it before it has a task, whatever its value is.
class AnyJobPlan: @unchecked Sendable {
    // Unchecked, for it has subclasses: what they have are Sendable constants.

    /// Makes the task that drives a job that has none, until there is nothing to do.
    func launch(_ ticket: Ticket, _ priority: TaskPriority) {}
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
final class JobPlan<Value: Sendable>: AnyJobPlan, @unchecked Sendable {
    let bus: RetryBus
    /// The submission of each life.
    let order: RetryBus.Order
    let handlers: [@Sendable (JobEvent<Value>) -> Void]
    /// How long after a success the next life begins; `nil` if there is only one.
    let interval: Duration?
    /// Makes the policy and the operation of a life, which may share a state that no other life has.
    let makeInstance: @Sendable () -> JobInstance<Value>

    init(
        _ bus: RetryBus, _ order: RetryBus.Order, handlers: [@Sendable (JobEvent<Value>) -> Void] = [], interval: Duration? = nil,
        _ makeInstance: @escaping @Sendable () -> JobInstance<Value>
    ) {
        self.bus = bus
        self.order = order
        self.handlers = handlers
        self.interval = interval
        self.makeInstance = makeInstance
    }

    /// The same job with another condition.
    func adding(_ condition: Condition) -> JobPlan {
        var order = order
        order.options.conditions.append(condition)
        return JobPlan(bus, order, handlers: handlers, interval: interval, makeInstance)
    }

    /// The same job with another handler, which is called after the others.
    func adding(_ handler: @escaping @Sendable (JobEvent<Value>) -> Void) -> JobPlan {
        JobPlan(bus, order, handlers: handlers + [handler], interval: interval, makeInstance)
    }

    /// The same job, again and again.
    func repeating(every interval: Duration) -> JobPlan {
        JobPlan(bus, order, handlers: handlers, interval: max(.zero, interval), makeInstance)
    }

    func tell(_ event: JobEvent<Value>) {
        for handler in handlers { handler(event) }
    }

    override func launch(_ ticket: Ticket, _ priority: TaskPriority) {
        // Detached: what made the bus look has nothing to do with the job.
        Task.detached(executorPreference: bus.configuration.executor, priority: priority) { [self] in
            let life = JobLife(self, ticket, mayLeave: true)
            while await life.next(isolation: nil) != nil {}
        }
    }

    /// Drives a submitted job in a task of its submitter's priority and task-local values, which lasts as long as the job.
    func drive(_ ticket: Ticket) {
        Task(executorPreference: bus.configuration.executor) { [self] in
            let life = JobLife(self, ticket, mayLeave: false)
            while await life.next(isolation: nil) != nil {}
        }
    }
}
