/// Everything that a worker writes to its store and reads from it in one go.
///
/// The parts are separate transactions in this order. If one fails, the rest is left out.
struct StoreBatch: Hashable, Sendable {
    /// The changes of claimed jobs.
    struct Writes: Hashable, Sendable {
        var results: [AttemptResult] = []
        var givenBack: [JobTicket] = []
        var starts: [JobTicket] = []

        var isEmpty: Bool { results.isEmpty && givenBack.isEmpty && starts.isEmpty }
    }

    /// The answers to the parts that succeeded.
    struct Reply: Sendable {
        var worker: WorkerID?
        var results: [Bool]?
        /// The claims whose jobs were cancelled as requested, though their results or their return say otherwise.
        var cancelledAtEnd: Set<JobTicket> = []
        var hasGivenBack = false
        var starts: [Bool]?
        var isExtended = false
        var hasLooked = false
        /// The claims whose jobs' cancellation was requested.
        var cancelled: [JobTicket] = []
        var expired: ExpiredJobs?
        var claims: Claims?
        /// The number of deleted jobs; `nil` if they could not be deleted.
        var pruned: Int?
        var pruneError: JobStoreError?
        var isUnregistered = false
    }

    /// Registers the worker, and does nothing else.
    var registers = false
    var worker: WorkerID?
    var writes = Writes()
    /// Extends the lease.
    var extends = false
    /// Looks for requests to cancel.
    var looks = false
    var expires = false
    var claim: ClaimRequest?
    var prunes = false
    var unregisters = false

    /// True if there is something to do.
    var isNeeded: Bool { registers || unregisters || prunes || extends || looks || expires || claim != nil || !writes.isEmpty }
}

extension StoreBatch {
    /// Carries the batch out; returns the answers up to the first failure, and the failure.
    func run(
        on store: any JobStore, queue: String, node: String, retention: Retention
    ) async -> (Reply, JobStoreError?) {
        var reply = Reply()
        do throws(JobStoreError) {
            try await run(on: store, queue: queue, node: node, retention: retention, &reply)
            return (reply, nil)
        } catch {
            return (reply, error)
        }
    }

    private func run(
        on store: any JobStore, queue: String, node: String, retention: Retention, _ reply: inout Reply
    ) async throws(JobStoreError) {
        if registers { reply.worker = try await store.register(queue: queue, node: node) }
        guard let worker else { return }
        // Results first: they release jobs that the claim may take.
        if !writes.results.isEmpty {
            let outcomes = try await store.finish(writes.results, by: worker)
            reply.results = outcomes.map { $0 != .refused }
            reply.note(outcomes, of: writes.results.map(\.ticket))
        }
        if !writes.givenBack.isEmpty {
            reply.note(try await store.giveBack(writes.givenBack, by: worker), of: writes.givenBack)
        }
        reply.hasGivenBack = true
        if !writes.starts.isEmpty { reply.starts = try await store.start(writes.starts, by: worker) }
        if extends {
            reply.cancelled = try await store.extend(worker).cancelled
            reply.isExtended = true
        } else if looks {
            reply.cancelled = try await store.status(of: worker).cancelled
        }
        reply.hasLooked = true
        if expires { reply.expired = try await store.expire(queue: queue, limit: Self.expiryBatch) }
        if let claim { reply.claims = try await store.claim(claim) }
        if prunes {
            // It can wait, and claims must not wait for it.
            do throws(JobStoreError) {
                reply.pruned = try await store.prune(retention, limit: Self.pruneBatch)
            } catch {
                reply.pruneError = error
            }
        }
        if unregisters {
            try await store.unregister(worker)
            reply.isUnregistered = true
        }
    }

    /// The most jobs whose deadline is enforced in one transaction.
    private static let expiryBatch = 1000
    /// The most jobs that are deleted in one transaction, so that claims do not wait for it.
    static let pruneBatch = 1000
}

extension StoreBatch.Reply {
    fileprivate mutating func note(_ outcomes: [FinishOutcome], of tickets: [JobTicket]) {
        for (outcome, ticket) in zip(outcomes, tickets) where outcome == .cancelled { cancelledAtEnd.insert(ticket) }
    }
}

extension StoreBatch {
    /// The results that the store has, in the place of which a requested cancellation may be.
    func writtenResults(_ reply: Reply) -> [AttemptResult] {
        var written = zip(writes.results, reply.results ?? []).filter(\.1).map(\.0)
        for index in written.indices where reply.cancelledAtEnd.contains(written[index].ticket) {
            written[index].outcome = .cancelled
        }
        // A claim has one end: no ticket is in both.
        let givenBack = writes.givenBack.filter(reply.cancelledAtEnd.contains)
        return written + givenBack.map { AttemptResult($0, .cancelled, counters: .init()) }
    }
}

/// The consequences of attempts whose process ended while the machine stayed up.
///
/// A job that ends its process each time must not do so for ever, nor take other jobs with it.
enum Crashes {
    /// The number of crashes that are not charged.
    private static let free = 2
    /// The crashes after which a job without a limit of attempts fails.
    private static let most = 20

    /// The number of crashes that count against the limit of attempts.
    static func charged(_ counters: DurableJob.Counters) -> Int { max(0, counters.crashes - free) }

    /// True if no other job runs beside it in its worker.
    static func runsAlone(_ counters: DurableJob.Counters) -> Bool { counters.crashes > free }

    /// The reason why a job failed that must not be repeated, and may have been carried out.
    static let unknownOutcome = "outcomeUnknown"

    /// Returns the reason to start no attempt of a job; `nil` if it may run.
    static func reasonToStop(_ job: DurableJob, maxAttempts: Int?) -> String? {
        if !job.isRepeatable, job.hasUnknownOutcome { return unknownOutcome }
        guard job.counters.crashes > 0 else { return nil }
        guard let maxAttempts else { return job.counters.crashes >= most ? "crashes" : nil }
        return job.counters.charged + charged(job.counters) >= maxAttempts ? "attempts" : nil
    }
}
