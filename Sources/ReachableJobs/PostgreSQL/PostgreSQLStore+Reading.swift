#if PostgreSQL
internal import FoundationEssentials
internal import ReachableRetry
internal import Synchronization

/// Searches, explanations and hints.
extension PostgreSQLStore {
    /// Returns jobs by position; see ``JobStore/find(_:)``.
    package func find(_ filter: JobFilter) async throws(JobStoreError) -> [DurableJob] {
        let prefix = filter.idPrefix?.lowercased()
        if let prefix, prefix.utf8.count > 32 || !prefix.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }) { return [] }
        func stored(_ text: String?) -> PostgreSQLValue { .text(text.map(StoredText.stored)) }
        // NULL is another type's for each array.
        let states = filter.states?.compactMap { PostgreSQLRow.states.firstIndex(of: $0) }.map { Int64($0) }
        let values: [PostgreSQLValue] = [
            .bool(filter.ids != nil), .ids(Array(filter.ids ?? [])), stored(filter.queue),
            .bool(states != nil), .ints(states ?? []), .bool(filter.kinds != nil),
            .texts(filter.kinds?.map(StoredText.stored) ?? []), .text(prefix), stored(filter.uniqueKey), stored(filter.serialKey),
            stored(filter.destination), .int(filter.after), .int(filter.limit.map { Int64(max(0, $0)) }),
        ]
        let sql = """
            SELECT \(PostgreSQLJob.selection("")) FROM reachable_find(
                CASE WHEN $1 THEN $2 END, $3, CASE WHEN $4 THEN $5 END, CASE WHEN $6 THEN $7 END, $8, $9, $10, $11, $12, $13)
            """
        return try await query(sql, values).rows.map { row throws(JobStoreError) in
            var row = row
            guard let job = PostgreSQLJob(&row)?.job else { throw malformed }
            return job
        }
    }

    /// Explains why jobs do not run; see ``JobStore/explain(_:)``.
    package func explain(_ ids: [DurableJobID]) async throws(JobStoreError) -> [JobExplanation?] {
        if ids.isEmpty { return [] }
        let facts = """
            now, is_paused, workers, hold, serial_blocker, serial_state, unique_blocker, unique_state, worker, is_started
            """
        let sql = "SELECT \(facts), \(PostgreSQLJob.selection(hasPayload: false)) FROM reachable_explain($1)"
        let result = try await query(sql, [.ids(Array(Set(ids)))])
        var explanations: [DurableJobID: JobExplanation] = [:]
        for row in result.rows {
            var row = row
            let (now, isPaused, workers, hold) = (row.instant(), row.bool(), row.count(), row.instant())
            let blockers = [JobExplanation.Blocker.Key.serial, .unique].compactMap { key -> JobExplanation.Blocker? in
                let (id, state) = (row.id(), row.state())
                guard let id, let state else { return nil }
                return JobExplanation.Blocker(id: id, state: state, key: key)
            }
            let (worker, isStarted) = (row.int().map(WorkerID.init), row.bool())
            guard let job = PostgreSQLJob(&row)?.job else { throw malformed }
            explanations[job.id] = JobExplanation(
                job: job, isPaused: isPaused, workers: workers, holdUntil: hold, blockers: blockers, worker: worker,
                isStarted: isStarted, now: now ?? StoreInstant(nanoseconds: 0))
        }
        return ids.map { explanations[$0] }
    }

    /// Returns the workers; see ``JobStore/workers(of:)``.
    package func workers(of queue: String?) async throws(JobStoreError) -> [RegisteredWorker] {
        try await query("SELECT * FROM reachable_list_workers($1)", [.text(queue.map(StoredText.stored))]).rows.compactMap { row in
            var row = row
            guard let id = row.int(), let queue = row.text(), let node = row.text() else { return nil }
            let (host, process) = (row.text(), row.text().flatMap(PostgreSQLMachine.number))
            return RegisteredWorker(
                id: WorkerID(rawValue: id), queue: queue, node: node, host: host, process: process, claims: row.count(),
                sinceHeartbeat: .nanoseconds(row.int() ?? 0))
        }
    }

    /// Counts jobs; see ``JobStore/count(queue:)``.
    ///
    /// Reads all jobs of the queue, without making claims wait.
    package func count(queue: String) async throws(JobStoreError) -> [JobCount] {
        try await query("SELECT * FROM reachable_count($1)", [.text(StoredText.stored(queue))]).rows.compactMap { row in
            var row = row
            guard let state = row.state(), let kind = row.text() else { return nil }
            let (destination, count) = (row.text(), row.count())
            return JobCount(
                state: state, kind: kind, destination: destination, count: count,
                oldest: row.date() ?? Date(timeIntervalSince1970: 0))
        }
    }

    /// Hints that there may be work; see ``JobStore/changes()``.
    ///
    /// The server notifies (NOTIFY(7)) once for each transaction that lets a job run. A hint also comes each 5 s, and with each new
    /// connection: notifications are lost with the connection.
    package func changes() -> AsyncStream<Void> {
        let stream = hints.stream(keeping: 1) { [weak self] in self?.stopPolling() }
        poll.withLock { poll in
            guard poll == nil else { return }
            poll = Task { [weak hints] in
                while (try? await Task.sleep(for: .seconds(5))) != nil, let hints { hints.yield(()) }
            }
        }
        link.want()
        return stream
    }

    private func stopPolling() {
        guard hints.isEmpty else { return }
        poll.withLock { poll in
            defer { poll = nil }
            return poll
        }?.cancel()
    }

    // MARK: Statements

    /// Executes a statement as a transaction of its own; waits for the connection, and repeats what was lost with it.
    ///
    /// - Parameter repeating: Changes the values of a statement that may have been executed.
    func query(
        _ sql: String, _ values: [PostgreSQLValue], repeating: (inout [PostgreSQLValue]) -> Void = { _ in }
    ) async throws(JobStoreError) -> PostgreSQLResult {
        var (values, deadlocks) = (values, 0)
        let end = ContinuousClock.now + PostgreSQLLink.patience
        while true {
            let connection = try await link.connection()
            do throws(PostgreSQLFailure) {
                return try await connection.query(sql, values)
            } catch {
                switch error.kind {
                case .lost(let wasSent) where ContinuousClock.now < end:
                    link.lose(connection)
                    if wasSent { repeating(&values) }
                // The server has ended one of two transactions that waited for each other.
                case .server("40P01") where deadlocks < 3: deadlocks += 1
                // Tables or functions are missing, perhaps since others were installed.
                case .server(let state) where state.hasPrefix("42"):
                    do throws(PostgreSQLFailure) { try await link.check(connection) } catch { throw error.storeError(for: address) }
                    throw error.storeError(for: address)
                default: throw error.storeError(for: address)
                }
            }
        }
    }

    /// Returns the outcomes of the first column.
    func outcomes<Outcome: RawRepresentable<String>>(_ result: PostgreSQLResult) throws(JobStoreError) -> [Outcome] {
        var outcomes: [Outcome] = []
        for text in result.firstTexts {
            guard let outcome = Outcome(rawValue: text) else { throw malformed }
            outcomes.append(outcome)
        }
        return outcomes
    }

    /// The error for an answer that no version of the functions gives.
    var malformed: JobStoreError {
        JobStoreError(
            .inputOutput, "PostgreSQL at \(address) gave an answer that this program does not know",
            next: "install the functions of this version with PostgreSQLStore.install()")
    }
}

extension JobQueue.Unique {
    /// The word of `reachable_push`.
    var rule: String {
        switch self {
        case .keep: "keep"
        case .replace: "replace"
        case .append: "append"
        }
    }
}

extension AttemptResult.Outcome {
    /// The word of `reachable_finish`.
    var word: String {
        switch self {
        case .succeeded: "succeeded"
        case .failed: "failed"
        case .cancelled: "cancelled"
        case .again: "again"
        }
    }

    /// The reason of a failure.
    var reason: String? { if case .failed(let reason) = self { reason } else { nil } }

    /// The delays before another attempt; `nil` if there is none.
    var delays: (soft: Duration, isNetwork: Bool, hard: Duration?)? {
        if case .again(let soft, let isNetwork, let hard) = self { (soft, isNetwork, hard) } else { nil }
    }
}
#endif
