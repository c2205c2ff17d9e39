extension NetworkSourceConformance {
    /// A requirement of every source.
    ///
    /// More may be added.
    public struct Requirement: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        public let rawValue: String
        /// Makes a requirement from its name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// `run` delivers a first batch by itself.
        public static let beginning = Requirement(rawValue: "beginning")
        /// `deliver` is called once at a time, and never again before it returned: not by another thread, not by itself.
        public static let serialDelivery = Requirement(rawValue: "serialDelivery")
        /// The time of the batches never goes backwards.
        public static let time = Requirement(rawValue: "time")
        /// `wake()` leads to a batch, whoever calls it and whenever.
        public static let wakeUps = Requirement(rawValue: "wakeUps")
        /// A batch comes when the time that the last call of `deliver` returned has passed, and an empty one not long before.
        public static let pauses = Requirement(rawValue: "pauses")
        /// `interfaces()` and `routes(to:)` answer any thread at any time: before, during and after a run, and within `deliver`.
        public static let questions = Requirement(rawValue: "questions")
        /// `routes(to:)` returns one result for each query, in the order of the queries.
        public static let results = Requirement(rawValue: "results")
        /// A refusal is a verdict: a query that any kernel refuses is answered, not failed.
        public static let refusals = Requirement(rawValue: "refusals")
        /// A query's source counts: a route has it as its source, and IPv4 refuses one that no interface holds.
        public static let sources = Requirement(rawValue: "sources")
        /// `RouteQuery.Source.selected` is answered as connect(2) is, or fails with `permissionDenied`.
        public static let selection = Requirement(rawValue: "selection")
        /// An interrupted dump throws `interrupted`, without a pause.
        public static let interruptions = Requirement(rawValue: "interruptions")
        /// As long as nothing changes, neither do the answers.
        public static let stability = Requirement(rawValue: "stability")
        /// A change is announced, and shows in the answers from the batch on that announces it.
        public static let announcements = Requirement(rawValue: "announcements")
        /// Cancellation ends `run` soon, with a `CancellationError`.
        public static let cancellation = Requirement(rawValue: "cancellation")
        /// After `run` has ended `deliver` is not called, and it is not being called while `run` ends.
        public static let silenceAfterEnd = Requirement(rawValue: "silenceAfterEnd")

        /// All of them.
        public static let all: [Requirement] = [
            .beginning, .serialDelivery, .time, .wakeUps, .pauses, .questions, .results, .refusals, .sources,
            .selection, .interruptions, .stability, .announcements, .cancellation, .silenceAfterEnd,
        ]
    }
}
