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
        /// It has a value that was told as an attempt's, and not yet as the job's.
        case done(Value)
        case over
    }

    private let plan: JobPlan<Value>
    /// Whether it goes on only when it is asked.
    private let isPulled: Bool
    private var stage: Stage
    private var instance: JobInstance<Value>
    private var lastError: (any Error)?
    /// Whether the delay after the last failure was told.
    private var hasToldOfDelay = true

    init(_ plan: JobPlan<Value>, isPulled: Bool) {
        self.plan = plan
        self.isPulled = isPulled
        stage = .unborn(notBefore: .past)
        instance = plan.makeInstance()
    }

    /// The life of a job that was submitted without a task, which goes on by itself.
    init(_ plan: JobPlan<Value>, _ ticket: Ticket) {
        self.plan = plan
        isPulled = false
        stage = .living(ticket)
        instance = plan.makeInstance()
    }

    deinit {
        if case .living(let ticket) = stage { plan.bus.abandon(ticket) }
    }

    /// What happens next; `nil` if nothing does any more, or if the calling task or the job was cancelled.
    func next(isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        guard let event = await nextEvent(isolation: isolation) else {
            stage = .over
            return nil
        }
        plan.tell(event)
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
                return await go(on: ticket, isolation: isolation)
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
            return await go(on: ticket, isolation: isolation)
        }
    }

    private func begin(_ notBefore: BusTime) throws(RetryError) -> Ticket {
        var order = plan.order
        (order.notBefore, order.wantsNews) = (notBefore, true)
        let ticket = try plan.bus.submit(order)
        (stage, lastError, hasToldOfDelay) = (.living(ticket), nil, true)
        return ticket
    }

    private func go(on ticket: Ticket, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        let bus = plan.bus
        return await withTaskCancellationHandler(
            operation: { await step(ticket, isolation: isolation) },
            onCancel: { bus.change { guarded, now in guarded.core.cancel(ticket.key, at: now) } }, isolation: isolation)
    }

    private func step(_ ticket: Ticket, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        switch await plan.bus.nextStep(ticket, isPulled: isPulled) {
        case .waiting: return .waitingForConnectivity
        case .start(let start): return await attempt(start, ticket, isolation: isolation)
        case .end(.cancelled): return nil
        case .end(.gaveUp(let reason, let tally, let isCut)):
            stage = .over
            let story = GiveUp(ticket.id, reason, tally, lastError)
            return .gaveUp(plan.bus.conclude(story, instance.policy, isCut: isCut), story)
        }
    }

    private func attempt(_ start: Start, _ ticket: Ticket, isolation: isolated (any Actor)?) async -> JobEvent<Value>? {
        let bus = plan.bus
        let attempt = Attempt(number: start.number, previousFailure: lastError, deadline: start.limit, epoch: start.epoch)
        switch await bus.perform(attempt, ticket, isolation: isolation, instance.operation) {
        case .success(let value):
            bus.change { guarded, now in guarded.core.succeed(ticket.key, at: now) }
            stage = .done(value)
            return .attemptSucceeded(value)
        case .failure(let error):
            let result = bus.failed(ticket, instance.policy, error, after: lastError, isPaused: isPulled)
            (lastError, hasToldOfDelay) = (result.lastError, false)
            // Without a verdict it was cancelled, and that is all that is left to hear.
            guard let failure = result.failure else { return await step(ticket, isolation: isolation) }
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
            let cancelled = guarded.core.cancel(ticket.key, at: now)
            // It may have been let go without anybody starting it.
            let (_, failed) = guarded.core.fail(ticket.key, FailureReport(.unclassified), interruption: .cancelled, isGone: false, at: now)
            return cancelled + failed
        }
        guarded.withLock { _ = $0.desk.takeEnding(of: ticket.key) }
    }
}
