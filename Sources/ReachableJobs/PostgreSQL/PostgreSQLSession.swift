#if PostgreSQL
internal import CLibPQ
internal import DequeModule
internal import Glibc

/// The thread's side of a connection: it alone uses libpq's connection.
final class PostgreSQLSession {
    private struct Sent {
        let request: PostgreSQLConnection.Request
        var answer = PostgreSQLConnection.Answer.failure(
            PostgreSQLFailure(.lost(wasSent: true), "the server skipped an answer"))
    }

    /// The largest number of statements without an answer; more would fill the buffers of both sides.
    private static let limit = 256

    private let owner: PostgreSQLConnection
    private let connection: OpaquePointer
    private var sent: Deque<Sent> = []
    private var names: [String: String] = [:]
    private var nameCount = 0
    /// The time since which the server could have answered the first statement.
    private var firstSince = SuspendingClock.now
    private var isEncrypted = false

    static func connect(
        _ conninfo: PostgreSQLConninfo, for owner: PostgreSQLConnection
    ) throws(PostgreSQLFailure) -> PostgreSQLSession {
        var refusals: [PostgreSQLFailure] = []
        for server in conninfo.servers {
            guard let connection = PQconnectStart(server) else {
                throw PostgreSQLFailure(errno: ENOMEM, operation: "PQconnectStart()")
            }
            let session = PostgreSQLSession(owner, connection)
            do throws(PostgreSQLFailure) {
                try session.connect()
                return session
            } catch {
                guard error.kind == .connect else { throw error }
                refusals.append(error)
            }
        }
        guard let last = refusals.last(where: { $0.sqlstate != nil }) ?? refusals.last else { throw PostgreSQLConninfo.invalid }
        throw PostgreSQLFailure(.connect, refusals.map(\.message).joined(separator: "; "), sqlstate: last.sqlstate)
    }

    private init(_ owner: PostgreSQLConnection, _ connection: OpaquePointer) {
        (self.owner, self.connection) = (owner, connection)
        // libpq would print what a server sends beside its answers.
        _ = PQsetNoticeReceiver(connection, { _, _ in }, nil)
        // Only there does a refusal show the server's code.
        PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
    }

    deinit { PQfinish(connection) }

    private func connect() throws(PostgreSQLFailure) {
        let limit = PostgreSQLConninfo.connectTimeout(of: connection)
        let deadline = limit.map { SuspendingClock.now + .seconds($0) }
        guard PQstatus(connection) != CONNECTION_BAD else { throw PostgreSQLFailure(connecting: connection) }
        // libpq: "behave as if PQconnectPoll last returned PGRES_POLLING_WRITING".
        var polled = PGRES_POLLING_WRITING
        while polled != PGRES_POLLING_OK {
            let ready = try wait(for: polled == PGRES_POLLING_READING ? POLLIN : POLLOUT, until: deadline)
            if ready != 0 { polled = PQconnectPoll(connection) }
            guard polled != PGRES_POLLING_FAILED else { throw PostgreSQLFailure(connecting: connection) }
            if polled != PGRES_POLLING_OK, let limit, let deadline, deadline <= .now {
                throw PostgreSQLFailure(.connect, "the server did not answer within \(limit) s")
            }
        }
        guard PQsetnonblocking(connection, 1) == 0, PQenterPipelineMode(connection) == 1 else {
            throw PostgreSQLFailure(connecting: connection)
        }
        isEncrypted = PQsslInUse(connection) != 0 || PQgssEncInUse(connection) != 0
    }

    /// Waits for events of the socket, or until the owner wakes the thread; returns the events.
    private func wait(for events: Int32, until deadline: SuspendingClock.Instant?) throws(PostgreSQLFailure) -> Int32 {
        var descriptors = [
            pollfd(fd: PQsocket(connection), events: Int16(events), revents: 0),
            pollfd(fd: owner.wakeUp, events: Int16(POLLIN), revents: 0),
        ]
        // Rounded up: a wait that ends too early would be repeated.
        let limit = deadline.map { Int32(max(0, (($0 - .now) / .milliseconds(1)).rounded(.up))) } ?? -1
        // ENOMEM is temporary, but nothing can be done without a wait.
        if poll(&descriptors, 2, limit) < 0, errno != EINTR { throw PostgreSQLFailure(errno: errno, operation: "poll()") }
        var count: eventfd_t = 0
        if descriptors[1].revents != 0 { eventfd_read(owner.wakeUp, &count) }
        return Int32(descriptors[0].revents)
    }

    // MARK: Serving

    func serve() -> PostgreSQLFailure {
        do throws(PostgreSQLFailure) {
            while true {
                for request in try owner.take(Self.limit - sent.count) { try send(request) }
                try turn()
            }
        } catch {
            for sent in sent { sent.request.continuation.resume(returning: .failure(error.lost(wasSent: true))) }
            return error
        }
    }

