extension RetryBus {
    /// How a bus lets jobs go, and what it keeps.
    public struct Configuration: Sendable {
        /// How fast jobs are let go when the network is back.
        public var releasePolicy = ReleasePolicy.immediate
        /// How many events wait for a listener that is slow; then the oldest are dropped.
        ///
        /// At least 1.
        public var bufferedEvents = 256

        /// Makes the default configuration.
        public init() {}
    }
}
