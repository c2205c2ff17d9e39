/// One run of a job's operation.
public struct Attempt: Sendable {
    /// The number of the attempt; the first is 1.
    ///
    /// Attempts that the network broke are included.
    public var number: Int
    /// The error of the previous attempt; `nil` for the first.
    public var previousFailure: (any Error)?
    /// The longest duration of the attempt, counted from its start; `nil` if there is no limit.
    ///
    /// The attempt's timeout or the time left until the job's deadline, whichever is less. At the limit the bus cancels the
    /// attempt.
    public var timeLimit: Duration?
    /// The number of times that the job's scope and conditions had become available when the attempt started.
    ///
    /// Compare it with the epoch of another attempt of the same job. If they differ, the network was lost or changed in between,
    /// and kept connections are likely dead.
    public var epoch: UInt64

    /// A report of a running attempt to its bus.
    enum Report: Sendable {
        case progress
        case kept(Int64)
        case warning(String)
    }

    var report: (@Sendable (Report) -> Void)?

    /// A scope as one bus follows it.
    package struct Network: Hashable, Sendable {
        let bus: ObjectIdentifier
        let scope: ConditionIndex
    }

    /// The scope of the attempt, and its epoch at the start: connections of an earlier one are likely dead.
    package var network: (Network, epoch: UInt64)?
    /// Returns true if the bus cut the attempt.
    var cut: (@Sendable () -> Bool)?

    /// True if the bus cut the attempt, because of its time limit or a loss.
    package var isCut: Bool { cut?() ?? false }

    /// Reports progress, such as an answer of the server or accepted data.
    ///
    /// Progress proves the path to the destination, so other jobs do not wait for the end of this attempt. For long operations; a
    /// success needs no report. It neither resets the count of charged attempts nor extends a limit. Thread-safe. Further calls,
    /// calls after the attempt's end and calls without a bus have no effect.
    public func reportProgress() { report?(.progress) }

    /// Reports how much of a long transfer is kept: bytes of a download that need not be sent again, or of an upload that the
    /// server has confirmed.
    ///
    /// An attempt that breaks off is not charged, and ends the backoff's growth, if it raised the most that was reported in this
    /// job by at least 64 KiB; its successor starts after the policy's first delay, and after at least half a second. Report what
    /// is there already when the attempt starts, and then each larger number; bytes that were merely sent do not count. A number
    /// that is larger than all before proves the path, as ``reportProgress()`` does. Thread-safe. Calls after the attempt's end
    /// and calls without a bus have no effect.
    public func reportProgress(kept bytes: Int64) { report?(.kept(bytes)) }

    /// Publishes a warning as an event, and logs it once in the life of the process.
    package func warn(_ text: String) { report?(.warning(text)) }

    /// Creates an attempt, for calling an operation without a bus.
    public init(number: Int = 1, previousFailure: (any Error)? = nil, timeLimit: Duration? = nil, epoch: UInt64 = 0) {
        self.number = number
        self.previousFailure = previousFailure
        self.timeLimit = timeLimit
        self.epoch = epoch
    }
}
