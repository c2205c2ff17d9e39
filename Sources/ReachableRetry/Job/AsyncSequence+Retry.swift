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
    public func makeAsyncIterator() -> Iterator { Iterator(iteration: SequenceIteration(self)) }

    /// One iteration, to be used by one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        let iteration: SequenceIteration<Base>

        /// The next element; `nil` when the sequence has ended.
        public mutating func next() async throws -> Base.Element? { try await iteration.next(isolation: #isolation) }

        /// The next element; `nil` when the sequence has ended.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(any Error) -> Base.Element? {
            try await iteration.next(isolation: actor)
        }
    }
}

/// The elements of a retried sequence: each attempt of its job is one iteration of the sequence.
///
/// Used by one task at a time. Dropping it cancels the job.
final class SequenceIteration<Base: AsyncSequence & Sendable> {
    private enum Stage {
        case idle
        /// The job waits until it may iterate.
        case waiting(JobDriver)
        case iterating(JobDriver, Attempt, Iteration)
        case over
    }

    /// An iteration of the sequence, which each element changes.
    private final class Iteration {
        var iterator: Base.AsyncIterator
        /// True after its first element.
        var hasBegun = false

        init(_ iterator: Base.AsyncIterator) { self.iterator = iterator }
    }

    private let sequence: RetryingSequence<Base>
    private var stage = Stage.idle

    init(_ sequence: RetryingSequence<Base>) { self.sequence = sequence }

    deinit {
        switch stage {
        case .waiting(let driver), .iterating(let driver, _, _): driver.abandon()
        case .idle, .over: break
        }
    }

    /// Returns the next element; `nil` when the sequence has ended.
    func next(isolation: isolated (any Actor)?) async throws -> Base.Element? {
        while true {
            switch stage {
            case .over: return nil
            case .idle:
                try Task.checkCancellation()
                var request = sequence.request
                request.reader = .ofElements
                let handle = try sequence.bus.submit(request)
                stage = .waiting(
                    JobDriver(bus: sequence.bus, handle: handle, policy: request.policy, reader: .ofElements))
            case .waiting(let driver):
                switch await driver.cancellable(isolation: isolation, { await driver.next() }) {
                case .waiting, .left: break
                case .start(let attempt): stage = .iterating(driver, attempt, Iteration(sequence.base.makeAsyncIterator()))
                case .ended(let end):
                    stage = .over
                    throw driver.conclude(end).error
                }
            case .iterating(let driver, let attempt, let iteration):
                let result = await driver.cancellable(isolation: isolation) {
                    await driver.perform(attempt, isolation: isolation) { _ in
                        try await iteration.iterator.next(isolation: isolation)
                    }
                }
                if let element = settle(result, driver, attempt, iteration) { return element }
            }
        }
    }

    /// Reports the result of one step of an iteration to the bus; returns the element, if there is one.
    private func settle(
        _ result: Result<Base.Element?, any Error>, _ driver: JobDriver, _ attempt: Attempt, _ iteration: Iteration
    ) -> Base.Element? {
        switch result {
        case .success(let element?):
            if !iteration.hasBegun || sequence.resetsAfterElement {
                let isFirst = !iteration.hasBegun
                iteration.hasBegun = true
                driver.bus.noteProgress(
                    driver.handle, of: attempt.number, forgives: sequence.resetsAfterElement, leavesLimits: isFirst)
            }
            return element
        // A stream that the bus has cancelled returns `nil`, which is not the end of its source.
        case .success(nil) where driver.isInterrupted: fail(driver, CancellationError())
        case .success(nil):
            driver.succeed()
            stage = .over
        case .failure(let error): fail(driver, error)
        }
        return nil
    }

    private func fail(_ driver: JobDriver, _ error: any Error) {
        // First, so that the iteration is released before the next attempt.
        stage = .waiting(driver)
        driver.fail(error)
    }
}
