/// The counters of a monitor, and the way in which it learns about changes.
public struct MonitorHealth: Hashable, Sendable {
    /// The way in which a monitor learns about changes.
    ///
    /// More may be added.
    public struct Mode: RawRepresentable, Hashable, Sendable {
        /// The stable name, as in JSON.
        public let rawValue: String
        /// Makes a mode from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// Not running yet, or before the first snapshot.
        public static let starting = Mode(rawValue: "starting")
        /// Hears every change as it happens.
        public static let live = Mode(rawValue: "live")
        /// Events were lost, and the resync has not succeeded yet.
        public static let resyncing = Mode(rawValue: "resyncing")
        /// Hears no events and evaluates at intervals: a sandbox or the kernel refuses multicast, or netlink altogether.
        public static let polling = Mode(rawValue: "polling")
        /// Knows nothing: the source failed or ended, or no request succeeds.
        public static let blind = Mode(rawValue: "blind")
    }

    /// The way in which the monitor learns about changes.
    public var mode: Mode = .starting
    /// The number of losses of events: ENOBUFS, a drop counter that moved, or a message that did not fit.
    ///
    /// A loss can delay a verdict; the resync after it keeps verdicts right.
    public var losses: Int = 0
    /// The number of datagrams that the kernel dropped because the event socket's receive buffer was full (SO_MEMINFO, socket(7)).
    ///
    /// Without the route messages that the filter drops because they cannot matter.
    public var drops: Int = 0
    /// The number of resyncs after losses or a suspension.
    ///
    /// Repeated losses are resynced at growing intervals, from 50 ms to 5 s; lookups find changes sooner.
    public var resyncs: Int = 0
    /// The number of new event sockets in place of one that went deaf, or after three failed dumps in a row.
    public var reopens: Int = 0
    /// The number of datagrams that were dropped because their sender is not the kernel.
    public var spoofed: Int = 0
    /// The number of malformed messages.
    public var malformed: Int = 0
    /// The number of dumps and lookups that failed.
    public var failedRequests: Int = 0
    /// The number of changes that were found without an event, mostly by audits: 0 if the events can be trusted.
    public var missedByEvents: Int = 0
    /// The time of the last audit, on the source's clock; `nil` before the first.
    public var lastAudit: BootInstant?
    /// The size of the event socket's receive buffer in bytes, as the kernel granted it; `nil` if there is none.
    public var receiveBuffer: Int?
    /// The error of the last failed request, until all requests succeed again.
    ///
    /// Retried; the last known state is kept meanwhile.
    public var lastFailure: ReachabilityError?
    /// The reason why a running monitor polls or is blind: a sandbox, or a passing shortage; otherwise `nil`.
    public var impairment: ReachabilityError?
    /// The error that ended the monitor, if one did.
    public var failure: ReachabilityError?

    /// Makes the health of a monitor that has not started.
    public init() {}
}

extension MonitorHealth {
    /// Adds the counts of a batch.
    mutating func count(_ batch: NetworkEventBatch) {
        spoofed.addSaturating(batch.spoofed)
        malformed.addSaturating(batch.malformed)
        drops.addSaturating(batch.drops)
        reopens.addSaturating(batch.reopens)
        if let size = batch.receiveBuffer { receiveBuffer = size }
    }
}

extension Int {
    /// Adds a count of a source, up to the largest number.
    fileprivate mutating func addSaturating(_ other: Int) {
        let (sum, overflow) = addingReportingOverflow(Swift.max(0, other))
        self = overflow ? .max : sum
    }
}
