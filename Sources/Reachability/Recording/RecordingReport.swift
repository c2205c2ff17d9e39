/// What a recording holds, and what is wrong with it; as far as it has been read.
public struct RecordingReport: Hashable, Sendable {
    /// How many batches of events there are.
    public var batches: Int = 0
    /// How many dumps and look-ups there are, failed ones included.
    public var answers: Int = 0
    /// How many records or messages could not be understood and were left out: the file was damaged.
    public var malformed: Int = 0
    /// How many records or messages were left out because they mean nothing to this version, or nothing for reachability.
    public var skipped: Int = 0
    /// How many entries the recorder dropped because they came faster than they could be written.
    public var lost: UInt64 = 0
    /// Whether the file ends in the middle of a record, as after a crash or on a full disk.
    ///
    /// Everything before that is read.
    public var isTorn: Bool { tornAt != nil }
    /// The offset in bytes at which the record begins that the file ends in the middle of; `nil` unless ``isTorn``.
    public var tornAt: Int?
    /// Whether the recorder said that this is the end.
    ///
    /// Otherwise its process was killed, or is still at it.
    public var isComplete: Bool = false
    /// The error that the recorded source ended with, if it did.
    public var failure: ReachabilityError?

    /// Makes the report of a recording of which nothing was read.
    public init() {}

    mutating func count(_ entry: RecordingEntry) {
        switch entry.content {
        case .session: break
        case .batch: batches += 1
        case .interfaces, .route: answers += 1
        case .gap(let lost): self.lost = self.lost.addingReportingOverflow(lost).overflow ? .max : self.lost + lost
        case .end(let error):
            isComplete = true
            failure = error
        }
    }
}
