public import FoundationEssentials

/// The place where durable jobs are kept: everything that has to survive a crash goes through it.
///
/// Each method is one transaction: it happens entirely or not at all, also if the process is killed meanwhile. ``push(_:limit:)``,
/// ``finish(_:by:)``, ``cancel(_:)`` and ``retry(_:limit:)`` return after their changes would survive a power failure. The others
/// may be lost by one. Methods may be called from any task and process at the same time.
///
/// The tests check each store by `JobStoreConformance`.
///
/// The rules that a store enforces:
///
/// - *Order*: a claim returns jobs by priority, then by position, of the lanes that it names. A bulk job counts as a normal one
///   from an hour after it was due, and not before the bulk jobs of its lane that may run and are before it:
///   ``DurableJob/ageing``.
/// - *Serial keys*: of the jobs of a queue with the same serial key, only the first unfinished one may be claimed, and only while
///   no other one is running. A failed job blocks the jobs behind it unless ``DurableJob/continuesAfterFailure`` is set.
///   ``retry(_:limit:)`` keeps its position; ``cancel(_:)`` ends it and releases the next one.
/// - *Unique keys*: see ``JobQueue/Unique``. Of several unfinished jobs, only the first may be claimed, and only while no other one
///   is running. Of several, `.keep` and `.replace` mean the last one whose cancellation was not requested. A job has started with
///   its first attempt. Replacing keeps identity, position, queue, kind, priority and the time of the push; all else is the new
///   job's, and a claim that has not started ends.
/// - *Keys and names* are equal if their bytes are.
/// - *Fencing*: each claim of a job has a larger number than the claims before. A result with an old number is refused.
/// - *Leases*: claims of a worker that is known to have ended, or whose lease has ended, are free. A started attempt of a worker
///   whose process ended while the machine stayed up counts as a crash. The job of a started attempt whose claim ended in one of
///   these ways, or by a reboot, has ``DurableJob/hasUnknownOutcome`` until ``retry(_:limit:)``.
/// - *Network failures*: see ``DurableJob/Avoidance``.
/// - *Requests to cancel*: a job whose cancellation was requested is cancelled as soon as its claim ends without a result, or
///   with `again`. The answer says so, and the worker reports the end.
///
/// The worker enforces limits of attempts and the consequences of crashes; the store does not.
package protocol JobStore: Sendable {
    /// Adds jobs in this order; all of them, or none if it throws.
    ///
    /// A job whose identity the store has already is kept as it is, so that a push whose answer was lost can be repeated.
    ///
    /// - Parameters:
    ///   - jobs: The jobs.
    ///   - limit: The most unfinished jobs of a queue; `nil` sets no limit.
    /// - Returns: One receipt for each job.
    /// - Throws: ``JobStoreError/Code/full`` or ``JobStoreError/Code/tooLarge``; errors of the store.
    func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt]

    /// Adds a worker, which has to call ``extend(_:)`` at least every ``StoreLease/heartbeat``.
    func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID

    /// Removes a worker; jobs that it has claimed are available again, uncharged.
    func unregister(_ worker: WorkerID) async throws(JobStoreError)

    /// Extends a worker's lease.
    ///
    /// - Returns: The claims whose jobs' cancellation was requested.
    /// - Throws: ``JobStoreError/Code/unknownWorker`` if the lease has ended and its jobs may run elsewhere.
    func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket]

    /// Claims jobs for a worker, and frees the claims of workers that have ended. Lanes of other queues are ignored.
    ///
    /// Without a job to claim it changes nothing, and gives no hint.
    ///
    /// - Throws: ``JobStoreError/Code/unknownWorker`` if the worker's lease has ended; errors of the store.
    func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims

    /// Fails waiting jobs of a queue whose deadline has passed, with the reason `deadline`, whatever they wait for.
    ///
    /// - Parameters:
    ///   - queue: The queue.
    ///   - limit: The most jobs.
    func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs

    /// Records that attempts start; for each, whether it may.
    ///
    /// An attempt must not start if its claim is not valid any more, or if its job's cancellation was requested. The first start
    /// of a claim adds one to ``DurableJob/Counters/started``, so that attempts that never end count, too.
    func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool]

    /// Records results of attempts. Results of claims that are not valid any more change nothing.
    func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome]

    /// Cancels waiting jobs, and failed ones that block others with their serial key; requests the cancellation of running ones.
    func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome]

    /// Makes failed and cancelled jobs available again, with their old position, fresh counters and no delays of earlier failures.
    /// A deadline that has passed is removed.
    ///
    /// - Parameters:
    ///   - ids: The jobs.
    ///   - limit: The most unfinished jobs of a queue; `nil` sets no limit.
    /// - Returns: For each job, in this order, what happened.
    /// - Throws: ``JobStoreError/Code/full``, and then no job is retried; errors of the store.
    func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome]

    /// Ends the backoff of waiting jobs, whatever failure it follows, so that they are ready; for each, whether it had one.
    ///
    /// Delays that a server has ordered and the begin of a job's life still apply, and counters stay.
    func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool]

    /// Pauses or resumes the claims of a queue, also for workers that come later.
    func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError)

    /// Returns jobs by position.
    func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob]

    /// Returns the store's part of why jobs do not run, for each job at one moment; `nil` for jobs that it does not have.
    ///
    /// Changes nothing, and gives no hint. The answer has no payloads.
    func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?]

    /// Returns the workers with a valid lease, by number.
    ///
    /// Changes nothing, and gives no hint.
    ///
    /// - Parameter queue: The queue; `nil` for all.
    func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker]

    /// Returns the number of jobs per state, kind and destination.
    func count(queue: String) async throws(JobStoreError) -> [JobCount]

    /// Deletes jobs that ended long ago, except failed ones that block others, and lanes without jobs, except those whose
    /// destination a server's order holds.
    ///
    /// A later push to a deleted lane makes a new one.
    ///
    /// - Returns: The number of deleted jobs, at most `limit`.
    func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int

    /// Hints that there may be work, or a request to cancel; from other processes, too.
    ///
    /// Each call returns a stream of its own. A hint may come without a change, and several changes may give one hint.
    func changes() -> AsyncStream<Void>

    /// The time of this machine's boot clock in nanoseconds, suspension included (CLOCK_BOOTTIME, clock_gettime(2)).
    ///
    /// Edges of the network are told on it: ``ClaimRequest/Open/edge``.
    var nodeTime: Int64 { get }

    /// The executor on which workers call this store; `nil`, the default, if calls cost the same on all.
    ///
    /// For a store whose calls switch threads elsewhere. Its threads may block.
    var executor: (any TaskExecutor)? { get }
}

