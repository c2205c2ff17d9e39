/// What happens to a cold job: each iteration is an independent life.
///
/// The job goes on when the next event is asked for, and not before: an iteration that nobody goes on with starts no attempt,
/// and one that is dropped, or whose task is cancelled, cancels its job. Delays and deadlines run on meanwhile. The sequence ends
/// after ``JobEvent/succeeded(_:)`` (unless the job is repeated) or ``JobEvent/gaveUp(_:_:)``, and when the job is cancelled.
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
