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
        let order = RetryBus.Order(policy: policy, scope: scope, options: options)
        return RetryingSequence(base: self, bus: bus, order: order, resetsAfterElement: resetsAfterElement)
    }
}

/// A sequence that is iterated again when it fails: see `AsyncSequence.retry`.
public struct RetryingSequence<Base: AsyncSequence & Sendable>: AsyncSequence, Sendable {
    let base: Base
    let bus: RetryBus
    let order: RetryBus.Order
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
