public import CoreMetrics
public import Logging

extension ReachabilityMonitor {
    /// How a monitor judges and reports.
    public struct Configuration: Sendable {
        /// The addresses that stand for the IPv4 internet; no packet is sent to them.
        ///
        /// One in each half of the address space, so that a pinned host route or half of a VPN's split default
        /// is not mistaken for the internet. IPv6 addresses in it are ignored. If it is empty, IPv4 never satisfies the internet.
        public var ipv4Representatives: [IPAddress] = defaultIPv4Representatives
        /// The addresses that stand for the IPv6 internet, like ``ipv4Representatives``.
        public var ipv6Representatives: [IPAddress] = defaultIPv6Representatives
        /// How long an outage must last before ``ReachabilityMonitor/transitions`` tells it; 0 holds nothing back.
        ///
        /// Negative counts as 0.
        public var lossGrace: Duration = .milliseconds(250)
        /// How often everything is checked although no event came; `nil` for never.
        ///
        /// At least a millisecond.
        public var auditInterval: Duration? = .seconds(30)
        /// The same while a watched scope is unsatisfied.
        public var auditIntervalWhileUnsatisfied: Duration? = .seconds(5)
        /// How often everything is asked when the source hears no events (``MonitorHealth/Mode/polling``).
        ///
        /// At least a millisecond; an audit that is due earlier comes earlier.
        public var pollInterval: Duration = .seconds(2)
        /// How often the names of watched hosts are looked up again though nothing happened; `nil` for never.
        ///
        /// At least a second. The system's resolver does not tell how long its answers hold.
        public var hostRefreshInterval: Duration? = .seconds(60)
        /// What finds out whether the far end of the internet's path answers; `nil` for nobody, so that nothing is sent.
        ///
        /// Once set, it is called when the path to the internet changes, once a second at the most; while nothing
        /// better than a portal was found, again and again (``revalidationInterval``); and on ``ReachabilityMonitor/validate()``.
        /// What it finds is in ``NetworkPath/validation``.
        public var validator: (any PathValidator)?
        /// How long a validation may take before it counts as failed.
        ///
        /// At least a millisecond. It includes the wait for the end of a validation that was cancelled.
        public var validationTimeout: Duration = .seconds(10)
        /// How long at most after a validation that did not succeed the next one follows, for portals open; `nil` for never.
        ///
        /// At least a second. On each path the first pause is a second, and each later one twice as long as that before it, up to
        /// this. After a success there is no other validation before the path changes or somebody asks.
        public var revalidationInterval: Duration? = .seconds(60)
        /// How many transitions wait for a listener that is slow; then the oldest are dropped.
        ///
        /// At least 1.
        public var bufferedTransitions: Int = 64
        /// Where the monitor tells what happens; `nil` for nowhere.
        ///
        /// That the internet was lost and found, and that events cannot be heard, is told at level `info`, all else at `debug`.
        /// Losses that end within ``lossGrace`` are not told. The handler is called on the thread that reads from the kernel, in
        /// order, after all listeners, and outside of locks; it should not block.
        public var logger: Logger?
        /// What makes the monitor's metrics; `nil` for none.
        ///
        /// They are made once, with the monitor, and tell of the internet: `reachability.satisfied`, `reachability.transitions`,
        /// `reachability.outage.seconds`; and of the monitor's ``ReachabilityMonitor/health``: `reachability.losses`,
        /// `reachability.resyncs`, `reachability.missed.by.events`, `reachability.requests.failed`.
        public var metrics: (any MetricsFactory)?

        /// Makes the default configuration.
        public init() {}

        private static let defaultIPv4Representatives = ["198.41.0.4", "1.1.1.1"].compactMap(IPAddress.init)
        private static let defaultIPv6Representatives = ["2001:503:ba3e::2:30", "2801:1b8:10::b"].compactMap(IPAddress.init)
    }
}
