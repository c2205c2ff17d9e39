#if PostgreSQL
internal import CLibPQ
internal import DequeModule
internal import Reachability
internal import Synchronization

/// A connection to PostgreSQL, served by a thread of its own.
///
/// Requests of all tasks are sent as they come, several at a time (libpq's pipeline mode), and answered in this order. Each is a
/// transaction of its own. The cancellation of a task does not interrupt its request. A connection that has ended stays ended.
/// Dropping a connection closes it. Safe to use from any thread.
final class PostgreSQLConnection: Sendable {
    private let state: PostgreSQLConnectionState

    /// Creates a connection, which ``open()`` opens.
    ///
    /// libpq reads the environment, the service file, the password file and the options of TLS itself.
    ///
    /// - Parameters:
    ///   - conninfo: A URL or a list of key=value.
    ///   - settings: The names and values of settings of the session, such as `statement_timeout`.
    ///   - timeLimit: The longest time that the server may take for a request after its sending and after the answer to the one
    ///     before. Then the connection counts as lost: the peer vanished silently, or the server is stopped. Statements that wait
    ///     for locks need a shorter `lock_timeout`.
    ///   - onNotification: Receives the notifications of channels that are listened to, on the connection's thread. It must not
    ///     block.
    ///   - onEnd: Called once on the connection's thread when an opened connection has ended, with `nil` after ``close()``.
    init(
        conninfo: String, settings: [(String, String)] = [], timeLimit: Duration = .seconds(15),
        onNotification: @escaping @Sendable (_ channel: String, _ payload: String) -> Void,
        onEnd: @escaping @Sendable (PostgreSQLFailure?) -> Void
    ) {
        state = PostgreSQLConnectionState(
            conninfo: conninfo, settings: settings, timeLimit: timeLimit, onNotification: onNotification, onEnd: onEnd)
    }

    deinit { state.close() }

    /// Connects and applies the settings; called once.
    ///
    /// The time limit is `connect_timeout` for each server of the connection string, 10 s by default. The system's resolver has its
    /// own time limit, which adds to that.
    func open() async throws(PostgreSQLFailure) {
        let result = await withCheckedContinuation { state.open($0) }
        try result.get()
    }

    /// Runs a statement, and returns its rows.
    ///
    /// The statement is prepared when the connection uses it for the first time.
    func query(_ sql: String, _ values: [PostgreSQLValue] = []) async throws(PostgreSQLFailure) -> PostgreSQLResult {
        guard !sql.utf8.contains(0) else { throw PostgreSQLFailure(.invalid, "a statement cannot include U+0000") }
        return try await perform(.statement(sql, PostgreSQLParameters(values)))
    }

    /// Begins to receive the notifications of a channel.
    func listen(_ channel: String) async throws(PostgreSQLFailure) {
        guard !channel.utf8.contains(0) else { throw PostgreSQLFailure(.invalid, "a channel's name cannot include U+0000") }
        _ = try await perform(.listen(channel))
    }

    /// Ends the connection.
    ///
    /// Requests without an answer fail as lost. Later calls have no effect.
    func close() { state.close() }

    /// Returns "host:port/database" for messages; never a user name or a password.
    static func address(of conninfo: String) -> String { PostgreSQLConninfo.address(of: conninfo) }

    private func perform(_ operation: PostgreSQLRequest.Operation) async throws(PostgreSQLFailure) -> PostgreSQLResult {
        let result = await withCheckedContinuation { state.enqueue(PostgreSQLRequest(operation, .task($0))) }
        return try result.get()
    }
}

/// A statement that waits for its answer.
struct PostgreSQLRequest: Sendable {
    enum Operation: Sendable {
        case statement(String, PostgreSQLParameters)
        case listen(String)
    }

    /// The receiver of the answer.
    enum Receiver: Sendable {
        case task(CheckedContinuation<Result<PostgreSQLResult, PostgreSQLFailure>, Never>)
        /// The session itself.
        case session(setting: String)
    }

    let operation: Operation
    let receiver: Receiver
    /// True after the server did not know the statement that another request was to prepare.
    var isRepeated = false

    init(_ operation: Operation, _ receiver: Receiver) { (self.operation, self.receiver) = (operation, receiver) }

    /// Resumes the task.
    func answer(_ result: Result<PostgreSQLResult, PostgreSQLFailure>) {
        if case .task(let continuation) = receiver { continuation.resume(returning: result) }
    }
}

