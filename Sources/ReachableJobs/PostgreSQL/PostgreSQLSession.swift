#if PostgreSQL
internal import CLibPQ
internal import DequeModule
internal import Glibc

/// The thread's side of a connection: it alone uses libpq's connection.
final class PostgreSQLSession {
    /// A request that was sent.
    private struct Sent {
        var request: PostgreSQLRequest
        var statement: PostgreSQLStatement?
        /// The statement's name on the server.
        var name = ""
        /// True if the request prepares the statement.
        var prepares = false
        /// True until the preparation's result.
        var isPreparing = false
        var outcome: Result<PostgreSQLResult, PostgreSQLFailure>?
    }

    /// The largest number of requests without an answer; more would fill the buffers of both sides.
    private static let limit = 256

    private let state: PostgreSQLConnectionState
    private let connection: OpaquePointer
    private let notices = PostgreSQLNotices()
    private var sent: Deque<Sent> = []
    private var statements: [PostgreSQLStatement: String] = [:]
    private var statementCount = 0
    /// The time since which the server could have answered the first request.
    private var firstSince = Duration.zero
    private var unansweredSettings = 0
    private var isEncrypted = false

    /// Opens and serves the connection until its end.
    static func run(_ state: PostgreSQLConnectionState) {
        var failure: PostgreSQLFailure?
        do throws(PostgreSQLFailure) {
            guard state.wakeUp.descriptor >= 0 else {
                throw PostgreSQLFailure(errno: -state.wakeUp.descriptor, operation: "eventfd()")
            }
            let session = try connect(state)
            do throws(PostgreSQLFailure) {
                try session.start()
                try session.serve()
            } catch {
                failure = error
                session.failSent(error)
            }
        } catch {
            failure = error
        }
        state.end(failure)
    }

    /// Returns a session with the first server that accepts one.
    private static func connect(_ state: PostgreSQLConnectionState) throws(PostgreSQLFailure) -> PostgreSQLSession {
        var refusals: [PostgreSQLFailure] = []
        for server in try PostgreSQLConninfo(state.conninfo).servers {
            guard let connection = PostgreSQLConninfo.start(server) else {
                throw PostgreSQLFailure(errno: ENOMEM, operation: "PQconnectStartParams()")
            }
            let session = PostgreSQLSession(state, connection)
            do throws(PostgreSQLFailure) {
                try session.connect()
                return session
            } catch {
                guard error.kind == .connect else { throw error }
                refusals.append(error)
            }
        }
        throw PostgreSQLFailure(
            .connect, refusals.map(\.message).joined(separator: "; "), sqlstate: refusals.last { $0.sqlstate != nil }?.sqlstate)
    }

    private init(_ state: PostgreSQLConnectionState, _ connection: OpaquePointer) {
        (self.state, self.connection) = (state, connection)
        notices.attach(to: connection)
        // Only there does a refusal show the server's code.
        PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
    }

    deinit { PQfinish(connection) }

    // MARK: Opening

    private func connect() throws(PostgreSQLFailure) {
        let limit = PostgreSQLConninfo.connectTimeout(of: connection)
        let deadline = limit.map { PostgreSQLWakeUp.now + .seconds($0) }
        guard PQstatus(connection) != CONNECTION_BAD else { throw refusal() }
        // libpq: "behave as if PQconnectPoll last returned PGRES_POLLING_WRITING".
        var polled = PGRES_POLLING_WRITING
        while polled != PGRES_POLLING_OK {
            let events = polled == PGRES_POLLING_READING ? POLLIN : POLLOUT
            let (isSignaled, ready) = try state.wakeUp.wait(for: PQsocket(connection), events, until: deadline)
            if isSignaled {
                state.wakeUp.clear()
                if state.isClosing { throw .closed }
            }
            if ready != 0 {
                polled = PQconnectPoll(connection)
                guard polled != PGRES_POLLING_FAILED else { throw refusal() }
            }
            if polled != PGRES_POLLING_OK, let limit, let deadline, deadline <= PostgreSQLWakeUp.now {
                throw PostgreSQLFailure(.connect, "the server did not answer within \(limit) s")
            }
        }
        guard PQsetnonblocking(connection, 1) == 0, PQenterPipelineMode(connection) == 1 else { throw refusal() }
        isEncrypted = PQsslInUse(connection) != 0 || PQgssEncInUse(connection) != 0
    }

