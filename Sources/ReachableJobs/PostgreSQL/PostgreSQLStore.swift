#if PostgreSQL
internal import FoundationEssentials
internal import Reachability
public import ReachableRetry
internal import Synchronization

/// Keeps durable jobs in PostgreSQL, for many machines.
///
/// ```swift
/// let store = PostgreSQLStore("postgres://sync@db.example.org/app", bus: bus)
/// try await store.install()
/// let queue = JobQueue(store, bus: bus)
/// ```
///
/// Any client of any language pushes jobs within its own transaction, with the function `reachable_push`. Only the server's clock
/// counts. Pushes, claims, results, cancellations, retries and pauses survive the server's crash as its `synchronous_commit` says,
/// and so do starts of attempts that must not be repeated; heartbeats and other starts may be lost by one.
///
/// libpq reads the connection string, a `postgres://` URL or a list of key=value, and the environment, the service file, the
/// password file and the options of TLS as it does everywhere. One connection serves all calls. When it is lost, calls wait for up
/// to 10 s while a job of the bus makes another one; workers hear that it is there. A call that was under
/// way is repeated if its effect cannot double.
///
/// Methods may be called from any task; cancelling the task does not end them early.
public final class PostgreSQLStore: JobStore {
    private struct State {
        /// The number of the last call that claims, of all workers.
        var lastCall: Int64 = 0
        /// The numbers of each worker's last call with an answer: it does not know what later ones have claimed.
        var answered: [WorkerID: Int64] = [:]
        /// True while results may be written whose answers were lost.
        var hasUnansweredResults = false
    }

    /// The server and the database, without user or password.
    public let address: String

    private let link: PostgreSQLLink
    private let hints = Listeners<Void>()
    private let isPolling = Mutex(false)
    private let state = Mutex(State())
    private let reading: @Sendable () -> StoreClock.Reading

    /// Makes a store, which connects with its first call.
    ///
    /// - Parameters:
    ///   - connection: The connection string, such as `postgres://user@host/database`.
    ///   - bus: The bus that waits for the network and makes connections; without one the store repeats by itself.
    ///   - installsTables: True to call ``install()`` with the first connection if the tables are missing.
    public convenience init(_ connection: String, bus: RetryBus? = nil, installsTables: Bool = false) {
        self.init(connection, bus: bus, installsTables: installsTables, reading: Machine.reading)
    }

    package init(
        _ connection: String, bus: RetryBus?, installsTables: Bool = false, reading: @escaping @Sendable () -> StoreClock.Reading
    ) {
        let conninfo = PostgreSQLConninfo(connection)
        (address, self.reading) = (conninfo.address, reading)
        link = PostgreSQLLink(conninfo, bus: bus, installsTables: installsTables) { [hints] in hints.yield(()) }
    }

    deinit {
        hints.finish()
        link.close()
    }

    /// Installs the tables and functions in the connection's schema: the missing versions of the tables, and all functions.
    ///
    /// The connection's user has to own the schema, or may create in it. A database administrator can run the same files with psql:
    /// `install.sql`, and `roles.sql` for roles with the least rights that suffice.
    ///
    /// - Throws: ``JobStoreError``.
    public func install() async throws(JobStoreError) {
        do throws(PostgreSQLFailure) { try await link.install() } catch { throw error.storeError(for: address) }
    }

    /// Ends the connection; later calls throw.
    public func close() { link.close() }

    // MARK: Jobs

