internal import Reachability
internal import Synchronization

extension RetryBus {
    /// What a job's task does next.
    enum Step {
        case start(Start)
        case end(Ending)
    }

    /// Suspends until the job may start an attempt or is over; not at all if that is so already.
    func nextStep(_ ticket: Ticket) async -> Step {
        while true {
            if let step = takeStep(ticket) { return step }
            await suspend(ticket)
        }
    }

    private func takeStep(_ ticket: Ticket) -> Step? {
        let now = clock.now()
        return guarded.withLock { guarded in
            let key = ticket.key
            if let ending = guarded.desk.takeEnding(of: key) { return .end(ending) }
            guard guarded.desk[key]?.mayStart == true, let start = guarded.core.currentStart(of: key, at: now) else { return nil }
            guarded.desk[key]?.mayStart = false
            return .start(start)
        }
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
            let (isSuspended, parked) = guarded.withLock { guarded in
                // One that has ended is not there any more.
                guard guarded.desk[ticket.key]?.mayStart == false else { return (false, [(ParkingWitness, PendingJob)]()) }
                guarded.desk[ticket.key]?.continuation = continuation
                return (true, guarded.witnesses.isEmpty ? [] : guarded.takeWitnesses(at: now))
            }
            if !isSuspended { continuation.resume() }
            for (witness, job) in parked { witness.continuation.resume(returning: job) }
        }
    }
}
