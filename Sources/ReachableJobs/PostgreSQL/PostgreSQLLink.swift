#if PostgreSQL
internal import Glibc
internal import Reachability
internal import ReachableRetry
internal import Synchronization

/// The connection of a store, which is made again when it was lost.
///
/// Callers wait for it, as for the network: a reconnection is a job of the retry bus, with the server as its scope and destination.
/// Safe to use from any thread.
final class PostgreSQLLink: Sendable {
    typealias Waiter = CheckedContinuation<Result<PostgreSQLConnection, JobStoreError>, Never>

    private enum Phase {
        case idle
        case connecting(Task<Void, Never>)
        case open(PostgreSQLConnection)
        case closed
    }

    private struct State {
        var phase = Phase.idle
        var waiters: [Int: Waiter] = [:]
        var lastNumber = 0
        /// The reason why the last attempt failed.
        var error: JobStoreError?
        /// True while the connection is wanted without a caller: it brings hints.
        var isWanted = false
    }

    /// The time for which a caller waits for a connection.
    static let patience = Duration.seconds(10)

    /// The settings of all sessions, whatever the database's defaults are: calls decide by what others have committed.
    static let settings = [("lock_timeout", "5s"), ("default_transaction_isolation", "read committed")]

    /// The longest delay between two attempts to connect to a server that answers with a failure, or does not answer.
    private static let longestBackoff = Duration.seconds(5)

    /// The server and the database, for messages.
    let address: String
    private let conninfo: String
    private let bus: RetryBus?
    private let installsTables: Bool
    /// Called when something may have changed: with each notification, and after each connection.
    private let hint: @Sendable () -> Void
    private let state = Mutex(State())

    init(_ conninfo: String, bus: RetryBus?, installsTables: Bool, hint: @escaping @Sendable () -> Void) {
        (self.conninfo, self.bus, self.installsTables, self.hint) = (conninfo, bus, installsTables, hint)
        address = PostgreSQLConnection.address(of: conninfo)
    }

    deinit { close() }

    /// Returns the connection; waits for it if there is none.
    func connection() async throws(JobStoreError) -> PostgreSQLConnection {
        let (open, number) = state.withLock { state -> (PostgreSQLConnection?, Int) in
            if case .open(let connection) = state.phase { return (connection, 0) }
            state.lastNumber += 1
            return (nil, state.lastNumber)
        }
        if let open { return open }
        let limit = Task { [weak self] in
            try? await Task.sleep(for: Self.patience)
            self?.giveUp(number)
        }
        defer { limit.cancel() }
        let result = await withCheckedContinuation { (waiter: Waiter) in
            let known = state.withLock { state -> Result<PostgreSQLConnection, JobStoreError>? in
                switch state.phase {
                case .open(let connection): return .success(connection)
                case .closed: return .failure(closed)
                case .idle, .connecting:
                    state.waiters[number] = waiter
                    return nil
                }
            }
            if let known { waiter.resume(returning: known) } else { connect() }
        }
        return try result.get()
    }

    /// Keeps a connection also without calls.
    func want() {
        state.withLock { $0.isWanted = true }
        connect()
    }

    /// Makes a new connection instead of a lost one.
    func lose(_ connection: PostgreSQLConnection) {
        let isWanted = state.withLock { state in
            guard case .open(let present) = state.phase, present === connection else { return false }
            state.phase = .idle
            return state.isWanted
        }
        if isWanted { connect() }
    }

    /// Ends the connection; callers get an error from now on.
    func close() {
        let (phase, waiters) = state.withLock { state in
            defer { (state.phase, state.waiters) = (.closed, [:]) }
            return (state.phase, state.waiters)
        }
        switch phase {
        case .connecting(let task): task.cancel()
        case .open(let connection): connection.close()
        case .idle, .closed: break
        }
        for waiter in waiters.values { waiter.resume(returning: .failure(closed)) }
    }

    private var closed: JobStoreError {
        JobStoreError(.unavailable, "the store at \(address) was closed", next: "make another one")
    }

    private func giveUp(_ number: Int) {
        let (waiter, error) = state.withLock { ($0.waiters.removeValue(forKey: number), $0.error) }
        waiter?.resume(
            returning: .failure(
                error
                    ?? JobStoreError(
                        .unavailable, "PostgreSQL at \(address) was not reached within \(Self.patience)",
                        next: "check that the server runs and that this machine can reach it")))
    }

    // MARK: - Connecting

    private func connect() {
        state.withLock { state in
            guard case .idle = state.phase else { return }
            state.phase = .connecting(
                Task { [weak self, bus] in
                    if let bus { await self?.connect(on: bus) } else { await self?.connectAlone() }
                })
        }
    }

