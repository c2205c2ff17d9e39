internal import FoundationEssentials
internal import ReachableRetry

/// A job in the table of a ``MemoryStoreState``: a third of the size of a ``DurableJob``.
///
/// Queue, kind, version, scope and destination are those of its lane. What only jobs with a past have is in a box of its own.
struct StoredJob: Sendable {
    /// The heaps of its lane that have a current entry of the job.
    enum Place: UInt8, Sendable {
        /// None: it is blocked, running or ended.
        case nowhere
        /// Those of jobs that may run.
        case ready
        /// The heap of jobs with a delay that nothing voids.
        case delayed
        /// Those of jobs with a delay that a reconnect voids.
        case network
        /// The heap of jobs that some workers cannot decode.
        case withheld
        /// The row was deleted.
        case vacant
    }

    /// The properties of a job that has started or ended.
    struct History: Sendable {
        var counters = DurableJob.Counters()
        var hasUnknownOutcome = false
        var softDelay: DurableJob.SoftDelay?
        /// The node that the soft delay of a network failure binds; `nil` for all nodes.
        var boundNode: String?
        /// The workers that could not decode the payload.
        var undecodableBy: Set<WorkerID> = []
        var hardUntil: StoreInstant?
        var lastError: String?
        var failureReason: String?
        var finished: Date?
        /// The store's time of the end.
        var ended: StoreInstant?
    }

    private final class Box: Sendable {
        let history: History
        init(_ history: History) { self.history = history }
    }

    let position: Int64
    let id: DurableJobID
    var lane: Int32
    /// Changes with each change of place, which makes older entries of heaps stale.
    var stamp: UInt32 = 0
    var place = Place.nowhere
    var state = DurableJob.State.available
    let priority: JobPriority
    let continuesAfterFailure: Bool
    let isRepeatable: Bool
    var isCancelRequested = false
    /// True if the attempt of the present claim has started.
    var isStarted = false
    var payload: Data
    var notBefore: StoreInstant?
    var deadline: StoreInstant?
    let uniqueKey: String?
    let serialKey: String?
    /// `nil` if it is the text of the identity.
    private var ownIdempotencyKey: String?
    var traceContext: [String: String]
    let created: Date
    /// While ready, the reading of the lane's clock at which its runnable time would have begun; otherwise its runnable time.
    var runnable: Int64 = 0
    /// The number of the last claim.
    var claim: Int64 = 0
    /// The worker that has claimed it; 0 if none has.
    var worker: Int64 = 0
    private var box: Box?

    init(_ job: NewJob, position: Int64, lane: Int32, now: StoreInstant, created: Date) {
        (self.position, self.lane, self.created) = (position, lane, created)
        (id, priority, uniqueKey, serialKey) = (job.id, job.priority, job.unique?.key, job.serialKey)
        (continuesAfterFailure, isRepeatable) = (job.continuesAfterFailure, job.isRepeatable)
        (payload, traceContext) = (job.payload, job.traceContext)
        setTimes(of: job, now)
        idempotencyKey = job.idempotencyKey
    }

    /// Takes over what a replacement changes.
    mutating func replace(by job: NewJob, lane: Int32, now: StoreInstant) {
        (self.lane, payload, traceContext) = (lane, job.payload, job.traceContext)
        if !history.undecodableBy.isEmpty { history.undecodableBy = [] }
        setTimes(of: job, now)
        idempotencyKey = job.idempotencyKey
    }

    /// Frees the contents; the position stays, for searches.
    mutating func vacate() {
        (place, stamp) = (.vacant, stamp &+ 1)
        (payload, traceContext, ownIdempotencyKey, box) = (Data(), [:], nil, nil)
    }

    var idempotencyKey: String {
        get { ownIdempotencyKey ?? id.description }
        set { ownIdempotencyKey = newValue == id.description ? nil : newValue }
    }

    var history: History {
        get { box?.history ?? History() }
        set { box = Box(newValue) }
    }

    /// True if later jobs with the same serial key wait for it.
    var blocksSerially: Bool { !state.isFinal || state == .failed && !continuesAfterFailure }

    /// True if a replacement has to come behind it.
    var hasStarted: Bool { state == .running || history.counters.started > 0 }

    private mutating func setTimes(of job: NewJob, _ now: StoreInstant) {
        notBefore = job.delay.map { now.advanced(by: $0) }
        deadline = job.timeLimit.map { now.advanced(by: $0) }
    }
}

extension DurableJob {
    /// Creates the public form of a job.
    init(_ stored: StoredJob, in lane: Lane, queue: String, isBlocked: Bool) {
        let history = stored.history
        (id, position, self.queue, kind, version) = (stored.id, stored.position, queue, lane.kind, lane.version)
        (payload, scope, destination, priority) = (stored.payload, lane.scope, lane.destination, stored.priority)
        (notBefore, deadline) = (stored.notBefore, stored.deadline)
        (uniqueKey, serialKey) = (stored.uniqueKey, stored.serialKey)
        (continuesAfterFailure, isRepeatable) = (stored.continuesAfterFailure, stored.isRepeatable)
        (idempotencyKey, traceContext) = (stored.idempotencyKey, stored.traceContext)
        (state, isCancelRequested, counters) = (stored.state, stored.isCancelRequested, history.counters)
        (hasUnknownOutcome, softDelay, hardUntil) = (history.hasUnknownOutcome, history.softDelay, history.hardUntil)
        (lastError, failureReason) = (history.lastError, history.failureReason)
        (created, finished) = (stored.created, history.finished)
        self.isBlocked = isBlocked
    }
}
