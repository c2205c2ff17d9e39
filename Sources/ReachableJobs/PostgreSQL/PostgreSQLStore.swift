#if PostgreSQL
internal import FoundationEssentials
internal import PostgreSQLSchema
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
        /// The number of the last claim, of all workers.
        var lastCall: Int64 = 0
        /// The claims whose answers were lost.
        var lostCalls: [WorkerID: [Int64]] = [:]
        /// True while results may be written whose answers were lost.
        var hasUnansweredResults = false
    }

    /// The server and the database, without user or password.
    public let address: String

    let link: PostgreSQLLink
    let hints = Listeners<Void>()
    let poll = Mutex<Task<Void, Never>?>(nil)
    private let conninfo: String
    private let state = Mutex(State())
    private let machine: PostgreSQLMachine

    /// Makes a store, which connects with its first call.
    ///
    /// - Parameters:
    ///   - connection: The connection string, such as `postgres://user@host/database`.
    ///   - bus: The bus that waits for the network and makes connections; without one the store repeats by itself.
    ///   - installsTables: True to call ``install()`` with the first connection if the tables are missing.
    public convenience init(_ connection: String, bus: RetryBus? = nil, installsTables: Bool = false) {
        self.init(connection, bus: bus, installsTables: installsTables, machine: .kernel)
    }

    /// Makes a store on a machine whose processes a test holds.
    package init(_ connection: String, bus: RetryBus?, installsTables: Bool = false, machine: PostgreSQLMachine) {
        (conninfo, self.machine) = (connection, machine)
        link = PostgreSQLLink(connection, bus: bus, installsTables: installsTables) { [hints] in hints.yield(()) }
        address = link.address
    }

    deinit {
        poll.withLock { $0 }?.cancel()
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
        let connection = PostgreSQLConnection(
            conninfo: conninfo, settings: PostgreSQLLink.settings, onNotification: { _, _ in }, onEnd: { _ in })
        defer { connection.close() }
        do throws(PostgreSQLFailure) {
            try await connection.open()
            try await Self.install(on: connection)
        } catch {
            throw error.storeError(for: address)
        }
    }

    /// Installs the tables and functions in one transaction, one installation of a schema at a time.
    static func install(on connection: PostgreSQLConnection) async throws(PostgreSQLFailure) {
        let lock = "SELECT pg_advisory_xact_lock(1919246592, coalesce(hashtext(current_schema()), 0))"
        for statement in ["BEGIN", lock] + PostgreSQLSchema.versions { _ = try await connection.query(statement) }
        let applied = try await connection.query("SELECT max(version) FROM reachable_versions").int(0, 0) ?? 0
        for version in applied..<PostgreSQLSchema.version {
            for statement in PostgreSQLSchema.tables(version + 1) { _ = try await connection.query(statement) }
        }
        for statement in PostgreSQLSchema.functions + ["COMMIT"] { _ = try await connection.query(statement) }
    }

    /// Refuses tables of other versions.
    static func check(_ version: Int64) throws(PostgreSQLFailure) {
        let known = PostgreSQLSchema.version
        if version > known {
            throw PostgreSQLFailure(
                .server(sqlstate: "RE003"), "the store has version \(version), and this program knows versions up to \(known)")
        }
        if version < known {
            throw PostgreSQLFailure(
                .server(sqlstate: "RE005"), "the store has version \(version), and this program needs version \(known)")
        }
    }

    /// Ends the connection; later calls throw.
    public func close() { link.close() }

    // MARK: Jobs

    /// Adds jobs; see ``JobStore/push(_:limit:)``.
    ///
    /// Jobs with a serial or unique key wait for open transactions that push the same key.
    package func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        if jobs.isEmpty { return [] }
        if let error = JobStoreError.tooLarge(jobs) { throw error }
        let values: [PostgreSQLValue] = [
            .ids(jobs.map(\.id)), .texts(jobs.map { StoredText.stored($0.queue) }),
            .texts(jobs.map { StoredText.stored($0.kind) }), .ints(jobs.map { Int64($0.version) }),
            .bytesArray(jobs.map(\.payload)),
            .texts(jobs.map { StoredText.stored($0.scope) }), .texts(jobs.map { $0.destination.map(StoredText.stored) }),
            .ints(jobs.map { Int64($0.priority.rawValue) }), .ints(jobs.map { $0.delay?.storable }),
            .ints(jobs.map { $0.timeLimit?.storable }), .texts(jobs.map { $0.unique?.rule }),
            .texts(jobs.map { ($0.unique?.key).map(StoredText.stored) }), .texts(jobs.map { $0.serialKey.map(StoredText.stored) }),
            .bools(jobs.map(\.continuesAfterFailure)), .bools(jobs.map(\.isRepeatable)),
            .texts(jobs.map { $0.idempotencyKey == $0.id.description ? nil : StoredText.stored($0.idempotencyKey) }),
            .texts(jobs.map { StoredText.text(of: $0.traceContext) }), .int(limit.map(Int64.init)),
        ]
        let list = (1...18).map { "$\($0)" }.joined(separator: ", ")
        let result = try await query("SELECT * FROM reachable_push_batch(\(list))", values)
        return try result.rows.map { row throws(JobStoreError) in
            var row = row
            guard let id = row.id(), let outcome = row.text().flatMap(PushReceipt.Outcome.init)
            else { throw malformed }
            return PushReceipt(id: id, outcome: outcome)
        }
    }

    /// Records results; see ``JobStore/finish(_:by:)``.
    package func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        if results.isEmpty { return [] }
        let delays = results.map(\.outcome.delays)
        let values: [PostgreSQLValue] = [
            .int(worker.rawValue), .ids(results.map(\.ticket.id)), .ints(results.map(\.ticket.claim)),
            .texts(results.map(\.outcome.word)), .texts(short(results.map { $0.outcome.reason.map(StoredText.stored) })),
            .ints(short(results.map { $0.time?.nanoseconds })), .ints(short(delays.map { $0?.soft.storable })),
            .bools(short(delays.map { $0?.isNetwork })), .ints(short(delays.map { $0?.hard?.storable })),
            .ints(short(results.map { $0.holdsDestination?.storable })), .ints(results.map { Int64($0.counters.started) }),
            .ints(results.map { Int64($0.counters.charged) }), .ints(results.map { Int64($0.counters.networkFailures) }),
            .ints(results.map { Int64($0.counters.failureIndex) }),
            .texts(short(results.map { $0.storedError.map(StoredText.stored) })), .int(nodeTime),
            .bool(state.withLock(\.hasUnansweredResults)),
        ]
        let list = (1...17).map { "$\($0)" }.joined(separator: ", ")
        do throws(JobStoreError) {
            let result = try await query("SELECT * FROM reachable_finish(\(list))", values) { $0[16] = .bool(true) }
            state.withLock { $0.hasUnansweredResults = false }
            return try outcomes(result)
        } catch {
            state.withLock { $0.hasUnansweredResults = true }
            throw error
        }
    }

    /// Returns an empty array in the place of one that has only nulls, which the server adds.
    private func short<Value>(_ values: [Value?]) -> [Value?] { values.contains { $0 != nil } ? values : [] }

    /// Cancels jobs; see ``JobStore/cancel(_:)``.
    package func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        if ids.isEmpty { return [] }
        return try outcomes(try await query("SELECT * FROM reachable_cancel($1)", [.ids(ids)]))
    }

    /// Makes jobs available again; see ``JobStore/retry(_:limit:)``.
    package func retry(_ ids: [DurableJobID], limit: Int?) async throws(JobStoreError) -> [RetryOutcome] {
        if ids.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_retry($1, $2)", [.ids(ids), .int(limit.map(Int64.init))])
        return result.rows.map { row in
            var row = row
            let (outcome, holder) = (row.text(), row.id())
            return holder.map { .taken(by: $0) } ?? (outcome == "retried" ? .retried : .notEnded)
        }
    }

    /// Ends the backoff of jobs; see ``JobStore/endBackoff(_:)``.
    package func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        if ids.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_end_backoff($1)", [.ids(ids)])
        return (0..<result.rowCount).map { result.bool($0, 0) ?? false }
    }

    /// Pauses or resumes a queue; see ``JobStore/setPaused(_:queue:)``.
    package func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        _ = try await query("SELECT reachable_set_paused($1, $2)", [.text(StoredText.stored(queue)), .bool(isPaused)])
    }

    /// Deletes old jobs; see ``JobStore/prune(_:limit:)``.
    package func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        let values: [PostgreSQLValue] = [
            .int(retention.succeeded.storable), .int(retention.failed.storable), .int(Int64(limit)),
        ]
        return Int(clamping: try await query("SELECT reachable_prune($1, $2, $3)", values).int(0, 0) ?? 0)
    }

    // MARK: Workers

    /// The time of the machine's boot clock; see ``JobStore/nodeTime``.
    package var nodeTime: Int64 { machine.bootTime() }

    /// Adds a worker; see ``JobStore/register(queue:node:)``.
    package func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        let values: [PostgreSQLValue] = [
            .text(StoredText.stored(queue)), .text(StoredText.stored(node)), .text(machine.bootID()), .text(machine.name),
            .text(machine.process), .text(machine.host.map(StoredText.stored)),
        ]
        let result = try await query("SELECT * FROM reachable_register($1, $2, $3, $4, $5, $6)", values)
        guard var row = result.rows.first, let number = row.int() else { throw malformed }
        try await removeEnded(&row)
        return WorkerID(rawValue: number)
    }

    /// Removes a worker; see ``JobStore/unregister(_:)``.
    package func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        _ = try await query("SELECT reachable_unregister($1)", [.int(worker.rawValue)])
    }

    /// Extends a lease; see ``JobStore/extend(_:)``.
    package func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        let result = try await query("SELECT * FROM reachable_extend($1, $2)", [.int(worker.rawValue), .text(machine.name)])
        guard var row = result.rows.first else { throw .unknown(worker) }
        let status = WorkerStatus(&row)
        try await removeEnded(&row)
        // Later tables may have been installed since the connection was made.
        do throws(PostgreSQLFailure) { try Self.check(row.int() ?? 0) } catch { throw error.storeError(for: address) }
        return status
    }

    /// Returns a worker's state; see ``JobStore/status(of:)``.
    package func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        let result = try await query("SELECT * FROM reachable_status($1)", [.int(worker.rawValue)])
        guard var row = result.rows.first else { throw .unknown(worker) }
        return WorkerStatus(&row)
    }

    /// Removes the workers of this machine that ended with their processes: their jobs need not wait for the end of a lease.
    private func removeEnded(_ row: inout PostgreSQLRow) async throws(JobStoreError) {
        let ended = zip(row.ints(), row.texts()).compactMap { $1.map(machine.isAlive) == false ? $0 : nil }
        if ended.isEmpty { return }
        _ = try await query("SELECT reachable_remove_ended($1, $2)", [.text(machine.name), .ints(ended)])
    }

    /// Claims jobs; see ``JobStore/claim(_:)``.
    package func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
        let worker = request.worker
        let lost = state.withLock { $0.lostCalls[worker] ?? [] }
        var calls = lost
        func values() -> [PostgreSQLValue] {
            let call = state.withLock { state in
                state.lastCall += 1
                return state.lastCall
            }
            defer { calls.append(call) }
            return [
                .int(worker.rawValue), .int(call), .ints(calls), .int(Int64(request.limit)), .ints(request.lanes.map(\.lane)),
                .ints(request.lanes.map { Int64($0.limit) }), .ints(request.lanes.map(\.edge)), .int(nodeTime),
                .int(request.lastKnownLane),
            ]
        }
        do throws(JobStoreError) {
            let result = try await query(Self.claimStatement, values()) { $0 = values() }
            let claims = try claims(result, worker)
            state.withLock { $0.lostCalls[worker] = nil }
            return claims
        } catch {
            state.withLock { $0.lostCalls[worker] = error.code == .unknownWorker ? nil : calls }
            throw error
        }
    }

    private static let claimStatement = """
        SELECT is_paused, has_more, next_due, now, lane_numbers, lane_kinds, lane_versions, lane_scopes, lane_destinations, gone,
               \(PostgreSQLJob.selection("")) FROM reachable_claim($1, $2, $3, $4, $5, $6, $7, $8, $9)
        """

    private func claims(_ result: PostgreSQLResult, _ worker: WorkerID) throws(JobStoreError) -> Claims {
        guard var row = result.rows.first else { throw .unknown(worker) }
        let (isPaused, hasMore, nextDue, now) = (row.bool(), row.bool(), row.instant(), row.instant())
        var claims = Claims(
            jobs: [], newLanes: [], isPaused: isPaused, hasMore: hasMore, nextDue: nextDue,
            now: now ?? StoreInstant(nanoseconds: 0))
        let (numbers, kinds, versions, scopes, destinations) = (row.ints(), row.texts(), row.ints(), row.texts(), row.texts())
        for (index, number) in numbers.enumerated()
        where [kinds.count, versions.count, scopes.count, destinations.count].allSatisfy({ index < $0 }) {
            claims.newLanes.append(
                Lane(
                    id: number, kind: kinds[index] ?? "", version: Int(clamping: versions[index]), scope: scopes[index] ?? "",
                    destination: destinations[index]))
        }
        claims.goneLanes = Set(row.ints())
        // The next claim gives these jobs back if one cannot be read.
        claims.jobs = try jobs(result, from: row.column).map { Claims.Claimed(job: $0.job, claim: $0.claim) }
        return claims
    }

    /// Returns the jobs of all rows but the first.
    private func jobs(_ result: PostgreSQLResult, from column: Int) throws(JobStoreError) -> [PostgreSQLJob] {
        try result.rows.dropFirst().map { row throws(JobStoreError) in
            var row = PostgreSQLRow(result, row.row, from: column)
            guard let job = PostgreSQLJob(&row) else { throw malformed }
            return job
        }
    }

    /// Fails jobs whose deadline has passed; see ``JobStore/expire(queue:limit:)``.
    package func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        let values: [PostgreSQLValue] = [.text(StoredText.stored(queue)), .int(Int64(limit))]
        let result = try await query(
            "SELECT next, has_more, \(PostgreSQLJob.selection()) FROM reachable_expire($1, $2)", values)
        guard var row = result.rows.first else { throw malformed }
        let (next, hasMore) = (row.instant(), row.bool())
        return ExpiredJobs(jobs: try jobs(result, from: row.column).map(\.job), next: next, hasMore: hasMore)
    }

    /// Records starts; see ``JobStore/start(_:by:)``.
    package func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        if tickets.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_start($1, $2, $3)", values(tickets, worker))
        return (0..<result.rowCount).map { result.bool($0, 0) ?? false }
    }

    /// Gives jobs back; see ``JobStore/giveBack(_:by:)``.
    @discardableResult
    package func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        if tickets.isEmpty { return [] }
        let sql = "SELECT * FROM reachable_give_back($1, $2, $3, $4)"
        return try outcomes(try await query(sql, values(tickets, worker) + [.bool(false)]) { $0[3] = .bool(true) })
    }

    private func values(_ tickets: [JobTicket], _ worker: WorkerID) -> [PostgreSQLValue] {
        [.int(worker.rawValue), .ids(tickets.map(\.id)), .ints(tickets.map(\.claim))]
    }
}

extension WorkerStatus {
    /// Reads two columns: the identities and the claims.
    fileprivate init(_ row: inout PostgreSQLRow) {
        let (ids, claims) = (row.ids(), row.ints())
        self.init(cancelled: zip(ids, claims).compactMap { id, claim in id.map { JobTicket(id: $0, claim: claim) } })
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