/// The state that the tasks and the thread of a connection share.
final class PostgreSQLConnectionState: Sendable {
    typealias Opening = CheckedContinuation<Result<Void, PostgreSQLFailure>, Never>

    private enum Phase {
        case new
        case opening(Opening)
        case open
        case ended(PostgreSQLFailure)
    }

    private struct Guarded {
        var phase = Phase.new
        var isClosing = false
        var waiting: Deque<PostgreSQLRequest> = []
    }

    let conninfo: String
    let settings: [(String, String)]
    let timeLimit: Duration
    let onNotification: @Sendable (_ channel: String, _ payload: String) -> Void
    let wakeUp = PostgreSQLWakeUp()
    private let onEnd: @Sendable (PostgreSQLFailure?) -> Void
    private let guarded = Mutex(Guarded())

    init(
        conninfo: String, settings: [(String, String)], timeLimit: Duration,
        onNotification: @escaping @Sendable (_ channel: String, _ payload: String) -> Void,
        onEnd: @escaping @Sendable (PostgreSQLFailure?) -> Void
    ) {
        (self.conninfo, self.settings, self.timeLimit) = (conninfo, settings, timeLimit)
        (self.onNotification, self.onEnd) = (onNotification, onEnd)
    }

    func open(_ opening: Opening) {
        let refusal = guarded.withLock { guarded -> PostgreSQLFailure? in
            switch guarded.phase {
            case .new:
                guarded.phase = .opening(opening)
                return nil
            case .opening, .open: return PostgreSQLFailure(.invalid, "the connection was opened before")
            case .ended(let failure): return failure
            }
        }
        if let refusal { return opening.resume(returning: .failure(refusal)) }
        let error = SystemThread.start(named: "postgresql", blocksSignals: true) { PostgreSQLSession.run(self) }
        if error != 0 { end(PostgreSQLFailure(errno: error, operation: "pthread_create()")) }
    }

    func enqueue(_ request: PostgreSQLRequest) {
        let (refusal, isFirst) = guarded.withLock { guarded -> (PostgreSQLFailure?, Bool) in
            switch guarded.phase {
            case .open where guarded.isClosing: return (.closed, false)
            case .open:
                guarded.waiting.append(request)
                return (nil, guarded.waiting.count == 1)
            case .new, .opening: return (.notOpen, false)
            case .ended(let failure): return (failure.lost(wasSent: false), false)
            }
        }
        if let refusal { return request.answer(.failure(refusal)) }
        // The thread takes all that wait: it was woken for the first one.
        if isFirst { wakeUp.signal() }
    }

    func close() {
        let hasThread = guarded.withLock { guarded -> Bool in
            guarded.isClosing = true
            switch guarded.phase {
            case .new:
                guarded.phase = .ended(.closed)
                return false
            case .opening, .open: return true
            case .ended: return false
            }
        }
        if hasThread { wakeUp.signal() }
    }

    // For the connection's thread.

    var isClosing: Bool { guarded.withLock { $0.isClosing } }

    var hasWaiting: Bool { guarded.withLock { !$0.waiting.isEmpty } }

    /// Removes the first requests.
    func take(_ limit: Int) -> Deque<PostgreSQLRequest> {
        guarded.withLock { guarded in
            guard guarded.waiting.count > limit else {
                defer { guarded.waiting = [] }
                return guarded.waiting
            }
            defer { guarded.waiting.removeFirst(limit) }
            return Deque(guarded.waiting.prefix(limit))
        }
    }

    /// Puts a request before all others.
    func putBack(_ request: PostgreSQLRequest) { guarded.withLock { $0.waiting.prepend(request) } }

    /// Makes the connection accept requests.
    func opened() {
        let opening = guarded.withLock { guarded -> Opening? in
            guard case .opening(let opening) = guarded.phase else { return nil }
            guarded.phase = .open
            return opening
        }
        opening?.resume(returning: .success(()))
    }

    /// Fails all requests that wait, after the connection has ended.
    func end(_ failure: PostgreSQLFailure?) {
        let failure = failure ?? .closed
        let (phase, waiting) = guarded.withLock { guarded in
            defer { (guarded.phase, guarded.waiting) = (.ended(failure), []) }
            return (guarded.phase, guarded.waiting)
        }
        for request in waiting { request.answer(.failure(failure.lost(wasSent: false))) }
        switch phase {
        case .opening(let opening): opening.resume(returning: .failure(failure))
        case .open: onEnd(failure == .closed ? nil : failure)
        case .new, .ended: break
        }
    }
}
#endif
