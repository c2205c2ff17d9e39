internal import Reachability
internal import Synchronization

/// Somebody who waits for a job to wait.
struct ParkingWitness: Sendable {
    let number: UInt64
    let id: JobID
    let continuation: CheckedContinuation<PendingJob, any Error>
}

extension RetryBus {
    /// Suspends until a job waits for a condition or a time and its task sleeps, or it has none.
    ///
    /// The way for tests to meet a job that no timer tells of. Also waits for the job to be submitted.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    package func untilParked(_ id: JobID) async throws -> PendingJob {
        try Task.checkCancellation()
        let number = guarded.withLock { guarded in
            guarded.nextWitness += 1
            return guarded.nextWitness
        }
        var job = try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let reading = clock.now()
                let parked = guarded.withLock { guarded in
                    guarded.witnesses.append(ParkingWitness(number: number, id: id, continuation: continuation))
                    return guarded.takeWitnesses(at: guarded.time(reading))
                }
                for (witness, job) in parked { witness.continuation.resume(returning: job) }
                if Task.isCancelled { cancelWitness(number) }
            }
        } onCancel: {
            cancelWitness(number)
        }
        if job.isScopeUnmet { job.missing = monitor.missing(for: job.scope) }
        return job
    }

    /// Whether the tasks of all jobs sleep, run an attempt, or look at an event.
    package var isQuiet: Bool { guarded.withLock { $0.isQuiet } }

    /// Suspends until the bus is quiet.
    package func untilQuiet() async {
        await withUnsafeContinuation { continuation in
            let isQuiet = guarded.withLock { guarded in
                if !guarded.isQuiet { guarded.quietWitnesses.append(continuation) }
                return guarded.isQuiet
            }
            if isQuiet { continuation.resume() }
        }
    }

    private func cancelWitness(_ number: UInt64) {
        let witness = guarded.withLock { guarded in
            guarded.witnesses.firstIndex { $0.number == number }.map { guarded.witnesses.remove(at: $0) }
        }
        witness?.continuation.resume(throwing: CancellationError())
    }
}

extension RetryBus.Guarded {
    fileprivate var isQuiet: Bool {
        desk.isQuiet { key in core[key].map { $0.phase == .running || $0.pausers.contains(.reader) } ?? false }
    }

    /// The tasks that waited until the bus is quiet, if it is.
    mutating func takeQuietWitnesses() -> [UnsafeContinuation<Void, Never>] {
        guard !quietWitnesses.isEmpty, isQuiet else { return [] }
        defer { quietWitnesses = [] }
        return quietWitnesses
    }

    /// The witnesses whose jobs wait now.
    mutating func takeWitnesses(at now: BusTime) -> [(ParkingWitness, PendingJob)] {
        var taken: [(ParkingWitness, PendingJob)] = []
        var rest: [ParkingWitness] = []
        for witness in witnesses {
            if let key = desk.key(of: witness.id), desk[key]?.isAwake == false, let job = pendingJob(key, at: now),
                job.state != .running
            {
                taken.append((witness, job))
            } else {
                rest.append(witness)
            }
        }
        witnesses = rest
        return taken
    }
}
