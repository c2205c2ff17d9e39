/// What a monitor went through, and how far it can be trusted.
public struct MonitorHealth: Hashable, Sendable {
    /// How the monitor learns about changes.
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
        /// Events were lost, and asking anew has not succeeded yet.
        public static let resyncing = Mode(rawValue: "resyncing")
        /// Hears no events, and asks at intervals instead: a sandbox or the kernel refuses multicast, or netlink altogether.
        public static let polling = Mode(rawValue: "polling")
        /// Sees nothing: the source failed or ended, or no request succeeds.
        public static let blind = Mode(rawValue: "blind")
    }

    /// How the monitor learns about changes.
    public var mode: Mode = .starting
    /// How often events were lost: the kernel said so (ENOBUFS), or counted what it dropped, or a message did not fit.
    ///
    /// A loss can delay a verdict; everything is then asked anew, so that it cannot make it wrong for good.
    public var losses: Int = 0
    /// How many datagrams the kernel dropped because the event socket's receive buffer was full (SO_MEMINFO, socket(7)).
    ///
    /// Route messages that a filter keeps away because they cannot matter do not count.
    public var drops: Int = 0
    /// How often everything was asked anew because of losses or a suspension.
    ///
    /// While losses go on this is done at growing intervals, from 50 ms to 5 s; what look-ups tell is known sooner.
    public var resyncs: Int = 0
    /// How often the event socket was closed and another one opened: it had gone deaf, or dumps had failed three times in a row.
    public var reopens: Int = 0
    /// The number of datagrams that were dropped because their sender is not the kernel.
    public var spoofed: Int = 0
    /// How many messages could not be understood.
    public var malformed: Int = 0
    /// How many dumps and look-ups failed.
    public var failedRequests: Int = 0
    /// How many changes were noticed without an event, by an audit for the most part: 0 if the events can be trusted.
    public var missedByEvents: Int = 0
    /// When the last audit was, on the source's clock; `nil` before the first.
    public var lastAudit: BootInstant?
    /// The size of the event socket's receive buffer in bytes, as the kernel granted it; `nil` if there is none.
    public var receiveBuffer: Int?
    /// The last request that failed, until all succeed again; it is tried again, and meanwhile what was known stays.
    public var lastFailure: ReachabilityError?
    /// The reason why the monitor polls or is blind while it runs: a sandbox, or a shortage that may pass; otherwise `nil`.
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