    /// Applies the settings.
    private func start() throws(PostgreSQLFailure) {
        for (name, value) in state.settings {
            let values = try PostgreSQLParameters([.text(name), .text(value)])
            unansweredSettings += 1
            try send(PostgreSQLRequest(.statement("SELECT set_config($1,$2,false)", values), .session(setting: name)))
        }
        while unansweredSettings > 0 { try turn() }
        state.opened()
    }

    /// Returns the failure of a connection that could not be made.
    private func refusal() -> PostgreSQLFailure {
        var failure = PostgreSQLFailure(connecting: connection)
        // libpq closes its socket after a failure, but it also needs descriptors to resolve names and to read files.
        if failure.kind == .connect, case let number = -PostgreSQLWakeUp().descriptor, number > 0 {
            failure.kind = .local
            failure.message += " (\(PostgreSQLFailure.text(of: number)))"
        }
        return failure
    }

    // MARK: Serving

    private func serve() throws(PostgreSQLFailure) {
        while true {
            for request in state.take(Self.limit - sent.count) { try send(request) }
            try turn()
        }
    }

    /// Sends, waits and receives once.
    private func turn() throws(PostgreSQLFailure) {
        let flushed = PQflush(connection)
        // PQflush reads as well, when it cannot write: nothing would be readable then.
        try receive()
        // After an end that PQflush has noticed there is no socket to wait for.
        guard flushed >= 0, PQstatus(connection) == CONNECTION_OK else { throw endOfConnection() }
        if sent.count < Self.limit, unansweredSettings == 0, state.hasWaiting { return }
        var deadline = sent.isEmpty ? nil : firstSince + state.timeLimit
        // TLS may hold decrypted bytes that libpq has not read, while the socket has nothing to read.
        if isEncrypted, let end = deadline { deadline = min(end, PostgreSQLWakeUp.now + .milliseconds(50)) }
        let events = flushed > 0 ? POLLIN | POLLOUT : POLLIN
        let (isSignaled, ready) = try state.wakeUp.wait(for: PQsocket(connection), events, until: deadline)
        if isSignaled {
            state.wakeUp.clear()
            if state.isClosing { throw .closed }
        }
        if ready & ~POLLOUT != 0 || isEncrypted {
            // Each call reads at least 8 KiB, half of TLS's largest record.
            for _ in 0..<(isEncrypted ? 4 : 1) where PQconsumeInput(connection) == 0 {
                // The server's reason may precede the end.
                try receive()
                throw endOfConnection()
            }
            try receive()
        }
        // Judged after reading: this process may have been stopped as well.
        if ready == 0, !sent.isEmpty, firstSince + state.timeLimit <= PostgreSQLWakeUp.now {
            throw PostgreSQLFailure(.lost(wasSent: true), "the server did not answer within \(state.timeLimit)")
        }
    }

    private func send(_ request: PostgreSQLRequest) throws(PostgreSQLFailure) {
        if sent.isEmpty { firstSince = PostgreSQLWakeUp.now }
        var isSent = true
        switch request.operation {
        case .listen(let channel):
            sent.append(Sent(request: request))
            if let quoted = PQescapeIdentifier(connection, channel, channel.utf8.count) {
                isSent = PQsendQueryParams(connection, "LISTEN \(String(cString: quoted))", 0, nil, nil, nil, nil, 1) == 1
                PQfreemem(quoted)
            } else {
                isSent = false
            }
        case .statement(let sql, let parameters):
            let statement = PostgreSQLStatement(sql: sql, types: parameters.oids)
            // A repeated request relies on no other one.
            let known = request.isRepeated ? nil : statements[statement]
            let name = known ?? newName()
            sent.append(Sent(request: request, statement: statement, name: name, prepares: known == nil, isPreparing: known == nil))
            if known == nil {
                statements[statement] = name
                isSent = PQsendPrepare(connection, name, sql, Int32(parameters.oids.count), parameters.oids) == 1
            }
            isSent = isSent && parameters.send(name, connection)
        }
        // Half a request cannot be taken back.
        guard isSent, PQpipelineSync(connection) == 1 else { throw endOfConnection() }
    }