    /// Connects as a job: attempts wait for the network and for each other.
    private func connect(on bus: RetryBus) async {
        let scope = PostgreSQLConninfo.scope(of: conninfo)
        // Callers wait for their patience alone, and a worker's lease goes on.
        let policy = RetryPolicy.default.giveUpAfter(maxAttempts: nil).giveUpAfter(elapsed: nil)
            .backoff(.exponential(initial: .milliseconds(250), maximum: Self.longestBackoff).jitter(.full))
            .connectivity(scope == nil ? .ignore : .wait(upTo: nil))
            .classify { ($0 as? PostgreSQLFailure)?.attemptFailure }
        let options = JobOptions(destination: address)
        do {
            let connection = try await bus.retry(policy, to: scope ?? .internet, options: options) { [weak self] _ in
                try await self?.attempt()
            }
            if let connection { succeed(connection) }
        } catch {
            fail(error)
        }
    }

    /// Connects with a backoff of its own.
    private func connectAlone() async {
        var delay = Duration.milliseconds(100)
        while true {
            do throws(PostgreSQLFailure) {
                return succeed(try await attempt())
            } catch {
                guard error.attemptFailure.mayRetry, (try? await Task.sleep(for: delay * Double.random(in: 0.5...1))) != nil else {
                    return fail(error)
                }
                delay = min(delay * 2, Self.longestBackoff)
            }
        }
    }

    /// Opens a connection, and checks what is on its other end.
    private func attempt() async throws(PostgreSQLFailure) -> PostgreSQLConnection {
        let ended = Ended()
        let connection = PostgreSQLConnection(
            conninfo: conninfo, settings: Self.settings, onNotification: { [hint] _, _ in hint() },
            onEnd: { [weak self] _ in
                guard let connection = ended.take() else { return }
                self?.lose(connection)
            })
        do throws(PostgreSQLFailure) {
            try await connection.open()
            try await check(connection)
            try await connection.listen("reachable")
        } catch {
            connection.close()
            state.withLock { $0.error = error.storeError(for: address) }
            throw error
        }
        ended.keep(connection)
        return connection
    }

    /// Checks the version of the tables, and installs them if they are missing or earlier and this store may.
    func check(_ connection: PostgreSQLConnection) async throws(PostgreSQLFailure) {
        do throws(PostgreSQLFailure) {
            try PostgreSQLStore.check(try await connection.query("SELECT reachable_schema()").int(0, 0) ?? 0)
        } catch {
            // There is no such function, or an earlier version.
            guard installsTables, ["42883", "RE005"].contains(error.sqlstate) else { throw error }
            try await PostgreSQLStore.install(on: connection)
        }
    }

    private func succeed(_ connection: PostgreSQLConnection) {
        let waiters = state.withLock { state -> [Waiter]? in
            guard case .connecting = state.phase else { return nil }
            defer { state.waiters = [:] }
            (state.phase, state.error) = (.open(connection), nil)
            return Array(state.waiters.values)
        }
        guard let waiters else { return connection.close() }
        for waiter in waiters { waiter.resume(returning: .success(connection)) }
        hint()
    }

    private func fail(_ error: any Error) {
        let reason = (error as? PostgreSQLFailure)?.storeError(for: address) ?? closed
        let waiters = state.withLock { state -> [Waiter] in
            guard case .connecting = state.phase else { return [] }
            defer { state.waiters = [:] }
            (state.phase, state.error) = (.idle, reason)
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.resume(returning: .failure(reason)) }
    }
}

/// A connection, for the closure that hears of its end; without it the two would keep each other.
private final class Ended: Sendable {
    private struct Content {
        weak var connection: PostgreSQLConnection?
    }

    private let content = Mutex(Content())

    func keep(_ connection: PostgreSQLConnection) { content.withLock { $0.connection = connection } }

    func take() -> PostgreSQLConnection? { content.withLock(\.connection) }
}

extension PostgreSQLConninfo {
    /// The scope of the only server of a connection string; `nil` for a local socket, and for several servers.
    static func scope(of conninfo: String) -> Scope? {
        guard let servers = (try? PostgreSQLConninfo(conninfo))?.servers, servers.count == 1 else { return nil }
        func value(_ name: String, _ variable: String) -> String? {
            let given = servers[0].first { $0.name == name }?.value
            let value = given ?? getenv(variable).map { String(cString: $0) } ?? ""
            return value.isEmpty ? nil : value
        }
        guard let host = value("hostaddr", "PGHOSTADDR") ?? value("host", "PGHOST"), !host.hasPrefix("/"), !host.hasPrefix("@"),
            !host.contains(",")
        else { return nil }
        let port = value("port", "PGPORT").flatMap { UInt16($0) } ?? 5432
        var scope = IPAddress(host).map(Scope.address) ?? Scope.host(host)
        scope.port = port
        return scope
    }
}

extension PostgreSQLFailure {
    /// The fault of a failure to connect.
    fileprivate var attemptFailure: AttemptFailure {
        switch kind {
        case .local: return .local
        case .invalid: return .permanent
        case .connect, .lost, .server:
            guard let sqlstate else { return .network }
            // A wrong password, database or set of tables stays wrong.
            return ["28", "3D", "42", "RE"].contains { sqlstate.hasPrefix($0) } ? .permanent : .server
        }
    }
}
#endif
