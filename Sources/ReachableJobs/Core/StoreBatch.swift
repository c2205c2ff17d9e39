/// Everything that a worker writes to its store and reads from it in one go.
///
/// The parts are separate transactions in this order. If one fails, the rest is left out.
struct StoreBatch: Hashable, Sendable {
    struct Writes: Hashable, Sendable {
        var results: [AttemptResult] = []
        var starts: [JobTicket] = []

        var isEmpty: Bool { results.isEmpty && starts.isEmpty }
    }

    /// The answers to the parts that succeeded.
    struct Reply: Sendable {
        var rest: StoreBatch
        var error: JobStoreError?
        var worker: WorkerID?
        var results: [FinishOutcome] = []
        var starts: [Bool] = []
        var cancelled: [JobTicket] = []
        var expired: ExpiredJobs?
        var claims: Claims?
        /// The number of deleted jobs; 0 if they could not be deleted.
        var pruned: Int?
        var pruneError: JobStoreError?
    }

    var registers = false
    var worker: WorkerID?
    var writes = Writes()
    var extends = false
    var expires = false
    var claim: ClaimRequest?
    var prunes = false
    var unregisters = false

    var isNeeded: Bool { registers || unregisters || prunes || extends || expires || claim != nil || !writes.isEmpty }
}

extension StoreBatch {
    /// Carries the batch out up to the first failure.
    func run(on store: any JobStore, _ configuration: JobQueue.Configuration) async -> Reply {
        var reply = Reply(rest: self)
        do throws(JobStoreError) { try await reply.run(on: store, configuration) } catch { reply.error = error }
        return reply
    }

    /// The most jobs whose deadline is enforced in one transaction.
    fileprivate static let expiryBatch = 1000
    /// The most jobs that are deleted in one transaction, so that claims do not wait for it.
    static let pruneBatch = 1000
}

extension StoreBatch.Reply {
    fileprivate mutating func run(on store: any JobStore, _ configuration: JobQueue.Configuration) async throws(JobStoreError) {
        let queue = configuration.name
        if rest.registers { worker = try await store.register(queue: queue, node: configuration.node) }
        rest.registers = false
        guard let worker = rest.worker else { return }
        // Results first: they release jobs that the claim may take.
        if !rest.writes.results.isEmpty { results = try await store.finish(rest.writes.results, by: worker) }
        rest.writes.results = []
        if !rest.writes.starts.isEmpty { starts = try await store.start(rest.writes.starts, by: worker) }
        rest.writes.starts = []
        if rest.extends { cancelled = try await store.extend(worker) }
        rest.extends = false
        if rest.expires { expired = try await store.expire(queue: queue, limit: StoreBatch.expiryBatch) }
        rest.expires = false
        if let claim = rest.claim { claims = try await store.claim(claim) }
        cancelled += claims?.cancelled ?? []
        rest.claim = nil
        if rest.prunes {
            // It can wait, and claims must not wait for it.
            do throws(JobStoreError) {
                pruned = try await store.prune(configuration.retention, limit: StoreBatch.pruneBatch)
            } catch {
                (pruned, pruneError) = (0, error)
            }
        }
        if rest.unregisters { try await store.unregister(worker) }
        rest.unregisters = false
    }
}

extension StoreBatch {
    /// The results that the store has, in the place of which a requested cancellation may be.
    func writtenResults(_ reply: Reply) -> [AttemptResult] {
        zip(writes.results, reply.results).compactMap { result, outcome in
            var result = result
            if outcome == .cancelled { result.outcome = .cancelled }
            return outcome == .refused ? nil : result
        }
    }
}
