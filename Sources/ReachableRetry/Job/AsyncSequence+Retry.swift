public import Reachability

extension AsyncSequence where Self: Sendable {
    /// Iterates again from the beginning when the sequence fails, when the policy or a reconnect says so.
    ///
    /// ```swift
    /// for try await message in socket.messages.retry(policy, on: bus, resetsAfterElement: true) { show(message) }
    /// ```
    ///
    /// One attempt is one iteration of this sequence: it starts when an element is asked for, and lasts until the sequence ends,
    /// which ends the job, or fails. Elements are passed on as they come, those of all iterations; what a source repeats from its
    /// beginning comes again. Each iteration of the result is an independent life; it ends with its job when it is dropped, or
    /// when its task is cancelled. The sequence is iterated in the isolation of whoever iterates the result.
    ///
    /// An iteration that the bus cuts has not ended the sequence, though a cancelled stream may say so: after an attempt timeout or
    /// an interruption it is iterated again. When the job gives up, the sequence's last error is thrown, or a ``RetryError`` as
    /// ``RetryBus``'s `retry` does; `CancellationError` if the reader's task or the job was cancelled.
    ///
    /// The first element of an iteration proves the way to the destination, as ``Attempt/reportProgress()`` does.
    ///
    /// - Parameters:
    ///   - policy: when to try again, and when to give up. Its attempt timeout counts for whole iterations.
    ///   - bus: where the job waits with others.
    ///   - scope: what has to be reached.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - resetsAfterElement: whether an element forgives the failures before it: charged attempts and the growth of delays start
    ///     anew. For subscriptions that last, and not for sources that fail each time after the same element.
    public func retry(
        _ policy: RetryPolicy = .default, on bus: RetryBus = .shared, to scope: Scope = .internet,
        options: JobOptions = JobOptions(), resetsAfterElement: Bool = false
    ) -> RetryingSequence<Self> {
        let request = JobRequest(policy: policy, scope: scope, options: options)
        return RetryingSequence(base: self, bus: bus, request: request, resetsAfterElement: resetsAfterElement)
    }
}

/// A sequence that is iterated again when it fails: see `AsyncSequence.retry`.
public struct RetryingSequence<Base: AsyncSequence & Sendable>: AsyncSequence, Sendable {
    let base: Base
    let bus: RetryBus
    let request: JobRequest
    let resetsAfterElement: Bool

    /// Begins an iteration; its job is submitted when the first element is asked for.
    public func makeAsyncIterator() -> Iterator { Iterator(life: SequenceLife(self)) }

    /// One iteration, to be used by one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        let life: SequenceLife<Base>

        /// The next element; `nil` when the sequence has ended.
        public mutating func next() async throws -> Base.Element? { try await life.next(isolation: #isolation) }

        /// The next element; `nil` when the sequence has ended.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(any Error) -> Base.Element? {
            try await life.next(isolation: actor)
        }
    }
}

/// The life of a job whose attempts are iterations of a sequence, for one who asks for elements.
///
/// Used by one task at a time; who drops it has no job any more.
final class SequenceLife<Base: AsyncSequence & Sendable> {
    private enum Stage {
        case unborn
        /// It waits until it may iterate.
        case waiting(JobHandle)
        case iterating(JobHandle, Attempt, Iteration)
        case over
    }

    /// An iteration of the sequence, which each element changes.
    private final class Iteration {
        var iterator: Base.AsyncIterator
        /// Whether it has given an element.
        var hasBegun = false

        init(_ iterator: Base.AsyncIterator) { self.iterator = iterator }
    }

    private let sequence: RetryingSequence<Base>
    private var stage = Stage.unborn

    init(_ sequence: RetryingSequence<Base>) { self.sequence = sequence }

    deinit {
        switch stage {
        case .waiting(let handle), .iterating(let handle, _, _): sequence.bus.abandon(handle)
        case .unborn, .over: break
        }
    }

    /// The next element; `nil` when the sequence has ended.
    func next(isolation: isolated (any Actor)?) async throws -> Base.Element? {
        while true {
            switch stage {
            case .over: return nil
            case .unborn:
                try Task.checkCancellation()
                var request = sequence.request
                request.isPulled = true
                stage = .waiting(try sequence.bus.submit(request))
            case .waiting(let handle):
                try await wait(handle, isolation: isolation)
            case .iterating(let handle, let attempt, let iteration):
                let result = await element(handle, attempt, iteration, isolation: isolation)
                if let element = settle(result, handle, attempt, iteration) { return element }
            }
        }
    }

    /// Suspends until the sequence may be iterated.
    private func wait(_ handle: JobHandle, isolation: isolated (any Actor)?) async throws {
        let bus = sequence.bus
        let step = await withTaskCancellationHandler(
            operation: { await bus.nextStep(handle) }, onCancel: { bus.cancel(handle) }, isolation: isolation)
        switch step {
        case .waiting, .left: break
        case .start(let attempt): stage = .iterating(handle, attempt, Iteration(sequence.base.makeAsyncIterator()))
        case .end(let end):
            stage = .over
            throw bus.conclude(end, handle, sequence.request.policy).error
        }
    }

    private func element(
        _ handle: JobHandle, _ attempt: Attempt, _ iteration: Iteration, isolation: isolated (any Actor)?
    ) async -> Result<Base.Element?, any Error> {
        let bus = sequence.bus
        return await withTaskCancellationHandler(
            operation: {
                await bus.perform(attempt, handle, isolation: isolation) { _ in
                    try await iteration.iterator.next(isolation: isolation)
                }
            }, onCancel: { bus.cancel(handle) }, isolation: isolation)
    }

    /// Takes in what the sequence said; `nil` if it is over, or failed.
    private func settle(
        _ result: Result<Base.Element?, any Error>, _ handle: JobHandle, _ attempt: Attempt, _ iteration: Iteration
    ) -> Base.Element? {
        let bus = sequence.bus
        switch result {
        case .success(let element?):
            if !iteration.hasBegun || sequence.resetsAfterElement {
                let isFirst = !iteration.hasBegun
                iteration.hasBegun = true
                bus.noteProgress(
                    handle, of: attempt.number, forgives: sequence.resetsAfterElement, leavesLimits: isFirst)
            }
            return element
        // A stream that the bus has cancelled returns `nil`, which is not the end of its source.
        case .success(nil) where bus.isInterrupted(handle): fail(handle, CancellationError())
        case .success(nil):
            bus.change { state, now in state.core.succeed(handle.key, at: now) }
            stage = .over
        case .failure(let error): fail(handle, error)
        }
        return nil
    }

    private func fail(_ handle: JobHandle, _ error: any Error) {
        // Before it is tried again: what the iteration held is free.
        stage = .waiting(handle)
        sequence.bus.failed(handle, sequence.request.policy, error)
    }
}
