/// Something that happens in a life of a cold job, for those who follow that job: see ``Job/events``.
public enum JobEvent<Value: Sendable>: Sendable {
    /// The job waits for the network or another condition.
    ///
    /// At most once in a life.
    case waitingForConnectivity
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
    /// The job gave up: the error that its caller gets, and the story unless the bus did not take the job; the end of the last
    /// life.
    case gaveUp(any Error, GiveUp?)
}
