/// What happens to a cold job: each iteration is an independent life.
///
/// The job goes on when the next event is asked for, and not before: after ``JobEvent/attemptStarted(_:)`` the attempt runs when
/// the reader asks for the event after that. An iteration that is dropped, or whose task is cancelled, cancels its job. Delays,
/// timeouts and deadlines run on meanwhile. The sequence ends after ``JobEvent/succeeded(_:)`` (unless the job is repeated),
/// ``JobEvent/gaveUp(_:_:)`` or ``JobEvent/cancelled``.
///
/// The operation runs in the isolation of whoever iterates, unless it has one of its own.
public struct JobEvents<Value: Sendable>: AsyncSequence, Sendable {
    let plan: JobPlan<Value>

    /// Begins an iteration; the job is submitted when its first event is asked for.
    public func makeAsyncIterator() -> Iterator { Iterator(life: JobLife(plan, isPulled: true)) }

    /// One iteration, to be used by one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        let life: JobLife<Value>

        /// The next event; `nil` at the end.
        public mutating func next() async -> JobEvent<Value>? { await life.next(isolation: #isolation) }

        /// The next event; `nil` at the end.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(Never) -> JobEvent<Value>? {
            await life.next(isolation: actor)
        }
    }
}
