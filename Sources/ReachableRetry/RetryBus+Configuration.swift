extension RetryBus {
    /// How a bus lets jobs go, and what it keeps.
    public struct Configuration: Sendable {
        /// How fast jobs are let go when the network is back.
        public var releasePolicy = ReleasePolicy.immediate
        /// How many ``RetryBus/events`` wait for a listener that is slow; then the oldest are dropped.
        ///
        /// Less than 1 counts as 1.
        public var bufferedEvents = 256

        /// Makes the default configuration.
        public init() {}
    }
}
