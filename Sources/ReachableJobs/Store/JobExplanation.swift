/// The part that a store knows of why a job does not run: the answer of ``JobStore/explain(_:)``.
///
/// It is one moment's view. What only a worker knows, such as the network and the registered kinds, is not in it.
package struct JobExplanation: Hashable, Sendable, Identifiable {
    /// Another job with one of the job's keys, which has to end or to be released first.
    package struct Blocker: Hashable, Sendable {
        package enum Key: String, Hashable, Sendable {
            /// ``DurableJob/serialKey``.
            case serial
            /// ``DurableJob/uniqueKey``.
            case unique
        }

        package var id: DurableJobID
        /// The state of the other job; `failed` if it failed for good, and blocks until it is retried or cancelled.
        package var state: DurableJob.State
        package var key: Key

        package init(id: DurableJobID, state: DurableJob.State, key: Key) { (self.id, self.state, self.key) = (id, state, key) }
    }

    /// The job with an empty payload: the answer is meant to be shown.
    package var job: DurableJob
    package var isPaused: Bool
    package var workers: Int
    /// The end of a server's order for the job's destination; `nil` if there is none in the future.
    package var holdUntil: StoreInstant?
    /// The first job that it waits for, of each key; empty unless the job is available.
    package var blockers: [Blocker]
    package var worker: WorkerID?
    package var isStarted: Bool
    package var now: StoreInstant

    package var id: DurableJobID { job.id }
}