extension JobStore {
    /// `nil`: workers call the store on any thread.
    package var executor: (any TaskExecutor)? { nil }
}

package enum StoreLease {
    package static let heartbeat = Duration.seconds(10)
    /// A worker that could not extend its lease for this long ends its attempts.
    package static let surrender = Duration.seconds(20)
    /// The duration after which others may claim a worker's jobs.
    package static let duration = Duration.seconds(30)
}

package let largestPayload = 1 << 20

/// The number of a worker in its store.
public struct WorkerID: RawRepresentable, Hashable, Sendable {
    /// The number.
    public let rawValue: Int64
    /// Creates a number.
    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// The answer to a push.
public struct PushReceipt: Hashable, Sendable {
    /// The result of a push.
    public enum Outcome: String, Hashable, Sendable {
        /// The job was added.
        case added
        /// A job with the unique key was there and stays as it was.
        case kept
        /// A job with the unique key was there and has the new payload and times.
        case replaced
        /// The job was added behind one with the unique key.
        case appended
    }

    /// The job that is there now.
    public var id: DurableJobID
    /// The result.
    public var outcome: Outcome

    /// Creates a receipt.
    public init(id: DurableJobID, outcome: Outcome) { (self.id, self.outcome) = (id, outcome) }
}

/// The jobs of a queue that run or wait together: those with the same kind, version, scope and destination.
package struct Lane: Hashable, Sendable, Identifiable, Decodable {
    /// The number of a lane in its store; later lanes have larger ones.
    package typealias ID = Int64

    package var id: ID
    package var kind: String
    package var version: Int
    /// The scope to reach, in the text form of ``ScopeText``.
    package var scope: String
    package var destination: String?
}

package struct ClaimRequest: Hashable, Sendable {
    package struct Open: Hashable, Sendable {
        package var lane: Lane.ID
        package var limit: Int
        /// The time of the last edge of the lane's scope that the worker has seen, on ``JobStore/nodeTime``.
        ///
        /// Its start counts as one. Earlier network failures of its node do not hold jobs back.
        package var edge: Int64

        package init(lane: Lane.ID, limit: Int = .max, edge: Int64 = .min) {
            (self.lane, self.limit, self.edge) = (lane, limit, edge)
        }
    }

    package var worker: WorkerID
    package var limit: Int
    package var lanes: [Open]
    /// The last lane that the worker knows; 0 if it knows none.
    package var lastKnownLane: Lane.ID

    package init(worker: WorkerID, limit: Int, lanes: [Open], lastKnownLane: Lane.ID) {
        (self.worker, self.limit, self.lanes, self.lastKnownLane) = (worker, limit, lanes, lastKnownLane)
    }
}

package struct Claims: Sendable {
    package struct Claimed: Hashable, Sendable {
        package var job: DurableJob
        /// The number of the claim, which later calls have to name.
        package var claim: Int64

        package var ticket: JobTicket { JobTicket(id: job.id, claim: claim) }
    }

    package var jobs: [Claimed]
    /// The lanes that the worker does not know yet, by number.
    package var newLanes: [Lane]
    /// The named lanes that the queue does not have; ``JobStore/prune(_:limit:)`` deletes lanes without jobs.
    package var goneLanes: Set<Lane.ID> = []
    /// The worker's claims whose jobs' cancellation was requested.
    package var cancelled: [JobTicket] = []
    /// True if the queue is paused: then no job was claimed.
    package var isPaused: Bool
    /// True if the open lanes have more jobs that may run now, beyond the limits of the request.
    package var hasMore: Bool
    /// The earliest time at which a delayed job of the open lanes may run; `nil` if there is none.
    ///
    /// May be earlier if ``hasMore``.
    package var nextDue: StoreInstant?
    package var now: StoreInstant
}

/// The jobs whose deadline has passed.
package struct ExpiredJobs: Sendable {
    /// The jobs, as they are after it.
    package var jobs: [DurableJob]
    /// The earliest deadline of the waiting jobs that are left; `nil` if none has one.
    package var next: StoreInstant?
    /// True if the limit left some whose deadline has passed.
    package var hasMore: Bool
}

package struct JobTicket: Hashable, Sendable, Decodable {
    package var id: DurableJobID
    package var claim: Int64

    package init(id: DurableJobID, claim: Int64) { (self.id, self.claim) = (id, claim) }
}

package struct AttemptResult: Hashable, Sendable {
    /// The end of the claim.
    package enum Outcome: Hashable, Sendable {
        /// The job is done.
        case succeeded
        /// The job gave up for a reason such as `attempts`.
        case failed(reason: String)
        /// The job ended because its cancellation was requested.
        case cancelled
        /// The job runs again: after its backoff, and after the delay that a server ordered.
        case again(soft: Duration, isNetwork: Bool, hard: Duration?)
        /// The job is available again, uncharged, as if it had not been claimed; attempts that have started stay counted.
        case givenBack

        /// The final state and its reason; `nil` if the job runs again.
        var end: (state: DurableJob.State, reason: String?)? {
            switch self {
            case .succeeded: (.succeeded, nil)
            case .failed(let reason): (.failed, reason)
            case .cancelled: (.cancelled, nil)
            case .again, .givenBack: nil
            }
        }
    }

    package var ticket: JobTicket
    /// The time of the attempt's end, from which delays count; `nil` is the time of the call.
    package var time: StoreInstant?
    package var outcome: Outcome
    /// The job's counters after it, but for crashes, which the store counts.
    package var counters: DurableJob.Counters
    /// The text of the failure; the store keeps the first 4 KiB.
    package var error: String?
    /// The time for which a server ordered that its destination be left alone: no job of the queue with the same scope and
    /// destination is claimed meanwhile.
    package var holdsDestination: Duration?

    package init(
        _ ticket: JobTicket, _ outcome: Outcome, counters: DurableJob.Counters, error: String? = nil,
        holdsDestination: Duration? = nil, time: StoreInstant? = nil
    ) {
        (self.ticket, self.outcome, self.counters) = (ticket, outcome, counters)
        (self.error, self.holdsDestination, self.time) = (error, holdsDestination, time)
    }

    package static func givenBack(_ ticket: JobTicket) -> AttemptResult { AttemptResult(ticket, .givenBack, counters: .init()) }
}

/// The answer to the end of a claim.
package enum FinishOutcome: String, Hashable, Sendable {
    /// The change was made.
    case recorded
    /// The job does not run again: it is cancelled, as was requested while it was running.
    case cancelled
    /// The claim was not valid any more, and nothing has changed.
    case refused
}

/// The answer to a cancellation.
public enum CancelOutcome: String, Hashable, Sendable {
    /// The job waited, or had failed and kept others waiting, and is cancelled.
    case cancelled
    /// The job is running; its worker was asked to end it.
    case requested
    /// The job had ended already.
    case ended
    /// The store has no such job.
    case unknown
}

/// The answer to a retry.
public enum RetryOutcome: Hashable, Sendable {
    /// The job is available again.
    case retried
    /// The job stays as it was: an unfinished job, whose cancellation was not requested, has its unique key.
    case taken(by: DurableJobID)
    /// The job has not ended, has succeeded, or is unknown.
    case notEnded
}

/// A selection of jobs: those that match every property that is set.
public struct JobFilter: Hashable, Sendable {
    /// The identities.
    public var ids: Set<DurableJobID>?
    /// The queue.
    public var queue: String?
    /// The states.
    public var states: Set<DurableJob.State>?
    /// The kinds.
    public var kinds: Set<String>?
    /// The first digits of the identity.
    public var idPrefix: String?
    /// The unique key.
    public var uniqueKey: String?
    /// The serial key.
    public var serialKey: String?
    /// The destination.
    public var destination: String?
    /// The position behind which the selection begins.
    public var after: Int64?
    /// The largest number of jobs; none if it is negative.
    public var limit: Int?

