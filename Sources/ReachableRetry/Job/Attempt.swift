/// One run of a job's operation, as the operation is told of it.
public struct Attempt: Sendable {
    /// The number of the attempt; the first is 1.
    ///
    /// Attempts that the network broke off count here, too.
    public var number: Int
    /// Why the attempt before failed; `nil` for the first.
    public var previousFailure: (any Error)?
    /// How long the attempt may take, counted from its start; `nil` if nothing limits it.
    ///
    /// The attempt's timeout or what is left until the job's timeLimit, whichever is less. Then it is cancelled.
    public var timeLimit: Duration?
    /// Counts the reconnects: how often what the job waits for had become available when the attempt started.
    ///
    /// To be compared with the epoch of another attempt of the same job. If they differ, the network was away or changed in
    /// between: connections that were kept are likely dead.
    public var epoch: UInt64

    /// Has the bus note that the attempt gets somewhere.
    var progress: (@Sendable () -> Void)?

    /// Reports that the operation gets somewhere, such as that the server answers or takes data.
    ///
    /// That proves the way to the destination: other jobs need not wait until this attempt has ended. For operations that take
    /// long; a success is reported without it. It does not reset the count of charged attempts, nor extend a limit. May be called
    /// from any thread, and any number of times. Does nothing after the attempt's end, and for an attempt without a bus.
    public func reportProgress() { progress?() }

    /// Makes an attempt, to call an operation without a bus.
    public init(number: Int = 1, previousFailure: (any Error)? = nil, timeLimit: Duration? = nil, epoch: UInt64 = 0) {
        self.number = number
        self.previousFailure = previousFailure
        self.timeLimit = timeLimit
        self.epoch = epoch
    }
}
