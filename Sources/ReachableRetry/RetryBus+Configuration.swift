extension RetryBus {
    /// How a bus lets jobs go, and what it keeps.
    public struct Configuration: Sendable {
        /// How fast jobs are let go when the network is back.
        public var releasePolicy = ReleasePolicy.gated
        /// How many attempts run at a time at most, of all jobs; `nil` sets no limit.
        ///
        /// Less than 1 counts as 1. The most urgent and oldest job goes first.
        public var maxConcurrent: Int?
        /// How many ``RetryBus/events`` wait for a listener that is slow; then the oldest are dropped.
        ///
        /// Less than 1 counts as 1.
        public var bufferedEvents = 256

        /// Makes the default configuration.
        public init() {}
    }
}