    private func turn() throws(PostgreSQLFailure) {
        let flushed = PQflush(connection)
        // PQflush reads as well, when it cannot write: nothing would be readable then.
        try receive()
        // After an end that PQflush has noticed there is no socket to wait for.
        guard flushed >= 0, PQstatus(connection) == CONNECTION_OK else { throw endOfConnection() }
        if sent.count < Self.limit, owner.hasWaiting { return }
        var deadline = sent.isEmpty ? nil : firstSince + owner.timeLimit
        // TLS may hold decrypted bytes that libpq has not read, while the socket has nothing to read.
        if isEncrypted, let end = deadline { deadline = min(end, .now + .milliseconds(50)) }
        let ready = try wait(for: flushed > 0 ? POLLIN | POLLOUT : POLLIN, until: deadline)
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
        if ready == 0, !sent.isEmpty, firstSince + owner.timeLimit <= .now {
            throw PostgreSQLFailure(.lost(wasSent: true), "the server did not answer within \(owner.timeLimit)")
        }
    }

    private func send(_ request: PostgreSQLConnection.Request) throws(PostgreSQLFailure) {
        if sent.isEmpty { firstSince = .now }
        sent.append(Sent(request: request))
        let parameters = request.parameters
        var isSent = true
        let name = names[request.sql] ?? "s\(nameCount)"
        if names.updateValue(name, forKey: request.sql) == nil {
            nameCount += 1
            isSent = PQsendPrepare(connection, name, request.sql, Int32(parameters.count), parameters.map(\.oid)) == 1
        }
        var bytes: [UInt8] = []
        for parameter in parameters { bytes += parameter.bytes ?? [] }
        // A parameter of no bytes still needs an address: none is NULL.
        bytes.append(0)
        let lengths = parameters.map { $0.bytes?.count ?? 0 }
        isSent = bytes.withUnsafeBytes { bytes in
            var next = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = zip(parameters, lengths).map { parameter, length in
                defer { next = next?.advanced(by: length) }
                return parameter.bytes == nil ? nil : next
            }
            return isSent
                && PQsendQueryPrepared(
                    connection, name, Int32(values.count), values, lengths.map(Int32.init), values.map { _ in 1 }, 1) == 1
        }
        // Half a statement cannot be taken back.
        guard isSent, PQpipelineSync(connection) == 1 else { throw endOfConnection() }
    }

    private func receive() throws(PostgreSQLFailure) {
        var emptyCount = 0
        while !sent.isEmpty, PQisBusy(connection) == 0 {
            if let result = PQgetResult(connection) {
                emptyCount = 0
                try receive(PostgreSQLResult(result))
            } else {
                // The separator of two results; a connection that has ended returns nothing else.
                emptyCount += 1
                if emptyCount > 8 { throw endOfConnection() }
            }
        }
        while let notification = PQnotifies(connection) {
            PQfreemem(notification)
            owner.onNotification()
        }
    }

    private func receive(_ result: PostgreSQLResult) throws(PostgreSQLFailure) {
        switch PQresultStatus(result.result) {
        case PGRES_PIPELINE_SYNC: finishFirst()
        // The answer to the preparation comes first.
        case PGRES_TUPLES_OK, PGRES_COMMAND_OK: sent[0].answer = .success(result)
        case PGRES_PIPELINE_ABORTED: break
        case PGRES_FATAL_ERROR:
            let failure = PostgreSQLFailure(result)
            guard failure.kind == .server else { throw failure }
            sent[0].answer = .failure(failure)
        default: throw PostgreSQLFailure(.lost(wasSent: true), "the server's answer is of an unexpected kind")
        }
    }

    /// Answers the first statement: only here is its transaction committed.
    private func finishFirst() {
        let first = sent.removeFirst()
        firstSince = .now
        if case .failure(let failure) = first.answer, failure.isStale || failure.sqlstate?.hasPrefix("42") == true {
            // Its next use prepares it again.
            names[first.request.sql] = nil
        }
        first.request.continuation.resume(returning: first.answer)
    }

    private func endOfConnection() -> PostgreSQLFailure {
        PostgreSQLFailure(.lost(wasSent: true), PostgreSQLFailure.line(PQerrorMessage(connection)) ?? "the connection ended")
    }
}

extension PostgreSQLFailure {
    /// True if the server has forgotten a prepared statement or could not prepare it for the one before, or if its plan is out of
    /// date: the statement was not carried out, and its next use prepares it.
    // invalid_sql_statement_name, and feature_not_supported: "cached plan must not change result type".
    var isStale: Bool { kind == .server && ["26000", "0A000"].contains(sqlstate) }
}
#endif
