public import Reachability

extension AsyncSequence where Self: Sendable {
    /// Returns a sequence that iterates this one again from the beginning when it fails.
    ///
    /// ```swift
    /// for try await message in socket.messages.retry(policy, on: bus, resetsAfterElement: true) { show(message) }
    /// ```
    ///
    /// One attempt is one iteration of this sequence. It starts when the reader asks for an element, and lasts until the sequence
    /// fails, or ends and with it the job. The result has the elements of all iterations, including those that a source repeats.
    /// Each iteration of the result is an independent life. Dropping it, or cancelling its task, cancels its job. The sequence is
    /// iterated in the reader's isolation.
    ///
    /// After an attempt timeout or an interruption the sequence is iterated again, although a cancelled stream reports its end.
    /// When the job gives up, the result throws the sequence's last error, or a ``RetryError`` like `RetryBus.retry`;
    /// `CancellationError` if the reader's task or the job was cancelled.
    ///
    /// The first element of an iteration proves the path to the destination, as ``Attempt/reportProgress()`` does.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits. The attempt timeout applies to whole iterations.
    ///   - bus: The bus of the job.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - resetsAfterElement: If `true`, an element resets the charged attempts and the backoff. For long subscriptions, not for
    ///     sources that fail each time after the same element.
    public func retry(
        _ policy: RetryPolicy = .default, on bus: RetryBus = .shared, to scope: Scope = .internet,
        options: JobOptions = JobOptions(), resetsAfterElement: Bool = false
    ) -> RetryingSequence<Self> {
        let request = JobRequest(policy: policy, scope: scope, options: options)
        return RetryingSequence(base: self, bus: bus, request: request, resetsAfterElement: resetsAfterElement)
    }
}

/// A sequence that is iterated again after a failure: see `AsyncSequence.retry`.
public struct RetryingSequence<Base: AsyncSequence & Sendable>: AsyncSequence, Sendable {
    let base: Base
    let bus: RetryBus
    let request: JobRequest
    let resetsAfterElement: Bool

    /// Begins an iteration; its job is submitted when the reader asks for the first element.
    public func makeAsyncIterator() -> Iterator { Iterator(iteration: SequenceIteration(self)) }

    /// One iteration, for one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        let iteration: SequenceIteration<Base>

        /// Returns the next element; `nil` when the sequence has ended.
        public mutating func next() async throws -> Base.Element? { try await iteration.next(isolation: #isolation) }

        /// Returns the next element; `nil` when the sequence has ended.
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
                switch await driver.next() {
                case .waiting, .left: break
                case .start(let attempt): stage = .iterating(driver, attempt, Iteration(sequence.base.makeAsyncIterator()))
                case .ended(let end):
                    stage = .over
                    throw driver.conclude(end).error
                }
            case .iterating(let driver, let attempt, let iteration):
                let result = await driver.perform(attempt, isolation: isolation) { _ in
                    try await iteration.iterator.next(isolation: isolation)
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
