/// An event in a life of a cold job, for those who follow that job: see ``Job/events`` and ``Job/onEvent(_:)``.
///
/// A life ends with exactly one of ``succeeded(_:)``, ``gaveUp(_:_:)`` and ``cancelled``.
public enum JobEvent<Value: Sendable>: Sendable {
    /// The job begins to wait for the network or other conditions: all that is missing, the network first.
    ///
    /// Each time, and again when what the job waits for first has changed; not if the wait is over before it could be told.
    case waiting(for: [RetryEvent.Unmet])
    /// An attempt starts: its number.
    case attemptStarted(Int)
    /// An attempt succeeded: what it returned.
    case attemptSucceeded(Value)
    /// An attempt failed: why, and whose fault it was.
    case attemptFailed(RetryEvent.Failure)
    /// The job waits so long before the next attempt, unless a reconnect comes first.
    ///
    /// Not told if it waits for the network instead, or starts again at once.
    case backingOff(Duration)
    /// The job has its result: the end of this life.
    case succeeded(Value)
    /// The job gave up: the error that its caller gets, and the report unless the bus did not take the job; the end of the last
    /// life.
    case gaveUp(any Error, GiveUp?)
    /// The job was cancelled, by its caller, by its name, by the bus's shutdown, or because its reader was dropped: the end of the
    /// last life.
    case cancelled
}

/// What happens to a cold job: each iteration is an independent life.
///
/// The job goes on when the next event is asked for, and not before: after ``JobEvent/attemptStarted(_:)`` the attempt runs when
/// the reader asks for the event after that. An iteration that is dropped, or whose task is cancelled, cancels its job. Delays,
/// timeouts and deadlines run on meanwhile. The sequence ends after ``JobEvent/succeeded(_:)`` (unless the job is repeated),
/// ``JobEvent/gaveUp(_:_:)`` or ``JobEvent/cancelled``.
///
/// The operation runs in the isolation of whoever iterates, unless it has one of its own.
public struct JobEvents<Value: Sendable>: AsyncSequence, Sendable {
    let definition: JobDefinition<Value>

    /// Begins an iteration; the job is submitted when its first event is asked for.
    public func makeAsyncIterator() -> Iterator { Iterator(life: JobLife(definition, isPulled: true)) }

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
