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
        /// Sees nothing: the source failed or ended.
        public static let blind = Mode(rawValue: "blind")
    }

    /// How the monitor learns about changes.
    public var mode: Mode = .starting
    /// How often the kernel said that it lost events (ENOBUFS).
    public var losses: Int = 0
    /// How often everything was asked anew because of a loss or a suspension.
    public var resyncs: Int = 0
    /// How many datagrams from others than the kernel were dropped.
    public var forged: Int = 0
    /// How many messages could not be understood.
    public var malformed: Int = 0
    /// How many dumps and look-ups failed.
    public var failedRequests: Int = 0
    /// How many changes were noticed without an event, by an audit for the most part: 0 if the events can be trusted.
    public var missedByEvents: Int = 0
    /// When the last audit was, on the source's clock; `nil` before the first.
    public var lastAudit: Duration?
    /// The size of the event socket's receive buffer in bytes, as the kernel granted it; `nil` if there is none.
    public var receiveBuffer: Int?
    /// The last request that failed, until all succeed again; it is tried again, and meanwhile what was known stays.
    public var lastFailure: ReachabilityError?
    /// The error that ended the monitor, if one did.
    public var failure: ReachabilityError?

    /// Makes the health of a monitor that has not started.
    public init() {}
}
