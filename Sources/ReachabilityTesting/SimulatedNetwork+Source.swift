public import Reachability
internal import Synchronization

extension SimulatedNetwork: NetworkSource {
    /// Delivers an empty batch at once, and then one for each change, until cancelled or stopped.
    ///
    /// - Throws: `CancellationError` when cancelled, what ``stop(throwing:)`` says, or `ReachabilityError` if it runs already.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try Task.checkCancellation()
        guard let id = state.withLock({ $0.begin(deliver) }) else {
            throw ReachabilityError(.alreadyRun, operation: "SimulatedNetwork.run")
        }
        defer { finish(id) }
        deliverAll()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let ending = state.withLock { state in
                    if state.run?.ending == nil { state.run?.parked = continuation }
                    return state.run?.ending
                }
                if let ending { continuation.resume(with: ending) }
            }
        } onCancel: {
            end(id, .failure(CancellationError()))
        }
    }

    /// Asks for an empty batch: delivered by the calling thread, or afterwards by the one that is delivering.
    ///
    /// It never waits.
    public func wake() {
        state.withLock { $0.postTick() }
        deliverIfPossible()
    }

    /// Returns the model's links with their addresses.
    ///
    /// - Throws: `ReachabilityError` after ``failNextRequests(_:errno:)`` or ``interruptNextDumps(_:)``.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        let operation = "SimulatedNetwork.interfaces"
        let (failure, isInterrupted, kernel) = state.withLock { state in
            state.dumps += 1
            let failure = state.takeFailure()
            return (failure, failure == nil && state.takeInterruption(), state.kernel)
        }
        if let failure { throw ReachabilityError(.requestFailed, errno: failure, operation: operation) }
        if isInterrupted { throw ReachabilityError(.interrupted, operation: operation) }
        return kernel.interfaces
    }

    /// Returns the model's verdicts, all of one moment: ``SimulatedKernel/route(to:)``.
    ///
    /// After ``failNextRequests(_:errno:)`` each query fails.
    public func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] {
        let (failure, kernel) = state.withLock { state in
            state.lookups += queries.count
            return (queries.isEmpty ? nil : state.takeFailure(), state.kernel)
        }
        return queries.map { query in
            if let failure {
                return .failure(ReachabilityError(.requestFailed, errno: failure, operation: "SimulatedNetwork.routes"))
            }
            return .success(kernel.route(to: query))
        }
    }

    /// Suspends until somebody runs the network and its first batch has been delivered.
    ///
    /// - Throws: `CancellationError` when the calling task is cancelled.
    public func untilRunning() async throws {
        try Task.checkCancellation()
        let id = state.withLock { $0.makeID() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isRunning = state.withLock { state in
                    if state.run?.hasStarted == true { return true }
                    state.starters[id] = continuation
                    return false
                }
                if isRunning { continuation.resume() }
                // The handler may have come before there was anything to cancel; it runs after the task's flag is set.
                if Task.isCancelled { cancelStarter(id) }
            }
        } onCancel: {
            cancelStarter(id)
        }
    }

    private func cancelStarter(_ id: UInt64) {
        state.withLock { $0.starters.removeValue(forKey: id) }?.resume(throwing: CancellationError())
    }

    /// Ends a run's wait.
    func end(_ id: UInt64?, _ ending: Result<Void, any Error>) {
        state.withLock { $0.decide(id, ending) }?.resume(with: ending)
    }

    /// Forgets a run, after the batch that may still be on its way: then `deliver` is never called again.
    private func finish(_ id: UInt64) {
        let timer = delivery.withLock { delivery in
            // Under the lock: afterwards the timer may be the next run's.
            state.withLock { $0.end(id) }
            defer { delivery.timer = nil }
            return delivery.timer
        }
        if let timer { clock.cancel(timer) }
        // Somebody may have found the lock taken and left it to us.
        deliverIfPossible()
    }
}
