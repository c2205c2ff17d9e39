public import CoreMetrics
public import Logging

#if Tracing
public import Tracing
#endif

extension RetryBus {
    /// The release policy, limits and instruments of a bus.
    public struct Configuration: Sendable {
        /// The rate of starts after a reconnect.
        public var releasePolicy = ReleasePolicy.gated
        /// The most attempts that run at a time, of all jobs; `nil` sets no limit.
        ///
        /// Values below 1 are treated as 1. The most urgent and oldest job starts first.
        ///
        /// While jobs of another destination wait, one destination holds at most half of these places. Interactive jobs may exceed
        /// that. A retried sequence gives its place back with its first element. A running attempt that waits for a job of the same
        /// bus lends it its place, to one job at a time. Jobs that it only submits are jobs like any other.
        public var maxConcurrent: Int?
        /// The most attempts of one destination that run at a time; `nil` sets no limit.
        ///
        /// Values below 1 are treated as 1. Jobs without a destination are not limited.
        public var maxConcurrentPerDestination: Int?
        /// The number of ``RetryBus/events`` that wait for a slow listener before the oldest are dropped.
        ///
        /// Values below 1 are treated as 1.
        public var bufferedEvents = 256
        /// The log of job events; `nil` logs nothing.
        ///
        /// Failed attempts are logged at level `info`, all other events at `debug`. The bus logs in order, on the thread of the
        /// event, after the jobs concerned have started, and outside of locks. The handler should not block.
        public var logger: Logger?
        /// The factory of the bus's metrics; `nil` makes none.
        ///
        /// The bus makes them once. For their labels see <doc:Instruments>.
        public var metrics: (any MetricsFactory)?
        #if Tracing
        /// The tracer that makes a span of each job, with an event for each attempt; `nil` makes no spans.
        ///
        /// Available with the package's trait `Tracing`. A span is a child of its caller's span and the parent of the operation's.
        public var tracer: (any Tracer)?
        #endif

        /// The number of machines that lose and regain the same servers, this one included; `nil` for one machine alone.
        ///
        /// `FleetMember.size` of ReachableFleet follows its picture. Applies under ``ReleasePolicy/gated``.
        public var fleetSize: FleetSize?

        /// The executor of submitted jobs and of callers without a preferred executor; `nil` uses the default pool.
        ///
        /// A test's world observes what runs there.
        package var executor: (any TaskExecutor)?

        /// Creates the default configuration.
        public init() {}
    }
}
