#if PostgreSQL
internal import CLibPQ
internal import DequeModule
internal import Glibc
internal import Reachability
internal import Synchronization

/// A connection to PostgreSQL, served by a thread of its own until ``close()``, or until it is lost.
///
/// Statements of all tasks are sent as they come, several at a time (libpq's pipeline mode), and answered in this order. Each is a
/// transaction of its own. The cancellation of a task does not interrupt its statement. Safe to use from any thread.
final class PostgreSQLConnection: Sendable {
    typealias Answer = Result<PostgreSQLResult, PostgreSQLFailure>

    struct Request: Sendable {
        let sql: String
        let parameters: [PostgreSQLParameter]
        let continuation: CheckedContinuation<Answer, Never>
    }

    private struct State {
        var waiting: Deque<Request> = []
        var end: PostgreSQLFailure?
    }

    /// The largest size of all parameters together; the server takes messages below 1 GiB (PQ_LARGE_MESSAGE_LIMIT).
    private static let byteLimit = 512 << 20

    /// The longest time that the server may take for a statement after its sending and after the answer to the one before.
    ///
    /// Then the connection counts as lost: the peer vanished silently, or the server is stopped. Statements that wait for locks
    /// need a shorter `lock_timeout`.
    let timeLimit: Duration
    /// Called with each notification, on the connection's thread; must not block.
    let onNotification: @Sendable () -> Void
    let wakeUp: Int32
    private let state = Mutex(State())

    /// Connects to the first server that accepts.
    ///
    /// The time limit is `connect_timeout` for each server of the connection string, 10 s by default. The system's resolver has its
    /// own time limit, which adds to that.
    ///
    /// - Parameter onEnd: Called once on the connection's thread when it has ended.
    static func open(
        _ conninfo: PostgreSQLConninfo, timeLimit: Duration = .seconds(15), onNotification: @escaping @Sendable () -> Void = {},
        onEnd: @escaping @Sendable (PostgreSQLConnection) -> Void = { _ in }
    ) async throws(PostgreSQLFailure) -> PostgreSQLConnection {
        let connection = try PostgreSQLConnection(timeLimit, onNotification)
        let failure = await withCheckedContinuation { (opening: CheckedContinuation<PostgreSQLFailure?, Never>) in
            let error = SystemThread.start(named: "postgresql", blocksSignals: true) {
                let session: PostgreSQLSession
                do throws(PostgreSQLFailure) {
                    session = try PostgreSQLSession.connect(conninfo, for: connection)
                } catch {
                    return opening.resume(returning: error)
                }
                opening.resume(returning: nil)
                connection.end(session.serve())
                onEnd(connection)
            }
            if error != 0 { opening.resume(returning: PostgreSQLFailure(errno: error, operation: "pthread_create()")) }
        }
        if let failure { throw failure }
        return connection
    }

    private init(_ timeLimit: Duration, _ onNotification: @escaping @Sendable () -> Void) throws(PostgreSQLFailure) {
        (self.timeLimit, self.onNotification) = (timeLimit, onNotification)
        wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if wakeUp < 0 { throw PostgreSQLFailure(errno: errno, operation: "eventfd()") }
    }

    deinit { if wakeUp >= 0 { Glibc.close(wakeUp) } }

    /// Runs a statement, and returns its rows.
    ///
    /// The statement is prepared when the connection uses it for the first time; its parameters always have the same types.
    func query(_ sql: String, _ parameters: [PostgreSQLParameter] = []) async throws(PostgreSQLFailure) -> PostgreSQLResult {
        guard parameters.reduce(0, { $0 + ($1.bytes?.count ?? 0) }) <= Self.byteLimit else {
            throw PostgreSQLFailure(.server, "its parameters have more than \(Self.byteLimit >> 20) MiB", sqlstate: "54000")
        }
        let answer = await withCheckedContinuation { continuation in
            let (end, isFirst) = state.withLock { state in
                if state.end == nil { state.waiting.append(Request(sql: sql, parameters: parameters, continuation: continuation)) }
                return (state.end, state.waiting.count == 1)
            }
            if let end { return continuation.resume(returning: .failure(end.lost(wasSent: false))) }
            // The thread takes all that wait: it was woken for the first one.
            if isFirst { eventfd_write(wakeUp, 1) }
        }
        return try answer.get()
    }

    func close() {
        state.withLock { $0.end = $0.end ?? .closed }
        eventfd_write(wakeUp, 1)
    }

    // MARK: For the connection's thread

    /// Removes the first statements that wait; throws after ``close()``.
    func take(_ limit: Int) throws(PostgreSQLFailure) -> Deque<Request> {
        let (requests, end) = state.withLock { state -> (Deque<Request>, PostgreSQLFailure?) in
            if let end = state.end { return ([], end) }
            let requests = Deque(state.waiting.prefix(limit))
            state.waiting.removeFirst(requests.count)
            return (requests, nil)
        }
        if let end { throw end }
        return requests
    }

    var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    private func end(_ failure: PostgreSQLFailure) {
        let waiting = state.withLock { state in
            defer { (state.waiting, state.end) = ([], state.end ?? failure) }
            return state.waiting
        }
        for request in waiting { request.continuation.resume(returning: .failure(failure.lost(wasSent: false))) }
    }
}
#endif
