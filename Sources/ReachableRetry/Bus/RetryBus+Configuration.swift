public import CoreMetrics
public import Logging

#if Tracing
public import Tracing
#endif

extension RetryBus {
    /// How a bus lets jobs go, and what it keeps.
    public struct Configuration: Sendable {
        /// How fast jobs are let go when the network is back.
        public var releasePolicy = ReleasePolicy.gated
        /// How many attempts run at a time at most, of all jobs; `nil` sets no limit.
        ///
        /// Less than 1 counts as 1. The most urgent and oldest job goes first.
        ///
        /// While jobs of another destination wait, one destination holds at most half of these places; interactive jobs may exceed
        /// that. A retried sequence gives its place back with its first element. A job that is submitted from inside a running
        /// attempt of the same bus uses that attempt's place.
        public var maxConcurrent: Int?
        /// How many attempts of one destination run at a time at most; `nil` sets no limit.
        ///
        /// Less than 1 counts as 1. Jobs without a destination are not limited.
        public var maxConcurrentPerDestination: Int?
        /// How many ``RetryBus/events`` wait for a listener that is slow; then the oldest are dropped.
        ///
        /// Less than 1 counts as 1.
        public var bufferedEvents = 256
        /// Where the bus tells what happens to its jobs; `nil` for nowhere.
        ///
        /// Each attempt that failed is told at level `info`, all else at `debug`. The handler is called on the thread on which it
        /// happens, in order, after the jobs concerned have been let go, and outside of locks; it should not block.
        public var logger: Logger?
        /// What makes the bus's metrics; `nil` for none.
        ///
        /// They are made once, with the bus. `retry.jobs.pending`, `retry.attempts`, `retry.seconds.saved` and others: see
        /// <doc:Instruments>.
        public var metrics: (any MetricsFactory)?
        #if Tracing
        /// What makes a span of each job, with an event for each attempt; `nil` for no spans.
        ///
        /// Only with the package's trait `Tracing`. A span is a child of its caller's, and the parent of those that the operation
        /// makes.
        public var tracer: (any Tracer)?
        #endif

        /// Runs the attempts of callers that prefer no executor, and the tasks of submitted jobs; `nil` for the default pool.
        ///
        /// A test's world counts what runs there.
        package var executor: (any TaskExecutor)?

        /// Makes the default configuration.
        public init() {}
    }
}
