internal import Reachability
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

extension RetryBus {
    /// What a job's driver does next.
    enum Step {
        case start(Attempt)
        case end(JobEnd)
        /// The job waits for the network or another condition; only if its driver wants to know.
        case waiting([RetryEvent.Unmet])
        /// Nothing: the bus launches another driver when there is something to do.
        case left
    }

    /// Suspends until the job may start an attempt or is over; not at all if that is so already.
    ///
    /// - Parameters:
    ///   - isPulled: Pauses the job before its reader is told that it waits.
    ///   - plan: Returns ``Step/left`` instead of suspending; this plan makes the next driver.
    func nextStep(_ ticket: Ticket, isPulled: Bool = false, leaving plan: AnyJobPlan? = nil) async -> Step {
        while true {
            if let step = takeStep(ticket, isPulled: isPulled) {
                if case .start = step { watchSources(ticket) }
                return step
            }
            if let plan {
                if leave(ticket, plan) { return .left }
            } else {
                await suspend(ticket)
            }
        }
    }

    private func takeStep(_ ticket: Ticket, isPulled: Bool) -> Step? {
        var step: Step?
        guard isPulled else {
            let reading = clock.now()
            let (step, witnesses) = guarded.withLock { guarded in
                (guarded.takeStep(ticket, self, at: guarded.time(reading)), guarded.takeQuietWitnesses())
            }
            for witness in witnesses { witness.resume() }
            return step
        }
        change { guarded, now in
            step = guarded.takeStep(ticket, self, at: now)
            if case .waiting = step { return guarded.core.pause(ticket.key, by: .reader, at: now) }
            return []
        }
        return step
    }

    /// Whether the running attempt was cut by the bus.
    func isInterrupted(_ ticket: Ticket) -> Bool { guarded.withLock { $0.desk[ticket.key]?.interruption != nil } }

    /// Has an attempt be cancellable that is about to run; returns `false` if it was cut already.
    func attemptBegins(_ ticket: Ticket, _ task: AttemptTask) -> Bool {
        let (isInterrupted, _) = guarded.withLock { guarded in
            let old = guarded.desk[ticket.key]?.record.attempt
            guarded.desk[ticket.key]?.record.attempt = task
            // The old one is released outside of the lock.
            return (guarded.desk[ticket.key]?.interruption != nil, old)
        }
        return !isInterrupted
    }

    /// Follows the addresses that a new attempt's connections will come from, if its policy heeds them.
    private func watchSources(_ ticket: Ticket) {
        guard let scope = guarded.withLock({ $0.scopeOfSources(ticket.key) }) else { return }
        // Not under the lock: the monitor has its own. A verdict may be older than the addresses: one that is gone is no source.
        let sources = monitor.sources(to: scope).map(monitor.condition(holding:)).filter(\.state.isSatisfied)
        guard !sources.isEmpty else { return }
        change { guarded, now in
            let indices = sources.map { guarded.index(of: $0, self, at: now) }
            let effects = guarded.core.setSources(indices, of: ticket.key, at: now)
            return effects + indices.flatMap { guarded.refresh($0, at: now) }
        }
    }

    private func suspend(_ ticket: Ticket) async {
        await withUnsafeContinuation { continuation in
            if !sleep(ticket, .task(continuation)) { continuation.resume() }
        }
    }

    private func leave(_ ticket: Ticket, _ plan: AnyJobPlan) -> Bool { sleep(ticket, .plan(plan)) }

    /// Leaves what wakes a job, unless there is something to do.
    private func sleep(_ ticket: Ticket, _ waiter: JobDesk.Waiter) -> Bool {
        let reading = clock.now()
        let (isAsleep, parked, witnesses) = guarded.withLock { guarded in
            // One that has ended is not there any more.
            guard let entry = guarded.desk[ticket.key], !entry.mayStart, !entry.hasNews else {
                return (false, [(ParkingWitness, PendingJob)](), [UnsafeContinuation<Void, Never>]())
            }
            guarded.desk[ticket.key]?.waiter = waiter
            let parked = guarded.witnesses.isEmpty ? [] : guarded.takeWitnesses(at: guarded.time(reading))
            return (true, parked, guarded.takeQuietWitnesses())
        }
        for witness in witnesses { witness.resume() }
        for (witness, job) in parked { witness.continuation.resume(returning: job) }
        return isAsleep
    }

    /// An attempt reports that it gets somewhere.
    ///
    /// - Parameters:
    ///   - forgives: Forgets the failures before: charged attempts and the growth of delays.
    ///   - leavesLimits: Counts no more for the limits of the bus.
    func noteProgress(_ ticket: Ticket, of attempt: Int, forgives: Bool = false, leavesLimits: Bool = false) {
        change { guarded, now in
            if forgives { guarded.core.forgive(ticket.key) }
            let freed = leavesLimits ? guarded.core.leaveLimits(ticket.key, at: now) : []
            return freed + guarded.core.noteProgress(ticket.key, of: attempt, at: now)
        }
    }

    /// The handlers of an ended life have been called.
    func noteTold() {
        let ends = guarded.withLock { guarded in
            guarded.untold -= 1
            return guarded.takeEnds()
        }
        for end in ends { end.resume() }
    }
}

extension RetryBus.Guarded {
    fileprivate mutating func takeStep(_ ticket: Ticket, _ bus: RetryBus, at now: BusTime) -> RetryBus.Step? {
        let key = ticket.key
        if let end = desk.takeEnd(of: key) {
            if !end.isPulled { untold += 1 }
            return .end(end)
        }
        if desk[key]?.hasNews == true {
            desk[key]?.hasNews = false
            // A wait that is over already is not told of.
            let unmet = desk[key]?.mayStart == false ? self.unmet(of: key) : []
            if !unmet.isEmpty { return .waiting(unmet) }
        }
        guard desk[key]?.mayStart == true, let start = core.currentStart(of: key, at: now) else { return nil }
        desk[key]?.mayStart = false
        var attempt = Attempt(
            number: start.number, previousFailure: desk[key]?.record.lastError, timeLimit: start.limit, epoch: start.epoch)
        attempt.progress = { [weak bus] in bus?.noteProgress(ticket, of: start.number) }
        return .start(attempt)
    }

    /// The scope whose path's source addresses the job's attempt depends on; `nil` if its policy does not heed them.
    fileprivate func scopeOfSources(_ key: JobKey) -> Scope? {
        guard let job = core[key], job.rules.interruption?.heedsSource == true else { return nil }
        return followed[job.scope]?.scope
    }

    /// What a job waits for.
    func unmet(of key: JobKey) -> [RetryEvent.Unmet] { core.unmetConditions(of: key).compactMap { unmet($0) } }

    /// What a condition is to a listener.
    func unmet(_ index: ConditionIndex) -> RetryEvent.Unmet? {
        followed[index].map { entry in entry.scope.map { .network($0) } ?? .condition(entry.condition.name) }
    }
}
