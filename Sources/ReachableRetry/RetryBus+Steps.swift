internal import Reachability
internal import Synchronization

extension RetryBus {
    /// What a job's task does next.
    enum Step {
        case start(Start)
        case end(JobID, Ending)
    }

    /// Suspends until the job may start an attempt or is over; not at all if that is so already.
    func nextStep(_ key: JobKey) async -> Step {
        while true {
            if let step = takeStep(key) { return step }
            await suspend(key) { $0.start == nil && $0.ending == nil }
        }
    }

    private func takeStep(_ key: JobKey) -> Step? {
        guarded.withLock { guarded in
            guard let tray = guarded.desk[key] else { return .end(JobID(.numbered(0)), .cancelled) }
            if let ending = tray.ending {
                let id = guarded.desk.id(of: key)
                guarded.desk.remove(key)
                return .end(id, ending)
            }
            guard let start = tray.start else { return nil }
            guarded.desk[key]?.start = nil
            guarded.desk[key]?.isInterrupted = false
            guarded.desk[key]?.hasTimedOut = false
            guarded.desk[key]?.attempt = nil
            return .start(start)
        }
    }

    /// The task of an attempt runs, or has ended already: from now on it can be cancelled.
    func attemptRuns(_ key: JobKey, _ task: Task<Void, Never>) {
        let isInterrupted = guarded.withLock { guarded in
            guarded.desk[key]?.attempt = task
            return guarded.desk[key]?.isInterrupted ?? false
        }
        if isInterrupted { task.cancel() }
    }

    /// Whether the attempt that just ended was cancelled because it took too long.
    func hasTimedOut(_ key: JobKey) -> Bool { guarded.withLock { $0.desk[key]?.hasTimedOut ?? false } }

    private func suspend(_ key: JobKey, while isEmpty: (JobDesk.Tray) -> Bool) async {
        await withUnsafeContinuation { continuation in
            let now = clock.now()
            let (isSuspended, parked) = guarded.withLock { guarded in
                guard let tray = guarded.desk[key], isEmpty(tray) else { return (false, [(ParkingWitness, PendingJob)]()) }
                guarded.desk[key]?.continuation = continuation
                return (true, guarded.witnesses.isEmpty ? [] : guarded.takeWitnesses(at: now))
            }
            if !isSuspended { continuation.resume() }
            for (witness, job) in parked { witness.continuation.resume(returning: job) }
        }
    }
}
