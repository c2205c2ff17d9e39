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
