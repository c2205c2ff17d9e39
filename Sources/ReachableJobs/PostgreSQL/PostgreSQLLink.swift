#if PostgreSQL
internal import PostgreSQLSchema
internal import Reachability
internal import ReachableRetry
internal import Synchronization

/// The connection of a store, which is made again when it was lost.
///
/// Callers wait for it, as for the network: a reconnection is a job of the retry bus that they share, with the server as its scope
/// and destination. Safe to use from any thread.
final class PostgreSQLLink: Sendable {
    private enum Phase {
        case idle
        case open(PostgreSQLConnection)
        case closed
    }

    private struct State {
        var phase = Phase.idle
        var error: JobStoreError?
        /// True while the connection is wanted without a caller: it brings hints.
        var isWanted = false
    }

    static let patience = Duration.seconds(10)

    private let conninfo: PostgreSQLConninfo
    private let bus: RetryBus
    private let policy: RetryPolicy
    private let job: JobID
    private let installsTables: Bool
    /// Called when something may have changed: with each notification, and after each connection.
    private let hint: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameter bus: `nil` for a bus of its own, without a network.
    init(_ conninfo: PostgreSQLConninfo, bus: RetryBus?, installsTables: Bool, hint: @escaping @Sendable () -> Void) {
        (self.conninfo, self.installsTables, self.hint) = (conninfo, installsTables, hint)
        self.bus = bus ?? RetryBus(ReachabilityMonitor())
        job = JobID("\(conninfo.address) \(UInt32.random(in: 0 ... .max))")
        // Callers wait for their patience alone, and a worker's lease goes on.
        policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil).giveUpAfter(elapsed: nil)
            .backoff(.exponential(initial: .milliseconds(250), maximum: .seconds(5)).jitter(.full))
            .connectivity(bus == nil || conninfo.scope == nil ? .ignore : .wait(upTo: nil))
            .classify { ($0 as? PostgreSQLFailure)?.attemptFailure }
    }

    /// Returns the connection; waits for it if there is none.
    ///
    /// - Parameter end: The end of the wait; `nil` waits until there is one.
    func connection(until end: ContinuousClock.Instant?) async throws(JobStoreError) -> PostgreSQLConnection {
        switch state.withLock(\.phase) {
        case .open(let connection): return connection
        case .closed: throw closed
        case .idle: break
        }
        let joining = Task { [self] in
            try await bus.retry(
                policy, to: conninfo.scope ?? .internet, options: JobOptions(destination: conninfo.address), joining: job
            ) { [self] _ in try await connect() }
        }
        let limit = Task {
            guard let end, (try? await Task.sleep(until: end)) != nil else { return }
            joining.cancel()
        }
        defer { limit.cancel() }
        switch await joining.result {
        case .success(let connection): return connection
        case .failure(let failure as PostgreSQLFailure): throw failure.storeError(for: conninfo.address)
        case .failure(let failure): throw error(after: failure)
        }
    }

    /// Returns the error of a caller whose wait has ended, or whose bus or store was closed.
    private func error(after failure: any Error) -> JobStoreError {
        let (phase, error) = state.withLock { ($0.phase, $0.error) }
        if case .closed = phase { return closed }
        guard failure is CancellationError else { return closed }
        return error
            ?? JobStoreError(
                .unavailable, "PostgreSQL at \(conninfo.address) was not reached within \(Self.patience)",
                next: "check that the server runs and that this machine can reach it")
    }

    private var closed: JobStoreError {
        JobStoreError(.unavailable, "the store at \(conninfo.address) was closed", next: "make another one")
    }

    func want() {
        state.withLock { $0.isWanted = true }
        Task { [weak self] in _ = try? await self?.connection(until: nil) }
    }

    /// Gives up a lost connection; another one takes its place when it is needed.
    func lose(_ connection: PostgreSQLConnection) {
        connection.close()
        let isWanted = state.withLock { state in
            guard case .open(let present) = state.phase, present === connection else { return false }
            state.phase = .idle
            return state.isWanted
        }
        if isWanted { want() }
    }

    func close() {
        let phase = state.withLock { state in
            defer { state.phase = .closed }
            return state.phase
        }
        if case .open(let connection) = phase { connection.close() }
        bus.cancel(job)
    }

    // MARK: Connecting

    private func connect() async throws(PostgreSQLFailure) -> PostgreSQLConnection {
        switch state.withLock(\.phase) {
        // Made by an attempt that all callers had left.
        case .open(let connection): return connection
        case .closed: throw .closed
        case .idle: break
        }
        do throws(PostgreSQLFailure) {
            let connection = try await open { (connection) throws(PostgreSQLFailure) in
                try await check(connection)
                _ = try await connection.query("LISTEN reachable")
            }
            let isClosed = state.withLock { state in
                if case .closed = state.phase { return true }
                (state.phase, state.error) = (.open(connection), nil)
                return false
            }
            if isClosed { connection.close() }
            hint()
            return connection
        } catch {
            state.withLock { $0.error = error.storeError(for: conninfo.address) }
            throw error
        }
    }

    private func open(
        _ begin: (PostgreSQLConnection) async throws(PostgreSQLFailure) -> Void
    ) async throws(PostgreSQLFailure) -> PostgreSQLConnection {
        let connection = try await PostgreSQLConnection.open(conninfo, onNotification: hint) { [weak self] in self?.lose($0) }
        do throws(PostgreSQLFailure) {
            // Whatever the database's defaults are: calls decide by what others have committed.
            _ = try await connection.query(
                """
                SELECT set_config('lock_timeout', '5s', false), set_config('default_transaction_isolation', 'read committed', false)
                """)
            try await begin(connection)
        } catch {
            connection.close()
            throw error
        }
        return connection
    }

    func install() async throws(PostgreSQLFailure) {
        let connection = try await open { (connection) throws(PostgreSQLFailure) in try await connection.install() }
        connection.close()
    }

    /// Checks the version of the tables, and installs them if they are missing or earlier and this store may.
    func check(_ connection: PostgreSQLConnection) async throws(PostgreSQLFailure) {
        do throws(PostgreSQLFailure) {
            try PostgreSQLFailure.check(try await connection.query("SELECT reachable_schema()").value())
        } catch {
            // There is no such function, or an earlier version.
            guard installsTables, ["42883", "RE005"].contains(error.sqlstate) else { throw error }
            try await connection.install()
        }
    }
}

