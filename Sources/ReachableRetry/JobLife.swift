internal import Synchronization

/// The lives of a cold job, one after the other, for one who asks what happens next.
///
/// Nothing happens that nobody asked for: between two questions of a reader the job is paused. Used by one task at a time; who
/// drops it has no job any more.
final class JobLife<Value: Sendable> {
    private enum Stage {
        /// Nobody has asked yet, or the life before has ended; when the next one begins.
        case unborn(notBefore: BusTime)
        case living(Ticket)
        /// An attempt may run, as was told.
        case starting(Ticket, Attempt)
        /// It has a value that was told as an attempt's, and not yet as the job's.
        case done(Value)
        case over
    }

    private let plan: JobPlan<Value>
    /// Whether it goes on only when it is asked.
    private let isPulled: Bool
    /// Whether it ends when there is nothing to do, and leaves the job to the bus.
    private let mayLeave: Bool
    private var stage: Stage
    private var instance: JobInstance<Value>
    /// Whether the delay after the last failure was told.
    private var hasToldOfDelay = true
    /// Whether the bus waits until the end was told.
    private var isAwaited = false

    init(_ plan: JobPlan<Value>, isPulled: Bool) {
        self.plan = plan
        self.isPulled = isPulled
        mayLeave = false
        stage = .unborn(notBefore: .past)
        instance = plan.makeInstance()
    }

    /// A life of a job that was submitted, which goes on by itself.
    init(_ plan: JobPlan<Value>, _ ticket: Ticket, mayLeave: Bool) {
        self.plan = plan
        isPulled = false
        self.mayLeave = mayLeave
        stage = .living(ticket)
        instance = plan.makeInstance()
    }

    deinit {
        switch stage {
        case .living(let ticket), .starting(let ticket, _):
            plan.bus.abandon(ticket)
            plan.tell(.cancelled)
        case .done(let value): plan.tell(.succeeded(value))
        case .unborn, .over: break
        }
    }

    /// What happens next; `nil` if nothing does any more, or if the calling task was cancelled before a life began.
    func next(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        guard let event = await nextEvent(isolation: isolation) else {
            stage = .over
            return nil
        }
        plan.tell(event)
        switch event {
        case .succeeded, .gaveUp, .cancelled:
            if isAwaited { plan.bus.noteTold() }
            isAwaited = false
        case .waiting, .attemptStarted, .attemptSucceeded, .attemptFailed, .backingOff: break
        }
        return event
    }

    private func nextEvent(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch stage {
        case .over: return nil
        case .done(let value):
            stage = plan.interval.map { .unborn(notBefore: plan.bus.clock.now() + $0) } ?? .over
            if plan.interval != nil { instance = plan.makeInstance() }
            return .succeeded(value)
        case .unborn(let notBefore):
            if Task.isCancelled { return nil }
            do {
                let ticket = try begin(notBefore)
                return await cancellable(ticket, isolation: isolation) { await step(ticket, isolation: isolation) }
            } catch {
                stage = .over
                return .gaveUp(error, nil)
            }
        case .living(let ticket):
            let delay = plan.bus.goOn(ticket, isPulled: isPulled)
            let isNews = !hasToldOfDelay
            hasToldOfDelay = true
            if isNews, let delay {
                if isPulled { plan.bus.pauseForReader(ticket) }
                return .backingOff(delay)
            }
            return await cancellable(ticket, isolation: isolation) { await step(ticket, isolation: isolation) }
        case .starting(let ticket, let attempt):
            stage = .living(ticket)
            return await cancellable(ticket, isolation: isolation) { await run(attempt, ticket, isolation: isolation) }
        }
    }

    private func begin(_ notBefore: BusTime) throws(RetryError) -> Ticket {
        var order = plan.order
        (order.notBefore, order.wantsNews, order.isPulled) = (notBefore, true, isPulled)
        let ticket = try plan.bus.submit(order)
        (stage, hasToldOfDelay) = (.living(ticket), true)
        return ticket
    }

    /// Cancels the job with the calling task.
    private func cancellable(
        _ ticket: Ticket, isolation: isolated (any Actor)?, _ body: () async -> JobEvent<Value>?
    ) async -> JobEvent<Value>? {
        let bus = plan.bus
        return await withTaskCancellationHandler(operation: body, onCancel: { bus.cancel(ticket) }, isolation: isolation)
    }

    private func step(_ ticket: Ticket, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch await plan.bus.nextStep(ticket, isPulled: isPulled, leaving: mayLeave ? plan : nil) {
        case .left:
            stage = .over
            return nil
        case .waiting(let unmet): return .waiting(for: unmet)
        case .start(let attempt):
            stage = .starting(ticket, attempt)
            return .attemptStarted(attempt.number)
        case .end(let end):
            (stage, isAwaited) = (.over, !end.isPulled)
            let (error, report) = plan.bus.conclude(end, ticket, instance.policy)
            return report.map { .gaveUp(error, $0) } ?? .cancelled
        }
    }

    private func run(_ attempt: Attempt, _ ticket: Ticket, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        let bus = plan.bus
        switch await bus.perform(attempt, ticket, isolation: isolation, instance.operation) {
        case .success(let value):
            bus.change { guarded, now in
                // A shutdown waits until the end was told.
                if !isPulled { guarded.untold += 1 }
                return guarded.core.succeed(ticket.key, at: now)
            }
            (stage, isAwaited) = (.done(value), !isPulled)
            return .attemptSucceeded(value)
        case .failure(let error):
            let failure = bus.failed(ticket, instance.policy, error, isPaused: isPulled)
            hasToldOfDelay = false
            // Without a verdict it was cancelled, and that is all that is left to hear.
            guard let failure else { return await step(ticket, isolation: isolation) }
            return .attemptFailed(failure)
        }
    }
}

extension RetryBus {
    /// Somebody asks for what comes next; returns for how long the job only waits for a time.
    fileprivate func goOn(_ ticket: Ticket, isPulled: Bool) -> Duration? {
        var delay: Duration?
        change { guarded, now in
            let effects = isPulled ? guarded.core.resume(ticket.key, by: .reader, at: now) : []
            delay = guarded.core.delay(of: ticket.key, at: now)
            return effects
        }
        return delay
    }

    fileprivate func pauseForReader(_ ticket: Ticket) {
        change { guarded, now in guarded.core.pause(ticket.key, by: .reader, at: now) }
    }

    /// Nobody will ask for a job any more: it ends, and nothing of it is left.
    func abandon(_ ticket: Ticket) {
        change { guarded, now in
            let cancelled = guarded.cancel(ticket.key, at: now)
            // It may have been let go without anybody starting it.
            let (_, failed) = guarded.core.fail(
                ticket.key, FailureReport(.unclassified), interruption: .cancelled, isGone: false, at: now)
            return cancelled + failed
        }
        // Its error is released outside of the lock.
        _ = guarded.withLock { $0.desk.takeEnd(of: ticket.key) }
    }
}
