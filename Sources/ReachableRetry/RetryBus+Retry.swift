public import Reachability
internal import Synchronization

extension RetryBus {
    /// Runs an operation until it succeeds, and returns its value.
    ///
    /// The operation runs in the caller's isolation: it may use the state of the caller's actor, and the value need not be
    /// Sendable. It runs in a task of its own, with the caller's priority and task-local values, so that it can be cancelled
    /// without its caller: when the job's time is over, when an attempt takes too long, by ``cancel(_:)``. Its end is awaited
    /// always, so that there is one attempt at a time; a value that it returns though cancelled is returned.
    ///
    /// While the network is away, no attempt starts and none is charged, unless the policy says otherwise. An error counts as the
    /// network's, and is not charged, if the path changed or was gone during the attempt, or if ``RetryPolicy/errno(for:)``
    /// or ``RetryPolicy/classify(_:)`` say so. If the monitor sees nothing, because nobody runs it, because it has ended, or
    /// because it has not looked within two seconds, attempts start all the same and are charged.
    ///
    /// - Parameters:
    ///   - policy: when to try again, and when to give up.
    ///   - scope: what has to be reached.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - isolation: where the operation runs; by default the caller's actor.
    ///   - operation: the work. It should end soon when its task is cancelled.
    /// - Returns: What the operation returned.
    /// - Throws: The operation's last error if the job gave up after it; ``RetryError`` if there was no attempt, or if time cut it,
    ///   or if the bus does not take the job (``RetryError/duplicateID``, ``RetryError/shutDown``); `CancellationError` if the task
    ///   or the job was cancelled.
    public func retry<Value>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        isolation: isolated (any Actor)? = #isolation, operation: (Attempt) async throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let order = Order(policy: policy, scope: scope, options: options)
        let ticket = try submit(order)
        return try await withTaskCancellationHandler(
            operation: { try await live(ticket, policy, isolation: isolation, operation) },
            onCancel: { cancel(ticket) }, isolation: isolation)
    }

    /// The job's life, from one attempt to the next.
    private func live<Value>(
        _ ticket: Ticket, _ policy: RetryPolicy, isolation: isolated (any Actor)?, _ operation: (Attempt) async throws -> Value
    ) async throws -> Value {
        while true {
            switch await nextStep(ticket) {
            case .start(let attempt):
                switch await perform(attempt, ticket, isolation: isolation, operation) {
                case .success(let value):
                    change { guarded, now in guarded.core.succeed(ticket.key, at: now) }
                    return value
                case .failure(let error): failed(ticket, policy, error)
                }
            case .waiting, .left: continue
            case .end(let end):
                defer { noteTold() }
                throw conclude(end, ticket, policy).error
            }
        }
    }

    /// Tells how a job ended, and returns what its caller gets, with the report if it gave up.
    func conclude(_ end: JobEnd, _ ticket: Ticket, _ policy: RetryPolicy) -> (error: any Error, report: GiveUp?) {
        guard case .gaveUp(let reason, let tally, let isCut) = end.ending else { return (CancellationError(), nil) }
        let report = GiveUp(ticket.id, reason, tally, end.lastError)
        for handler in policy.rules.giveUpHandlers { handler(report) }
        if policy.rules.throwsReport { return (report, report) }
        if !isCut, let lastError = report.lastError { return (lastError, report) }
        return (RetryError(RetryError.Code(rawValue: reason.rawValue)), report)
    }

    /// Decides what becomes of a job whose attempt failed; returns how the failure was seen, unless the job was cancelled.
    ///
    /// - Parameter isPaused: Has the job wait until its reader asks for what comes next.
    @discardableResult
    func failed(_ ticket: Ticket, _ policy: RetryPolicy, _ error: any Error, isPaused: Bool = false) -> RetryEvent.Failure? {
        let key = ticket.key
        let (interruption, trace) = guarded.withLock { ($0.desk[key]?.interruption, $0.desk[key]?.record.trace) }
        let cut: RetryError? =
            switch interruption {
            case .timeout: .attemptTimedOut
            case .loss: .attemptInterrupted
            case .deadline, .cancelled, nil: nil
            }
        let classified = error as? ClassifiedError
        let bare = classified?.error ?? error
        let report = policy.rules.classification.adding(classified).report(bare, cut: cut)
        let error: any Error = report.evidence.isAnswer ? bare : cut ?? bare
        // An attempt that the bus cut and repeats counts for nothing: its end is not the reason that the caller gets later.
        let countsForNothing = cut == .attemptInterrupted && !report.evidence.isAnswer && report.mayRetry
        trace?.fail(error)
        let isGone = scopeToAskAbout(key, report).map(isGone) ?? false
        var judgement = Judgement.settled
        var failure: RetryEvent.Failure?
        // Released outside of the lock.
        var old: (failure: (any Error)?, lastError: (any Error)?)
        change { guarded, now in
            let refreshed = guarded.refresh(key, at: now)
            let effects: [Effect]
            let paused = isPaused ? guarded.core.pause(key, by: .reader, at: now) : []
            old = (guarded.desk[key]?.record.failure, guarded.desk[key]?.record.lastError)
            guarded.desk[key]?.record.failure = error
            if !countsForNothing { guarded.desk[key]?.record.lastError = error }
            (judgement, effects) = guarded.core.fail(
                key, report, interruption: interruption, isGone: isGone, id: ticket.id, at: now)
            failure = effects.lazy.compactMap { RetryEvent.Failure($0, error) }.first
            return refreshed + paused + effects
        }
        withExtendedLifetime(old) {}
        guard case .backOff(let index, let previousDelay) = judgement else { return failure }
        let backoff = policy.rules.backoff
        let delay = backoff.delay(afterFailure: index, previous: previousDelay, chance: backoff.isRandom ? draw() : 0)
        change { guarded, now in
            // Under the lock that parks the job: an edge that comes later finds it, one that came before is seen here.
            guarded.refresh(key, at: now) + guarded.core.park(key, for: delay, at: now)
        }
        return failure
    }

    private func draw() -> Double { Backoff.chance(chance.withLock { $0.next() }) }
}

extension RetryEvent.Failure {
    /// What an effect tells of a failure.
    fileprivate init?(_ effect: Effect, _ error: any Error) {
        guard case .tell(_, .failed(let failure, let isCharged)) = effect else { return nil }
        self.init(error: error, fault: failure.fault, mayRetry: failure.mayRetry, isCharged: isCharged)
    }
}