    /// Jobs with a serial or unique key wait for open transactions that push the same key.
    package func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        if let error = JobStoreError.tooLarge(jobs) { throw error }
        let parameters: [PostgreSQLParameter] = [
            .array(jobs.map(\.id)), .array(jobs.map(\.queue)), .array(jobs.map(\.kind)), .array(jobs.map(\.version)),
            .array(jobs.map(\.payload)), .array(jobs.map(\.scope)), .array(jobs.map(\.destination)),
            .array(jobs.map(\.priority.rawValue)), .array(jobs.map { $0.delay?.storable }),
            .array(jobs.map { $0.timeLimit?.storable }), .array(jobs.map { $0.unique?.parts.rule }),
            .array(jobs.map { $0.unique?.key }), .array(jobs.map(\.serialKey)), .array(jobs.map(\.continuesAfterFailure)),
            .array(jobs.map(\.isRepeatable)),
            .array(jobs.map { $0.idempotencyKey == $0.id.description ? nil : $0.idempotencyKey }),
            .array(jobs.map { StoredText.text(of: $0.traceContext) }), .value(limit),
        ]
        return try read(try await call("reachable_push_batch", parameters).rows) { row in
            guard let id: DurableJobID = row.next(), let outcome = row.next().flatMap(PushReceipt.Outcome.init) else { return nil }
            return PushReceipt(id: id, outcome: outcome)
        }
    }

    package func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        let delays = results.map(\.outcome.delays)
        let parameters: [PostgreSQLParameter] = [
            .value(worker.rawValue), .array(results.map(\.ticket.id)), .array(results.map(\.ticket.claim)),
            .array(results.map(\.outcome.word)), short(results.map { $0.outcome.end?.reason }),
            short(results.map { $0.time?.nanoseconds }), short(delays.map { $0?.soft.storable }),
            short(delays.map { $0?.isNetwork }), short(delays.map { $0?.hard?.storable }),
            short(results.map { $0.holdsDestination?.storable }), .array(results.map(\.counters.started)),
            .array(results.map(\.counters.charged)), .array(results.map(\.counters.networkFailures)),
            .array(results.map(\.counters.failureIndex)), short(results.map(\.storedError)), .value(nodeTime),
            .value(state.withLock(\.hasUnansweredResults)),
        ]
        do throws(JobStoreError) {
            let result = try await call("reachable_finish", parameters) { $0[16] = .value(true) }
            state.withLock { $0.hasUnansweredResults = false }
            return try outcomes(result)
        } catch {
            state.withLock { $0.hasUnansweredResults = true }
            throw error
        }
    }

    /// Returns an empty array in the place of one that has only nulls, which the server adds.
    private func short<Value: PostgreSQLValue>(_ values: [Value?]) -> PostgreSQLParameter {
        .array(values.contains { $0 != nil } ? values : [])
    }

    package func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        return try outcomes(try await call("reachable_cancel", [.array(ids)]))
    }

    package func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        return try read(try await call("reachable_retry", [.array(ids), .value(limit)]).rows) { row in
            let (isRetried, holder): (Bool, DurableJobID?) = (row.next() == "retried", row.next())
            return holder.map { .taken(by: $0) } ?? (isRetried ? .retried : .notEnded)
        }
    }

    package func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        return try read(try await call("reachable_end_backoff", [.array(ids)]).rows) { $0.next() }
    }

    package func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        _ = try await call("reachable_set_paused", [.value(queue), .value(isPaused)])
    }

    package func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        let parameters: [PostgreSQLParameter] = [
            .value(retention.succeeded.storable), .value(retention.failed.storable), .value(limit),
        ]
        return try await call("reachable_prune", parameters).value() ?? 0
    }

    // MARK: Workers

    package var nodeTime: Int64 { reading().boot }

    package func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        let parameters: [PostgreSQLParameter] = [
            .value(queue), .value(node), .value(reading().bootID), .value(Machine.processSpace), .value(Machine.process),
            .value(Machine.hostName),
        ]
        guard var row = try await call("reachable_register", parameters).rows.first, let number: Int64 = row.next()
        else { throw malformed }
        try await removeEnded(&row)
        return WorkerID(rawValue: number)
    }

    package func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        _ = try await call("reachable_unregister", [.value(worker.rawValue)])
    }

    package func extend(_ worker: WorkerID) async throws(JobStoreError) -> [JobTicket] {
        let result = try await call("reachable_extend", [.value(worker.rawValue), .value(Machine.processSpace)])
        guard var row = result.rows.first else { throw .unknown(worker) }
        let cancelled: [JobTicket] = row.json()
        try await removeEnded(&row)
        // Later tables may have been installed since the connection was made.
        do throws(PostgreSQLFailure) { try PostgreSQLFailure.check(row.next()) } catch { throw error.storeError(for: address) }
        return cancelled
    }

    private struct MachineWorker: Decodable {
        var number: Int64
        var process: String
    }

    /// Removes the workers of this machine that ended with their processes: their jobs need not wait for the end of a lease.
    private func removeEnded(_ row: inout PostgreSQLRow) async throws(JobStoreError) {
        let workers: [MachineWorker] = row.json()
        guard row.isWhole else { throw malformed }
        let ended = workers.filter { !Machine.isAlive($0.process) }.map(\.number)
        if ended.isEmpty { return }
        _ = try await call("reachable_remove_ended", [.value(Machine.processSpace), .array(ended)])
    }

    package func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        let worker = request.worker
        let (number, answered) = state.withLock { state in
            state.lastCall += 1
            return (state.lastCall, state.answered[worker] ?? 0)
        }
        let parameters: [PostgreSQLParameter] = [
            .value(worker.rawValue), .value(number), .value(answered), .value(request.limit),
            .array(request.lanes.map(\.lane)), .array(request.lanes.map(\.limit)), .array(request.lanes.map(\.edge)),
            .value(nodeTime), .value(request.lastKnownLane),
        ]
        let result = try await call("reachable_claim", parameters, selecting: Self.claimColumns)
        let claims = try claims(result, worker)
        state.withLock { $0.answered[worker] = number }
        return claims
    }

    private static let claimColumns = """
        is_paused, has_more, next_due, now, new_lanes, gone, cancelled, \(PostgreSQLJob.selection(""))
        """

    private func claims(_ result: PostgreSQLResult, _ worker: WorkerID) throws(JobStoreError) -> Claims {
        guard var row = result.rows.first else { throw .unknown(worker) }
        let (isPaused, hasMore, nextDue) = (row.needed(false), row.needed(false), row.instant())
        let now = StoreInstant(nanoseconds: row.needed(0))
        let (newLanes, gone, cancelled): ([Lane], Set<Lane.ID>, [JobTicket]) = (row.json(), row.json(), row.json())
        guard row.isWhole else { throw malformed }
        // The next claim gives these jobs back if one cannot be read.
        let jobs = try read(result.rows(from: row.column).dropFirst()) { row in
            let job = PostgreSQLJob(&row)
            return Claims.Claimed(job: job.job, claim: job.claim)
        }
        return Claims(
            jobs: jobs, newLanes: newLanes.map(\.loaded), goneLanes: gone, cancelled: cancelled, isPaused: isPaused,
            hasMore: hasMore, nextDue: nextDue, now: now)
    }

    package func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        let result = try await call(
            "reachable_expire", [.value(queue), .value(limit)], selecting: "next, has_more, \(PostgreSQLJob.selection())")
        guard var row = result.rows.first else { throw malformed }
        let (next, hasMore) = (row.instant(), row.needed(false))
        let jobs = try read(result.rows(from: row.column).dropFirst()) { PostgreSQLJob(&$0).job }
        return ExpiredJobs(jobs: jobs, next: next, hasMore: hasMore)
    }

    package func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        let parameters: [PostgreSQLParameter] = [
            .value(worker.rawValue), .array(tickets.map(\.id)), .array(tickets.map(\.claim)),
        ]
        return try read(try await call("reachable_start", parameters).rows) { $0.next() }
    }

    // MARK: Reading

    package func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        let prefix = filter.idPrefix?.lowercased()
        if let prefix, prefix.utf8.count > 32 || !prefix.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) { return [] }
        let parameters: [PostgreSQLParameter] = [
            .array(filter.ids.map(Array.init)), .value(filter.queue),
            .array(filter.states.map { $0.map { PostgreSQLRow.states.firstIndex(of: $0) } }), .array(filter.kinds.map(Array.init)),
            .value(prefix), .value(filter.uniqueKey), .value(filter.serialKey), .value(filter.destination), .value(filter.after),
            .value(filter.limit.map { max(0, $0) }),
        ]
        let result = try await call("reachable_find", parameters, selecting: PostgreSQLJob.selection(""))
        return try read(result.rows) { PostgreSQLJob(&$0).job }
    }

    package func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        let facts = "now, is_paused, workers, hold, serial_blocker, serial_state, unique_blocker, unique_state, worker, is_started"
        let columns = "\(facts), \(PostgreSQLJob.selection(hasPayload: false))"
        let result = try await call("reachable_explain", [.array(Array(Set(ids)))], selecting: columns)
        let explanations = try read(result.rows) { row in
            let (now, isPaused, workers) = (StoreInstant(nanoseconds: row.needed(0)), row.needed(false), row.needed(0))
            let hold = row.instant()
            let blockers = [JobExplanation.Blocker.Key.serial, .unique].compactMap { key -> JobExplanation.Blocker? in
                let (id, state): (DurableJobID?, DurableJob.State?) = (row.next(), row.state())
                guard let id, let state else { return nil }
                return JobExplanation.Blocker(id: id, state: state, key: key)
            }
            let (worker, isStarted) = (row.next().map(WorkerID.init(rawValue:)), row.needed(false))
            return JobExplanation(
                job: PostgreSQLJob(&row).job, isPaused: isPaused, workers: workers, holdUntil: hold, blockers: blockers,
                worker: worker, isStarted: isStarted, now: now)
        }
        let known = Dictionary(uniqueKeysWithValues: explanations.map { ($0.id, $0) })
        return ids.map { known[$0] }
    }

    package func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try read(try await call("reachable_list_workers", [.value(queue)]).rows) { row in
            let (id, queue, node): (WorkerID, String, String) = (.init(rawValue: row.needed(0)), row.needed(""), row.needed(""))
            let (host, process): (String?, String?) = (row.next(), row.next())
            return RegisteredWorker(
                id: id, queue: queue, node: node, host: host, process: process?.split(separator: ":").first.flatMap { Int($0) },
                claims: row.needed(0), sinceHeartbeat: .nanoseconds(row.needed(0)))
        }
    }

    /// Reads all jobs of the queue, without making claims wait.
    package func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try read(try await call("reachable_count", [.value(queue)]).rows) { row in
            guard let state = row.state(), let kind: String = row.next() else { return nil }
            let (destination, count): (String?, Int) = (row.next(), row.needed(0))
            return row.date().map { JobCount(state: state, kind: kind, destination: destination, count: count, oldest: $0) }
        }
    }

    /// Hints by NOTIFY(7), which the server sends once for each transaction that lets a job run.
    ///
    /// One also comes each 5 s, and with each new connection: notifications are lost with the connection.
    package func changes() -> AsyncStream<Void> {
        let stream = hints.stream(keeping: 1)
        let wasPolling = isPolling.withLock { isPolling in
            defer { isPolling = true }
            return isPolling
        }
        if !wasPolling {
            Task { [weak self] in
                repeat { try? await Task.sleep(for: .seconds(5)) } while self?.poll() == true
            }
        }
        link.want()
        return stream
    }

    private func poll() -> Bool {
        hints.yield(())
        return isPolling.withLock { isPolling in
            isPolling = !hints.isEmpty
            return isPolling
        }
    }

    // MARK: Calls

    /// Calls a function as a transaction of its own; waits for the connection, and repeats what was lost with it.
    ///
    /// - Parameters:
    ///   - columns: The columns of the answer.
    ///   - repeating: Changes the parameters of a call that may have been executed.
    private func call(
        _ function: String, _ parameters: [PostgreSQLParameter], selecting columns: String = "*",
        repeating: (inout [PostgreSQLParameter]) -> Void = { _ in }
    ) async throws(JobStoreError) -> PostgreSQLResult {
        let list = parameters.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let sql = "SELECT \(columns) FROM \(function)(\(list))"
        var (parameters, refusals) = (parameters, 0)
        let end = ContinuousClock.now + PostgreSQLLink.patience
        while true {
            let connection = try await link.connection(until: end)
            do throws(PostgreSQLFailure) {
                return try await connection.query(sql, parameters)
            } catch {
                if case .lost(let wasSent) = error.kind, ContinuousClock.now < end {
                    link.lose(connection)
                    if wasSent { repeating(&parameters) }
                } else if error.isStale || error.sqlstate == "40P01", refusals < 3 {
                    // For the latter, the server has ended one of two transactions that waited for each other.
                    refusals += 1
                } else {
                    // Tables or functions are missing, perhaps since others were installed.
                    let isMissing = error.kind == .server && error.sqlstate?.hasPrefix("42") == true
                    do throws(PostgreSQLFailure) { if isMissing { try await link.check(connection) } } catch {
                        throw error.storeError(for: address)
                    }
                    throw error.storeError(for: address)
                }
            }
        }
    }

    private func read<Value>(
        _ rows: some Sequence<PostgreSQLRow>, _ read: (inout PostgreSQLRow) -> Value?
    ) throws(JobStoreError) -> [Value] {
        var values: [Value] = []
        for var row in rows {
            guard let value = read(&row), row.isWhole else { throw malformed }
            values.append(value)
        }
        return values
    }

    private func outcomes<Outcome: RawRepresentable<String>>(_ result: PostgreSQLResult) throws(JobStoreError) -> [Outcome] {
        try read(result.rows) { $0.next().flatMap(Outcome.init) }
    }

    /// The error for an answer that no version of the functions gives.
    private var malformed: JobStoreError {
        JobStoreError(
            .inputOutput, "PostgreSQL at \(address) gave an answer that this program does not know",
            next: "install the functions of this version with PostgreSQLStore.install()")
    }
}

extension Lane {
    fileprivate var loaded: Lane {
        let destination = destination.map(StoredText.loaded)
        return Lane(
            id: id, kind: StoredText.loaded(kind), version: version, scope: StoredText.loaded(scope), destination: destination)
    }
}

extension AttemptResult.Outcome {
    fileprivate var word: String { end?.state.rawValue ?? (self == .givenBack ? "givenBack" : "again") }

    fileprivate var delays: (soft: Duration, isNetwork: Bool, hard: Duration?)? {
        if case .again(let soft, let isNetwork, let hard) = self { (soft, isNetwork, hard) } else { nil }
    }
}

extension JobQueue {
    /// Creates a queue in PostgreSQL; ``run()`` makes this process a worker.
    ///
    /// The queue writes to the logger and the metrics of the bus's configuration. Available with the package's trait `PostgreSQL`.
    public convenience init(_ store: PostgreSQLStore, bus: RetryBus, configuration: Configuration = .init()) {
        self.init(store as any JobStore, bus: bus, configuration: configuration)
    }
}
#endif
