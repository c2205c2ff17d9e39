public import CoreMetrics
public import Logging

extension ReachabilityMonitor {
    /// The limits, intervals and instruments of a monitor.
    public struct Configuration: Sendable {
        /// The groups of addresses that stand for the IPv4 internet; no packet is sent to them.
        ///
        /// A group passes when one of its members does. A later member is asked only after the earlier ones failed, so that a host
        /// route, a filter or a monitoring script that pins one address does not take the internet down. IPv4 is satisfied when all
        /// groups pass. By default there is a group in each half of the address space, because half of a VPN's split default is not
        /// the internet: 198.41.0.4, 193.0.14.129 and 192.5.5.241; 1.1.1.1, 64.6.64.6 and 45.90.28.0.
        ///
        /// IPv6 addresses and empty groups are ignored. Without a group, IPv4 never satisfies the internet.
        public var ipv4Representatives: [[IPAddress]] = defaultIPv4Representatives
        /// The groups of addresses that stand for the IPv6 internet, like ``ipv4Representatives``.
        ///
        /// By default 2001:503:ba3e::2:30 and 2001:7fd::1; 2801:1b8:10::b and 2001:500:2f::f.
        public var ipv6Representatives: [[IPAddress]] = defaultIPv6Representatives
        /// True if a tunnel counts by itself, whatever it stands on.
        ///
        /// By default a tunnel such as WireGuard, whose far end the kernel does not tell, needs *ground*: another interface with
        /// carrier, an address, and a way to the internet or hardware. Without ground the path is unsatisfied, as packets into the
        /// tunnel are lost. Set this for a tunnel whose program sends by other means than this machine's network interfaces, such
        /// as a radio or a serial line.
        public var tunnelsStandAlone = false
        /// The least length of an outage that ``ReachabilityMonitor/transitions`` publishes; 0 publishes every outage.
        ///
        /// Negative values are treated as 0. Changes other than losses and gains keep a distance of 250 ms whatever the grace is.
        public var lossGrace: Duration = .milliseconds(250)
        /// The interval of audits, which look up every scope without an event; `nil` for no audits.
        ///
        /// Clamped to at least 1 ms.
        public var auditInterval: Duration? = .seconds(30)
        /// The interval of audits while a watched scope is unsatisfied; `nil` for no audits.
        public var auditIntervalWhileUnsatisfied: Duration? = .seconds(5)
        /// The interval of evaluations while the source hears no events (``MonitorHealth/Mode/polling``).
        ///
        /// Clamped to at least 1 ms. An audit that is due earlier comes earlier.
        public var pollInterval: Duration = .seconds(2)
        /// The interval of name lookups of watched hosts; `nil` for no repeated lookups.
        ///
        /// Clamped to at least 1 s. The system's resolver does not report the lifetime of its answers. A failed lookup is repeated
        /// after 1 s, then after pauses of twice the time, up to 15 s. A change of the path to the internet, or of a file of the
        /// resolver such as /etc/resolv.conf, has every name looked up again.
        public var hostRefreshInterval: Duration? = .seconds(60)
        /// The check of the far end of the path to the internet; `nil` for none: the monitor then sends no packets.
        ///
        /// It is called when the path to the internet changes, at most once per second; repeatedly after results other than
        /// `validated` (``revalidationInterval``); and by ``ReachabilityMonitor/validate()``. ``NetworkPath/validation`` has its
        /// result.
        public var validator: (any PathValidator)?
        /// The time limit of a validation, after which it is treated as failed.
        ///
        /// Clamped to at least 1 ms. It includes the wait for the end of a cancelled validation.
        public var validationTimeout: Duration = .seconds(10)
        /// The longest pause after a validation without success, because portals open later; `nil` for no further validation.
        ///
        /// Clamped to at least 1 s. On each path the first pause is 1 s, and each later one twice as long, up to this. After a
        /// success the next validation waits for a change of the path or a call of ``ReachabilityMonitor/validate()``.
        public var revalidationInterval: Duration? = .seconds(60)
        /// The number of transitions that are buffered for a slow listener; the oldest are dropped first.
        ///
        /// Clamped to at least 1.
        public var bufferedTransitions: Int = 64
        /// The monitor's logger; `nil` for none.
        ///
        /// Level `info` has losses and returns of the internet and the loss of events; all else is `debug`. Losses that end within
        /// ``lossGrace`` are not logged. The handler is called on the thread that reads from the kernel, in order, after all
        /// listeners, and outside locks; it should not block.
        public var logger: Logger?
        /// The factory of the monitor's metrics; `nil` for none.
        ///
        /// The metrics are made once, with the monitor. Of the internet: `reachability.satisfied`, `reachability.transitions`,
        /// `reachability.outage.seconds`, `reachability.path.losses`. Of the monitor's ``ReachabilityMonitor/health``:
        /// `reachability.losses`, `reachability.resyncs`, `reachability.missed.by.events`, `reachability.requests.failed`.
        public var metrics: (any MetricsFactory)?

        /// Makes the default configuration.
        public init() {}

        private static let defaultIPv4Representatives = [
            ["198.41.0.4", "193.0.14.129", "192.5.5.241"], ["1.1.1.1", "64.6.64.6", "45.90.28.0"],
        ].map { $0.compactMap(IPAddress.init) }
        private static let defaultIPv6Representatives = [
            ["2001:503:ba3e::2:30", "2001:7fd::1"], ["2801:1b8:10::b", "2001:500:2f::f"],
        ].map { $0.compactMap(IPAddress.init) }
    }
}
