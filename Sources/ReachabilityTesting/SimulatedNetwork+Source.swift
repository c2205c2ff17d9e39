internal import Glibc
public import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Delivers until the task is cancelled or ``stop(throwing:)`` is called.
    ///
    /// - Throws: ``ReachabilityError`` if it runs already, `CancellationError` when cancelled, and what
    ///   ``stop(throwing:)`` was given.
    public func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try state.withLock { state throws(ReachabilityError) in
            switch state.phase {
            case .idle, .stopped(nil): state.phase = .running(nil)
            case .running: throw ReachabilityError(.alreadyRun, operation: "SimulatedNetwork.run(deliver:)")
            case .stopped: break
            }
            state.deliver = deliver
            state.isWoken = true
        }
        takeTurn()
        defer { silence() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let ended: Result<Void, any Error>? = state.withLock { state in
                    if case .stopped(let error) = state.phase { return error.map { .failure($0) } ?? .success(()) }
                    state.phase = .running(continuation)
                    return nil
                }
                if let ended { continuation.resume(with: ended) }
            }
        } onCancel: {
            stop(throwing: CancellationError())
        }
    }

    /// Delivers an empty batch, before it returns unless something is being delivered by this thread.
    public func wake() {
        let isRunning = state.withLock { state in
            state.isWoken = true
            return state.deliver != nil
        }
        if isRunning { takeTurn() }
    }

    /// The links of the model with their addresses.
    public func interfaces() throws(ReachabilityError) -> [NetworkInterface] {
        try state.withLock { state throws(ReachabilityError) in
            state.dumps += 1
            try state.fail("RTM_GETLINK")
            return state.kernel.links
        }
    }

    /// The answer of the model's forwarding table.
    public func route(to query: RouteQuery) throws(ReachabilityError) -> RouteVerdict {
        try state.withLock { state throws(ReachabilityError) in
            state.lookups += 1
            try state.fail("RTM_GETROUTE \(query.destination)")
            return state.kernel.lookUp(query)
        }
    }

    /// Ends ``run(deliver:)``, with an error if one is given; later ones end at once.
    public func stop(throwing error: (any Error)? = nil) {
        let continuation = state.withLock { state -> CheckedContinuation<Void, any Error>? in
            guard case .running(let continuation) = state.phase else { return nil }
            state.phase = .stopped(error)
            return continuation
        }
        if let error { continuation?.resume(throwing: error) } else { continuation?.resume() }
    }

    /// No batch is delivered any more once this returns.
    private func silence() {
        let timer = state.withLock { state in
            defer {
                state.deliver = nil
                state.timer = nil
                state.phase = .idle
            }
            return state.timer
        }
        if let timer { clock.cancel(timer) }
        takeTurn()
    }
}

extension SimulatedNetwork.State {
    fileprivate mutating func fail(_ operation: String) throws(ReachabilityError) {
        guard failures.count > 0 else { return }
        failures.count -= 1
        throw ReachabilityError(.requestFailed, errno: failures.errno, operation: operation)
    }
}
