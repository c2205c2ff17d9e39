internal import Reachability
internal import Synchronization

extension RetryBus {
    /// What a job's task does next.
    enum Step {
        case start(Start)
        case end(Ending)
        /// Its job waits for the network or another condition; only if somebody wants to know.
        case waiting
    }

    /// Suspends until the job may start an attempt or is over; not at all if that is so already.
    ///
    /// - Parameter isPulled: whether the job is to be paused before its reader is told that it waits.
    func nextStep(_ ticket: Ticket, isPulled: Bool = false) async -> Step {
        while true {
            if let step = takeStep(ticket, isPulled: isPulled) { return step }
            await suspend(ticket)
        }
    }

    private func takeStep(_ ticket: Ticket, isPulled: Bool) -> Step? {
        let key = ticket.key
        var step: Step?
        guard isPulled else {
            let now = clock.now()
            let (step, witnesses) = guarded.withLock { guarded in
                (guarded.takeStep(key, at: now), guarded.takeQuietWitnesses())
            }
            for witness in witnesses { witness.resume() }
            return step
        }
        change { guarded, now in
            step = guarded.takeStep(key, isPulled: true, at: now)
            if case .waiting = step { return guarded.core.pause(key, by: .reader, at: now) }
            return []
        }
        return step
    }

    /// Whether the attempt that may start is to be cancelled already: its task had not had its turn.
    func isInterrupted(_ ticket: Ticket) -> Bool { guarded.withLock { $0.desk[ticket.key]?.interruption != nil } }

    /// The task of an attempt runs, or has ended already: from now on it can be cancelled.
    func attemptRuns(_ ticket: Ticket, _ task: Task<Void, Never>) {
        let isInterrupted = guarded.withLock { guarded in
            guarded.desk[ticket.key]?.record.attempt = task
            return guarded.desk[ticket.key]?.interruption != nil
        }
        if isInterrupted { task.cancel() }
    }

    private func suspend(_ ticket: Ticket) async {
        await withUnsafeContinuation { continuation in
            let now = clock.now()
            let (isSuspended, parked, witnesses) = guarded.withLock { guarded in
                // One that has ended is not there any more.
                guard let entry = guarded.desk[ticket.key], !entry.mayStart, !entry.hasNews else {
                    return (false, [(ParkingWitness, PendingJob)](), [UnsafeContinuation<Void, Never>]())
                }
                guarded.desk[ticket.key]?.waiter = .task(continuation)
                return (true, guarded.witnesses.isEmpty ? [] : guarded.takeWitnesses(at: now), guarded.takeQuietWitnesses())
            }
            if !isSuspended { continuation.resume() }
            for witness in witnesses { witness.resume() }
            for (witness, job) in parked { witness.continuation.resume(returning: job) }
        }
    }
}

extension RetryBus.Guarded {
    fileprivate mutating func takeStep(_ key: JobKey, isPulled: Bool = false, at now: BusTime) -> RetryBus.Step? {
        if let ending = desk.takeEnding(of: key) { return .end(ending) }
        if desk[key]?.hasNews == true {
            desk[key]?.hasNews = false
            // A reader who may start is not told of a wait that is over: others would have to wait while they look at it.
            if !isPulled || desk[key]?.mayStart == false { return .waiting }
        }
        guard desk[key]?.mayStart == true, let start = core.currentStart(of: key, at: now) else { return nil }
        desk[key]?.mayStart = false
        return .start(start)
    }
}
