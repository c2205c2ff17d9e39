extension NetworkSourceConformance {
    /// Something that every source promises.
    ///
    /// More may be added.
    public struct Promise: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a promise from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// `run` delivers a first batch by itself.
        public static let beginning = Promise(rawValue: "beginning")
        /// `deliver` is called once at a time, and never again before it returned: not by another thread, not by itself.
        public static let serialDelivery = Promise(rawValue: "serialDelivery")
        /// The time of the batches never goes backwards.
        public static let time = Promise(rawValue: "time")
        /// `wake()` leads to a batch, whoever calls it and whenever.
        public static let wakeUps = Promise(rawValue: "wakeUps")
        /// A batch comes when the time that the last call of `deliver` returned has passed, and an empty one not long before.
        public static let pauses = Promise(rawValue: "pauses")
        /// `interfaces()` and `route(to:)` answer any thread at any time: before, during and after a run, and within `deliver`.
        public static let questions = Promise(rawValue: "questions")
        /// As long as nothing changes, neither do the answers.
        public static let stability = Promise(rawValue: "stability")
        /// A change is announced, and shows in the answers from the batch on that announces it.
        public static let announcements = Promise(rawValue: "announcements")
        /// Cancellation ends `run` soon, with a `CancellationError`.
        public static let cancellation = Promise(rawValue: "cancellation")
        /// After `run` has ended `deliver` is not called, and it is not being called while `run` ends.
        public static let silenceAfterEnd = Promise(rawValue: "silenceAfterEnd")

        /// All of them.
        public static let all: [Promise] = [
            .beginning, .serialDelivery, .time, .wakeUps, .pauses, .questions, .stability, .announcements, .cancellation,
            .silenceAfterEnd,
        ]
    }
}
