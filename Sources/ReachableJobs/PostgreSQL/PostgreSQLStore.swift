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
/// to 10 s while a job of the bus makes another one; a hint of ``changes()`` tells workers that it is there. A call that was under
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
    public let place: String

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
        place = link.place
    }

    deinit {
        poll.withLock { $0 }?.cancel()
        hints.finish()
        link.close()
    }

    /// Installs the tables and functions in the connection's schema, or renews the functions.
    ///
    /// The connection's user has to own the schema, or may create in it. A database administrator can run the same files with psql:
    /// `install.sql`, and `roles.sql` for roles with the least rights that suffice.
    ///
    /// - Throws: ``JobStoreError``.
    public func install() async throws(JobStoreError) {
        let connection = PostgreSQLConnection(conninfo: conninfo, onNotification: { _, _ in }, onEnd: { _ in })
        defer { connection.close() }
        do throws(PostgreSQLFailure) {
            try await connection.open()
            try await Self.install(on: connection)
        } catch {
            throw error.storeError(for: place)
        }
    }

    /// Installs the tables and functions, one installation of a schema at a time.
    static func install(on connection: PostgreSQLConnection) async throws(PostgreSQLFailure) {
        let lock = "SELECT pg_advisory_xact_lock(1919246592, coalesce(hashtext(current_schema()), 0))"
        for statement in ["BEGIN", lock] { _ = try await connection.query(statement) }
        if try await connection.query("SELECT to_regclass('reachable_clock') IS NOT NULL").bool(0, 0) == true {
            try check(try await connection.query("SELECT schema FROM reachable_clock").int(0, 0) ?? 0)
        }
        for statement in PostgreSQLSchema.statements { _ = try await connection.query(statement) }
        _ = try await connection.query("COMMIT")
    }

    /// Refuses tables of later versions.
    static func check(_ version: Int64) throws(PostgreSQLFailure) {
        guard version > PostgreSQLSchema.version else { return }
        throw PostgreSQLFailure(
            .server(sqlstate: "RE003"),
            "the store has version \(version), and this program knows versions up to \(PostgreSQLSchema.version)")
    }

    /// Ends the connection; later calls throw.
    public func close() { link.close() }

    // MARK: Jobs

    /// Adds jobs; see ``JobStore/push(_:limit:)``.
    ///
    /// Jobs with a serial or unique key wait for open transactions that push the same key.
    public func push(_ jobs: [NewJob], limit: Int?) async throws(JobStoreError) -> [PushReceipt] {
        if jobs.isEmpty { return [] }
        for job in jobs where job.payload.count > largestPayload {
            throw JobStoreError(
                .tooLarge, "the payload of a job of kind \(job.kind) has \(job.payload.count) bytes, more than 1 MiB",
                next: "store it in a file, and push the file's name")
        }
        let values: [PostgreSQLValue] = [
            .texts(jobs.map(\.id.description)), .texts(jobs.map { StoredText.stored($0.queue) }),
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
    public func finish(_ results: [AttemptResult], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
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
            .texts(short(results.map { $0.storedError.map(StoredText.stored) })),
            .bool(state.withLock(\.hasUnansweredResults)),
        ]
        let list = (1...16).map { "$\($0)" }.joined(separator: ", ")
        do throws(JobStoreError) {
            let result = try await query("SELECT * FROM reachable_finish(\(list))", values) { $0[15] = .bool(true) }
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
    public func cancel(_ ids: [DurableJobID]) async throws(JobStoreError) -> [CancelOutcome] {
        if ids.isEmpty { return [] }
        return try outcomes(try await query("SELECT * FROM reachable_cancel($1)", [.texts(ids.map(\.description))]))
    }

    /// Makes jobs available again; see ``JobStore/retry(_:)``.
    public func retry(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        if ids.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_retry($1)", [.texts(ids.map(\.description))])
        return (0..<result.rowCount).map { result.bool($0, 0) ?? false }
    }

    /// Ends the backoff of jobs; see ``JobStore/endBackoff(_:)``.
    public func endBackoff(_ ids: [DurableJobID]) async throws(JobStoreError) -> [Bool] {
        if ids.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_end_backoff($1)", [.texts(ids.map(\.description))])
        return (0..<result.rowCount).map { result.bool($0, 0) ?? false }
    }

    /// Pauses or resumes a queue; see ``JobStore/setPaused(_:queue:)``.
    public func setPaused(_ isPaused: Bool, queue: String) async throws(JobStoreError) {
        _ = try await query("SELECT reachable_set_paused($1, $2)", [.text(StoredText.stored(queue)), .bool(isPaused)])
    }

    /// Deletes old jobs; see ``JobStore/prune(_:limit:)``.
    public func prune(_ retention: Retention, limit: Int) async throws(JobStoreError) -> Int {
        if limit <= 0 { return 0 }
        let values: [PostgreSQLValue] = [
            .int(retention.succeeded.storable), .int(retention.failed.storable), .int(Int64(limit)),
        ]
        return Int(clamping: try await query("SELECT reachable_prune($1, $2, $3)", values).int(0, 0) ?? 0)
    }

    // MARK: Workers

    /// Adds a worker; see ``JobStore/register(queue:node:)``.
    public func register(queue: String, node: String) async throws(JobStoreError) -> WorkerID {
        try await buryNeighbours()
        let values: [PostgreSQLValue] = [
            .text(StoredText.stored(queue)), .text(StoredText.stored(node)), .text(machine.name), .text(machine.process),
            .text(machine.host.map(StoredText.stored)),
        ]
        let sql = "SELECT reachable_register($1, $2, $3, $4, $5)"
        guard let number = try await query(sql, values).int(0, 0) else { throw malformed }
        return WorkerID(rawValue: number)
    }

    /// Removes a worker; see ``JobStore/unregister(_:)``.
    public func unregister(_ worker: WorkerID) async throws(JobStoreError) {
        _ = try await query("SELECT reachable_unregister($1)", [.int(worker.rawValue)])
    }

    /// Extends a lease; see ``JobStore/extend(_:)``.
    public func extend(_ worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        let status = try status(try await query("SELECT * FROM reachable_extend($1)", [.int(worker.rawValue)]), worker)
        try await buryNeighbours()
        return status
    }

    /// Returns a worker's state; see ``JobStore/status(of:)``.
    public func status(of worker: WorkerID) async throws(JobStoreError) -> WorkerStatus {
        try status(try await query("SELECT * FROM reachable_status($1)", [.int(worker.rawValue)]), worker)
    }

    private func status(_ result: PostgreSQLResult, _ worker: WorkerID) throws(JobStoreError) -> WorkerStatus {
        guard var row = result.rows.first else { throw unknown(worker) }
        return WorkerStatus(
            cancelled: zip(row.texts(), row.ints()).compactMap { id, claim in
                id.flatMap { DurableJobID($0) }.map { JobTicket(id: $0, claim: claim) }
            })
    }

    /// Tells the server which workers of this machine ended with their processes: their jobs need not wait for the end of a lease.
    private func buryNeighbours() async throws(JobStoreError) {
        let found = try await query("SELECT * FROM reachable_neighbours($1)", [.text(machine.name)])
        let ended = found.rows.compactMap { row -> Int64? in
            var row = row
            guard let number = row.int(), let process = row.text(), !machine.isAlive(process) else { return nil }
            return number
        }
        if ended.isEmpty { return }
        _ = try await query("SELECT reachable_bury($1, $2)", [.text(machine.name), .ints(ended)])
    }

    /// Claims jobs; see ``JobStore/claim(_:)``.
    public func claim(_ request: ClaimRequest) async throws(JobStoreError) -> Claims {
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
                .ints(request.lanes.map { Int64($0.limit) }), .ints(request.lanes.map { $0.edge?.nanoseconds }),
                .int(request.lastKnownLane),
            ]
        }
        do throws(JobStoreError) {
            let sql = "SELECT * FROM reachable_claim($1, $2, $3, $4, $5, $6, $7, $8)"
            let result = try await query(sql, values()) { $0 = values() }
            let claims = try claims(result, worker)
            state.withLock { $0.lostCalls[worker] = nil }
            return claims
        } catch {
            state.withLock { $0.lostCalls[worker] = error.code == .unknownWorker ? nil : calls }
            throw error
        }
    }

    private func claims(_ result: PostgreSQLResult, _ worker: WorkerID) throws(JobStoreError) -> Claims {
        guard var row = result.rows.first else { throw unknown(worker) }
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
        let first = row.column
        // Each row but the first is a job.
        let rows = (1..<result.rowCount).map { number in
            (rank: result.int(number, first) ?? 0, position: result.int(number, first + 2) ?? 0, number: number)
        }
        claims.jobs = try rows.sorted { ($0.rank, $0.position) < ($1.rank, $1.position) }.map { row throws(JobStoreError) in
            var row = PostgreSQLRow(result, row.number, from: first + 1)
            // The next claim gives these jobs back.
            guard let (job, claim) = row.job() else { throw malformed }
            return Claims.Claimed(job: job, claim: claim)
        }
        return claims
    }

    /// Fails jobs whose deadline has passed; see ``JobStore/expire(queue:limit:)``.
    public func expire(queue: String, limit: Int) async throws(JobStoreError) -> ExpiredJobs {
        let values: [PostgreSQLValue] = [.text(StoredText.stored(queue)), .int(Int64(limit))]
        guard var row = try await query("SELECT * FROM reachable_expire($1, $2)", values).rows.first else { throw malformed }
        let ids = row.texts().compactMap(\.self)
        var expired = ExpiredJobs(jobs: [], next: row.instant(), hasMore: row.bool())
        let wanted = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
        for id in wanted.keys { expired.jobs += try await find(JobFilter(idPrefix: id, limit: 1)) }
        expired.jobs.sort { wanted[$0.id.description] ?? 0 < wanted[$1.id.description] ?? 0 }
        return expired
    }

    /// Records starts; see ``JobStore/start(_:by:)``.
    public func start(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [Bool] {
        if tickets.isEmpty { return [] }
        let result = try await query("SELECT * FROM reachable_start($1, $2, $3)", values(tickets, worker))
        return (0..<result.rowCount).map { result.bool($0, 0) ?? false }
    }

    /// Gives jobs back; see ``JobStore/giveBack(_:by:)``.
    @discardableResult
    public func giveBack(_ tickets: [JobTicket], by worker: WorkerID) async throws(JobStoreError) -> [FinishOutcome] {
        if tickets.isEmpty { return [] }
        let sql = "SELECT * FROM reachable_give_back($1, $2, $3, $4)"
        return try outcomes(try await query(sql, values(tickets, worker) + [.bool(false)]) { $0[3] = .bool(true) })
    }

    private func values(_ tickets: [JobTicket], _ worker: WorkerID) -> [PostgreSQLValue] {
        [.int(worker.rawValue), .ids(tickets.map(\.id)), .ints(tickets.map(\.claim))]
    }

    private func unknown(_ worker: WorkerID) -> JobStoreError {
        JobStoreError(
            .unknownWorker, "worker \(worker.rawValue) is not registered with the store at \(place), or its lease has ended",
            next: "end its attempts, and register again")
    }
}
#endif