    private func newName() -> String {
        statementCount += 1
        return "s\(statementCount)"
    }

    /// Handles the answers and notifications that have arrived.
    private func receive() throws(PostgreSQLFailure) {
        var emptyCount = 0
        while !sent.isEmpty, PQisBusy(connection) == 0 {
            guard let result = PQgetResult(connection) else {
                // The separator of two results; a connection that has ended returns nothing else.
                emptyCount += 1
                if emptyCount > 8 { throw endOfConnection() }
                continue
            }
            emptyCount = 0
            try receive(result)
        }
        while let notification = PQnotifies(connection) {
            let (channel, payload) = (String(cString: notification.pointee.relname), notification.pointee.extra)
            let text = payload.map { String(cString: $0) } ?? ""
            PQfreemem(notification)
            state.onNotification(channel, text)
        }
    }

    private func receive(_ result: OpaquePointer) throws(PostgreSQLFailure) {
        switch PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            PQclear(result)
            // Only here is the transaction committed.
            try finishFirst()
        case PGRES_COMMAND_OK where sent[0].isPreparing:
            PQclear(result)
            sent[0].isPreparing = false
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY:
            sent[0].outcome = .success(PostgreSQLResult(result))
        case PGRES_PIPELINE_ABORTED:
            PQclear(result)
        case PGRES_FATAL_ERROR:
            defer { PQclear(result) }
            var isFatal = false
            let failure = PostgreSQLFailure(result: result, isFatal: &isFatal)
            guard !isFatal else { throw failure }
            sent[0].outcome = .failure(failure)
        default:
            PQclear(result)
            throw PostgreSQLFailure(.lost(wasSent: true), "the server's answer is of an unexpected kind")
        }
    }

    /// Answers the first request, whose transaction has ended.
    private func finishFirst() throws(PostgreSQLFailure) {
        var first = sent.removeFirst()
        firstSince = PostgreSQLWakeUp.now
        guard let outcome = first.outcome else {
            first.request.answer(.failure(PostgreSQLFailure(.lost(wasSent: true), "the server skipped an answer")))
            throw PostgreSQLFailure(.lost(wasSent: true), "the server skipped an answer")
        }
        if case .failure(let failure) = outcome, let statement = first.statement {
            // invalid_sql_statement_name, and feature_not_supported: "cached plan must not change result type".
            let isStale = failure.kind == .server(sqlstate: "26000") || failure.kind == .server(sqlstate: "0A000")
            if first.isPreparing || isStale, statements[statement] == first.name { statements[statement] = nil }
            // Another request was to prepare the statement, and failed. This one was not carried out, and prepares it itself.
            if isStale, !first.prepares, !first.request.isRepeated {
                first.request.isRepeated = true
                return state.putBack(first.request)
            }
        }
        switch first.request.receiver {
        case .task: first.request.answer(outcome)
        case .session(let setting):
            unansweredSettings -= 1
            guard case .failure(var failure) = outcome else { return }
            failure.message = "the setting \(setting) was refused: \(failure.message)"
            throw failure
        }
    }

    // MARK: End

    /// Returns the failure of a connection that has ended, with the server's reason if it gave one.
    private func endOfConnection() -> PostgreSQLFailure {
        if let last = notices.fatal { return last }
        let text = PostgreSQLFailure.line(PQerrorMessage(connection)) ?? "the connection ended"
        return PostgreSQLFailure(.lost(wasSent: true), text)
    }

    private func failSent(_ failure: PostgreSQLFailure) {
        for sent in sent { sent.request.answer(.failure(failure.lost(wasSent: true))) }
        sent = []
    }
}
#endif