extension PostgreSQLConnection {
    /// Installs the tables and functions in one transaction, one installation of a schema at a time.
    fileprivate func install() async throws(PostgreSQLFailure) {
        let lock = "SELECT pg_advisory_xact_lock(1919246592, coalesce(hashtext(current_schema()), 0))"
        for statement in ["BEGIN", lock] + PostgreSQLSchema.versions { _ = try await query(statement) }
        let applied: Int64 = try await query("SELECT max(version) FROM reachable_versions").value() ?? 0
        for version in applied..<PostgreSQLSchema.version {
            for statement in PostgreSQLSchema.tables(version + 1) { _ = try await query(statement) }
        }
        for statement in PostgreSQLSchema.functions + ["COMMIT"] { _ = try await query(statement) }
    }
}

extension PostgreSQLFailure {
    static func check(_ version: Int64?) throws(PostgreSQLFailure) {
        let (version, known) = (version ?? 0, PostgreSQLSchema.version)
        if version > known {
            throw PostgreSQLFailure(
                .server, "the store has version \(version), and this program knows versions up to \(known)", sqlstate: "RE003")
        }
        if version < known {
            throw PostgreSQLFailure(
                .server, "the store has version \(version), and this program needs version \(known)", sqlstate: "RE005")
        }
    }
}
#endif
