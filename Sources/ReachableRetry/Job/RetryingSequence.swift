public import Reachability

extension RetryBus {
    /// Returns a sequence that makes another one for each attempt, and goes on with a new one when it fails.
    ///
    /// ```swift
    /// let messages = bus.sequence(policy, resetsAfterElement: true) { _ in try await chat.connect().messages }
    /// for try await message in messages { show(message) }
    /// ```
    ///
    /// One attempt is one call of `make` and one iteration of its result. It starts when the reader asks for an element, and lasts
    /// until the sequence fails, or ends and with it the job. The result has the elements of all iterations, including those that a
    /// source repeats. Each iteration of the result is an independent life. Dropping it, or cancelling its task, cancels its job.
    /// The sequences are made and iterated in the reader's isolation.
    ///
    /// After an attempt timeout or an interruption another sequence is made, although a cancelled stream reports its end. When the
    /// job gives up, the result throws the last error, or a ``RetryError`` like `RetryBus.retry`; `CancellationError` if the
    /// reader's task or the job was cancelled.
    ///
    /// The first element of an iteration proves the path to the destination, as ``Attempt/reportProgress()`` does.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits. The attempt timeout applies to whole iterations.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - resetsAfterElement: If `true`, an element resets the charged attempts and the backoff. For long subscriptions, not for
    ///     sources that fail each time after the same element.
    ///   - make: Makes the sequence of an attempt, for example by connecting. Its errors are failures of the attempt.
    public func sequence<Base: AsyncSequence>(
        _ policy: RetryPolicy = .default, to scope: Scope = .internet, options: JobOptions = JobOptions(),
        resetsAfterElement: Bool = false, make: @escaping @Sendable (Attempt) async throws -> Base
    ) -> RetryingSequence<Base> {
        RetryingSequence(
            make: make, isValue: false, bus: self, request: JobRequest(policy: policy, scope: scope, options: options),
            resetsAfterElement: resetsAfterElement)
    }
}

extension AsyncSequence where Self: Sendable {
    /// Returns a sequence that iterates this one again from the beginning when it fails.
    ///
    /// For sequences that can be iterated more than once. An `AsyncStream` cannot: after a failure it only ends. Use
    /// ``RetryBus/sequence(_:to:options:resetsAfterElement:make:)`` for it, which makes another one for each attempt and is the
    /// same otherwise. An iteration after a failure that ends without an element throws that failure again.
    ///
    /// - Parameters:
    ///   - policy: The delays and limits. The attempt timeout applies to whole iterations.
    ///   - bus: The bus of the job.
    ///   - scope: The scope to reach.
    ///   - options: The job's destination, conditions, priority and name.
    ///   - resetsAfterElement: If `true`, an element resets the charged attempts and the backoff.
    public func retry(
        _ policy: RetryPolicy = .default, on bus: RetryBus = .shared, to scope: Scope = .internet,
        options: JobOptions = JobOptions(), resetsAfterElement: Bool = false
    ) -> RetryingSequence<Self> {
        RetryingSequence(
            make: { _ in self }, isValue: true, bus: bus, request: JobRequest(policy: policy, scope: scope, options: options),
            resetsAfterElement: resetsAfterElement)
    }
}

/// A sequence that goes on after a failure: see ``RetryBus/sequence(_:to:options:resetsAfterElement:make:)``.
public struct RetryingSequence<Base: AsyncSequence>: AsyncSequence, Sendable {
    let make: @Sendable (Attempt) async throws -> Base
    /// True if each attempt iterates the same sequence.
    let isValue: Bool
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
final class SequenceIteration<Base: AsyncSequence> {
    private enum Stage {
        case idle
        /// The job waits until it may iterate.
        case waiting(JobDriver)
        case iterating(JobDriver, Attempt, Iteration)
        case over
    }

    /// An iteration of the sequence, which each element changes.
    private final class Iteration {
        /// `nil` until the sequence was made.
        var iterator: Base.AsyncIterator?
        /// True after its first element.
        var hasBegun = false

        func next(
            _ make: (Attempt) async throws -> Base, _ attempt: Attempt, isolation: isolated (any Actor)?
        ) async throws -> Base.Element? {
            if iterator == nil { iterator = try await make(attempt).makeAsyncIterator() }
            return try await iterator?.next(isolation: isolation)
        }
    }

    private let sequence: RetryingSequence<Base>
    private var stage = Stage.idle
    /// The failure of the last attempt.
    private var lastFailure: (any Error)?

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
                case .waiting, .announced, .left: break
                case .start(let attempt): stage = .iterating(driver, attempt, Iteration())
                case .ended(let end):
                    stage = .over
                    throw driver.conclude(end).error
                }
            case .iterating(let driver, let attempt, let iteration):
                let result = await driver.perform(attempt, isolation: isolation) { attempt in
                    try await iteration.next(sequence.make, attempt, isolation: isolation)
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
        // A stream that has ended cannot be read again: without this its failure would be lost.
        case .success(nil) where sequence.isValue && !iteration.hasBegun && lastFailure != nil:
            fail(driver, lastFailure ?? CancellationError(), isFinal: true)
        case .success(nil):
            driver.succeed()
            stage = .over
        case .failure(let error): fail(driver, error)
        }
        return nil
    }

    private func fail(_ driver: JobDriver, _ error: any Error, isFinal: Bool = false) {
        // First, so that the iteration is released before the next attempt.
        stage = .waiting(driver)
        lastFailure = driver.fail(error, isFinal: isFinal)?.error
    }
}
