extension JobStoreConformance {
    /// A requirement of every store.
    ///
    /// Later versions may add more.
    package struct Requirement: RawRepresentable, Hashable, Sendable {
        /// The stable name.
        package let rawValue: String
        /// Makes a requirement from its name.
        package init(rawValue: String) { self.rawValue = rawValue }

        // MARK: Pushing

        /// `push` returns one receipt for each job, in order, and positions grow in this order.
        package static let receipts = Requirement(rawValue: "receipts")
        /// A job comes back with all the properties that it was pushed with.
        package static let properties = Requirement(rawValue: "properties")
        /// A `push` that throws has added nothing.
        package static let atomicPush = Requirement(rawValue: "atomicPush")
        /// A payload of 1 MiB is stored; a larger one is refused with `tooLarge`.
        package static let payloadLimit = Requirement(rawValue: "payloadLimit")
        /// The limit of a queue counts its unfinished jobs; a job that is kept or replaced needs no room.
        package static let queueLimit = Requirement(rawValue: "queueLimit")
        /// A job whose identity the store has already is kept as it is.
        package static let repeatedPush = Requirement(rawValue: "repeatedPush")

        // MARK: Claiming

        /// Jobs come by priority, then by position, whatever their lanes.
        package static let order = Requirement(rawValue: "order")
        /// A lane is the jobs of a queue with equal kind, version, scope and destination; later lanes have larger numbers; a claim
        /// names those that the worker does not know.
        package static let lanes = Requirement(rawValue: "lanes")
        /// Only jobs of the named lanes of the worker's queue are claimed.
        package static let closedLanes = Requirement(rawValue: "closedLanes")
        /// No claim exceeds the limits of the request and of its lanes; `hasMore` tells whether jobs that may run are left.
        package static let limits = Requirement(rawValue: "limits")
        /// A job is claimed once, however many workers claim at the same time.
        package static let exclusiveClaims = Requirement(rawValue: "exclusiveClaims")
        /// A bulk job counts as a normal one from an hour after it was due, and not before those before it in its lane.
        package static let ageing = Requirement(rawValue: "ageing")
        /// While a queue is paused nothing of it is claimed; resuming ends that.
        package static let pausing = Requirement(rawValue: "pausing")

        // MARK: Delays

        /// A job with a delay is not claimed before its time; `nextDue` names that time.
        package static let notBefore = Requirement(rawValue: "notBefore")
        /// A backoff holds a job back for its duration; `nextDue` names its end.
        package static let softDelays = Requirement(rawValue: "softDelays")
        /// An edge ends the backoff of its node's earlier network failures in the lanes that name it, and no other delay.
        package static let edges = Requirement(rawValue: "edges")
        /// Backoff of a network failure keeps the job from the worker's node until it ends or the machine reboots; others may take
        /// it over after 0.5 s to 5 s.
        package static let nodes = Requirement(rawValue: "nodes")
        /// A delay that a server ordered holds a job back, also after a reconnect.
        package static let hardDelays = Requirement(rawValue: "hardDelays")
        /// A result can hold all jobs of the queue with the same scope and destination; a shorter order does not end a longer one.
        package static let destinationHolds = Requirement(rawValue: "destinationHolds")
        /// `endBackoff` ends soft delays of waiting jobs, also those of network failures, and of other nodes; it gives a hint, and
        /// changes no other delay and no counter.
        package static let endedBackoff = Requirement(rawValue: "endedBackoff")
        /// `expire` fails waiting jobs whose deadline has passed, also delayed ones, and no others; `next` names the next deadline.
        package static let deadlines = Requirement(rawValue: "deadlines")

        // MARK: Keys

        /// Of jobs with the same serial key only the first is claimed, also while it backs off; each queue has its own keys.
        package static let serialOrder = Requirement(rawValue: "serialOrder")
        /// A failed job blocks the jobs behind it unless it continues after failure.
        package static let serialFailures = Requirement(rawValue: "serialFailures")
        /// `cancel` of a waiting or failed job releases the next one.
        package static let serialCancellation = Requirement(rawValue: "serialCancellation")
        /// `retry` keeps the position; a retried job waits for one with its key that is running.
        package static let serialRetries = Requirement(rawValue: "serialRetries")
        /// `.keep` adds a job only if no unfinished one of the queue and kind has the key, also at the same time.
        package static let uniqueKeep = Requirement(rawValue: "uniqueKeep")
        /// `.replace` changes all of a job that has not started but its identity, position and priority, and ends its claim.
        package static let uniqueReplace = Requirement(rawValue: "uniqueReplace")
        /// `.replace` adds one successor to a job that has started, and changes that from then on.
        package static let uniqueSuccessors = Requirement(rawValue: "uniqueSuccessors")
        /// `.append` adds a job that waits for the others with its key.
        package static let uniqueAppend = Requirement(rawValue: "uniqueAppend")
        /// A running job whose cancellation was requested keeps its unique key from no push.
        package static let unwantedHolders = Requirement(rawValue: "unwantedHolders")
        /// `retry` refuses a job whose unique key an unfinished one has.
        package static let uniqueRetries = Requirement(rawValue: "uniqueRetries")
        /// Keys and names are equal if their bytes are.
        package static let bytes = Requirement(rawValue: "bytes")
        /// The jobs of one `push` see each other's unique keys, in their order.
        package static let uniqueBatches = Requirement(rawValue: "uniqueBatches")

        // MARK: Attempts

        /// Each claim of a job has a larger number; calls with an old number or of another worker change nothing.
        package static let fencing = Requirement(rawValue: "fencing")
        /// `start` refuses an invalid claim and a job whose cancellation was requested, and counts the attempt once.
        package static let starts = Requirement(rawValue: "starts")
        /// `finish` records state, counters, reason and time, and the first 4 KiB of the error.
        package static let results = Requirement(rawValue: "results")
        /// `giveBack` makes a job available again as it was.
        package static let givingBack = Requirement(rawValue: "givingBack")

        // MARK: Workers

        /// A worker that does not extend its lease loses its claims when the lease ends, and learns it; that is no crash.
        package static let leases = Requirement(rawValue: "leases")
        /// A worker that extends its lease keeps its claims.
        package static let heartbeats = Requirement(rawValue: "heartbeats")
        /// `unregister` makes a worker's jobs available again, uncharged.
        package static let unregistering = Requirement(rawValue: "unregistering")
        /// When a worker's process ends while the machine stays up, its jobs are available again, and each started attempt counts
        /// as a crash, which no later result changes.
        package static let crashes = Requirement(rawValue: "crashes")
        /// After a reboot all jobs are available again, and no attempt counts as a crash.
        package static let reboots = Requirement(rawValue: "reboots")
        /// `workers` returns those of a queue, or of all, with a valid lease, by number; each has its queue and node, the number of
        /// its claims, and the time since its last heartbeat.
        package static let listedWorkers = Requirement(rawValue: "listedWorkers")

        // MARK: Management

        /// `cancel` ends a waiting job, and tells of one that has ended or does not exist.
        package static let cancellation = Requirement(rawValue: "cancellation")
        /// `cancel` of a running job is a request that `extend` and `status` tell its worker; the job does not run again, which
        /// `finish` and `giveBack` tell, and success stands.
        package static let cancellationRequests = Requirement(rawValue: "cancellationRequests")
        /// `retry` makes failed and cancelled jobs available again with fresh counters, and no other job, nor more than the limit.
        package static let retries = Requirement(rawValue: "retries")
        /// `find` returns the jobs that match all properties, by position.
        package static let searches = Requirement(rawValue: "searches")
        /// `explain` answers in order, with `nil` for unknown jobs, and gives each job as `find` does, but without its payload.
        package static let explanations = Requirement(rawValue: "explanations")
        /// `explain` tells if the queue is paused, and how many workers it has whose lease is valid.
        package static let explainedQueues = Requirement(rawValue: "explainedQueues")
        /// `explain` names the first job that a blocked one waits for, of each key, with its state.
        package static let explainedBlockers = Requirement(rawValue: "explainedBlockers")
        /// `explain` names the end of a server's order for the destination, as long as it holds.
        package static let explainedHolds = Requirement(rawValue: "explainedHolds")
        /// `explain` names the worker of a running job, and tells if its attempt has started.
        package static let explainedClaims = Requirement(rawValue: "explainedClaims")
        /// `count` returns the number of jobs of a queue per state, kind and destination.
        package static let counts = Requirement(rawValue: "counts")
        /// `prune` deletes jobs that ended long enough ago, at most as many as it may, and no unfinished ones.
        package static let pruning = Requirement(rawValue: "pruning")
        /// `prune` keeps a failed job while it blocks others.
        package static let pruningHeads = Requirement(rawValue: "pruningHeads")
        /// `prune` deletes lanes without jobs, and keeps those whose destination a server's order holds; claims name deleted lanes,
        /// and a later push to one gets a new lane, also if it comes at the same time.
        package static let pruningLanes = Requirement(rawValue: "pruningLanes")
        /// Every stream of `changes` gives a hint after a change that lets a job run or asks one to end.
        package static let hints = Requirement(rawValue: "hints")

        /// All requirements.
        package static let all: [Requirement] = StoreSession.checks.map(\.0)
    }
}

