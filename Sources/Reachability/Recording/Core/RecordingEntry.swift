/// One thing that passed between a monitor and its source, or that is to be known about the recording.
package struct RecordingEntry: Sendable {
    package enum Content: Sendable {
        /// The recording begins: what was asked about, for those who replay it.
        case session(scopes: [Scope])
        /// A batch was delivered.
        case batch(NetworkEventBatch)
        /// The links and addresses were read.
        case interfaces(Answer<[NetworkInterface]>)
        /// A question to the forwarding table was answered.
        case route(RouteQuery, Answer<RouteVerdict>)
        /// So many entries were dropped here, because they came faster than they could be written.
        case gap(lost: UInt64)
        /// The source ended, by an error or because it was told to.
        case end(ReachabilityError?)
    }

    package struct Answer<Value: Sendable>: Sendable {
        package var result: Result<Value, ReachabilityError>
        /// Whether the monitor asked because of the batch before; otherwise somebody asked aside.
        package var isForBatch: Bool

        package init(_ result: Result<Value, ReachabilityError>, isForBatch: Bool) {
            self.result = result
            self.isForBatch = isForBatch
        }
    }

    /// The source's time: the batch's, or that of the last batch before.
    package var now: Duration
    /// The time of day, likewise.
    package var wallTime: Duration
    package var content: Content

    package init(_ content: Content, now: Duration, wallTime: Duration) {
        self.content = content
        self.now = now
        self.wallTime = wallTime
    }
}