    /// Creates a selection; without arguments it selects all jobs.
    public init(
        ids: Set<DurableJobID>? = nil, queue: String? = nil, states: Set<DurableJob.State>? = nil, kinds: Set<String>? = nil,
        idPrefix: String? = nil, uniqueKey: String? = nil, serialKey: String? = nil, destination: String? = nil,
        after: Int64? = nil, limit: Int? = nil
    ) {
        self.ids = ids
        (self.queue, self.states, self.kinds, self.idPrefix) = (queue, states, kinds, idPrefix)
        (self.uniqueKey, self.serialKey, self.destination) = (uniqueKey, serialKey, destination)
        (self.after, self.limit) = (after, limit)
    }
}

/// A number of jobs of one state, kind and destination.
public struct JobCount: Hashable, Sendable {
    /// The state.
    public var state: DurableJob.State
    /// The kind.
    public var kind: String
    /// The destination.
    public var destination: String?
    /// The number of jobs.
    public var count: Int
    /// The wall-clock time at which the oldest of them was pushed.
    public var oldest: Date
}

/// The durations for which ended jobs are kept.
public struct Retention: Hashable, Sendable {
    /// Jobs that succeeded; 1 day by default.
    public var succeeded: Duration
    /// Jobs that failed or were cancelled; 30 days by default.
    public var failed: Duration

    /// Creates durations.
    public init(succeeded: Duration = .seconds(86_400), failed: Duration = .seconds(30 * 86_400)) {
        (self.succeeded, self.failed) = (succeeded, failed)
    }
}

extension AttemptResult {
    private static let longestError = 4096

    /// The part of the error that stores keep: the first 4 KiB, cut between characters.
    var storedError: String? {
        guard let error, error.utf8.count > Self.longestError else { return error }
        var end = error.utf8.index(error.startIndex, offsetBy: Self.longestError)
        while end.samePosition(in: error) == nil { end = error.utf8.index(before: end) }
        return String(error[..<end])
    }
}