extension StoreSession {
    /// The check of each requirement, on a candidate of its own.
    static let checks: [(JobStoreConformance.Requirement, @Sendable (StoreSession) async throws -> Void)] = [
        (.receipts, { try await $0.checkReceipts() }),
        (.properties, { try await $0.checkProperties() }),
        (.atomicPush, { try await $0.checkAtomicPush() }),
        (.payloadLimit, { try await $0.checkPayloadLimit() }),
        (.queueLimit, { try await $0.checkQueueLimit() }),
        (.repeatedPush, { try await $0.checkRepeatedPush() }),
        (.order, { try await $0.checkOrder() }),
        (.lanes, { try await $0.checkLanes() }),
        (.closedLanes, { try await $0.checkClosedLanes() }),
        (.limits, { try await $0.checkLimits() }),
        (.exclusiveClaims, { try await $0.checkExclusiveClaims() }),
        (.ageing, { try await $0.checkAgeing() }),
        (.pausing, { try await $0.checkPausing() }),
        (.notBefore, { try await $0.checkNotBefore() }),
        (.softDelays, { try await $0.checkSoftDelays() }),
        (.edges, { try await $0.checkEdges() }),
        (.nodes, { try await $0.checkNodes() }),
        (.hardDelays, { try await $0.checkHardDelays() }),
        (.destinationHolds, { try await $0.checkDestinationHolds() }),
        (.endedBackoff, { try await $0.checkEndedBackoff() }),
        (.deadlines, { try await $0.checkDeadlines() }),
        (.serialOrder, { try await $0.checkSerialOrder() }),
        (.serialFailures, { try await $0.checkSerialFailures() }),
        (.serialCancellation, { try await $0.checkSerialCancellation() }),
        (.serialRetries, { try await $0.checkSerialRetries() }),
        (.uniqueKeep, { try await $0.checkUniqueKeep() }),
        (.uniqueReplace, { try await $0.checkUniqueReplace() }),
        (.uniqueSuccessors, { try await $0.checkUniqueSuccessors() }),
        (.uniqueAppend, { try await $0.checkUniqueAppend() }),
        (.unwantedHolders, { try await $0.checkUnwantedHolders() }),
        (.uniqueRetries, { try await $0.checkUniqueRetries() }),
        (.bytes, { try await $0.checkBytes() }),
        (.uniqueBatches, { try await $0.checkUniqueBatches() }),
        (.fencing, { try await $0.checkFencing() }),
        (.starts, { try await $0.checkStarts() }),
        (.results, { try await $0.checkResults() }),
        (.givingBack, { try await $0.checkGivingBack() }),
        (.leases, { try await $0.checkLeases() }),
        (.heartbeats, { try await $0.checkHeartbeats() }),
        (.unregistering, { try await $0.checkUnregistering() }),
        (.crashes, { try await $0.checkCrashes() }),
        (.reboots, { try await $0.checkReboots() }),
        (.listedWorkers, { try await $0.checkListedWorkers() }),
        (.cancellation, { try await $0.checkCancellation() }),
        (.cancellationRequests, { try await $0.checkCancellationRequests() }),
        (.retries, { try await $0.checkRetries() }),
        (.searches, { try await $0.checkSearches() }),
        (.explanations, { try await $0.checkExplanations() }),
        (.explainedQueues, { try await $0.checkExplainedQueues() }),
        (.explainedBlockers, { try await $0.checkExplainedBlockers() }),
        (.explainedHolds, { try await $0.checkExplainedHolds() }),
        (.explainedClaims, { try await $0.checkExplainedClaims() }),
        (.counts, { try await $0.checkCounts() }),
        (.pruning, { try await $0.checkPruning() }),
        (.pruningHeads, { try await $0.checkPruningHeads() }),
        (.pruningLanes, { try await $0.checkPruningLanes() }),
        (.hints, { try await $0.checkHints() }),
    ]
}
