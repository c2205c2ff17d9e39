#if PostgreSQL
internal import CLibPQ
internal import Glibc
internal import ReachableRetry

/// A failure of a connection or of one of its requests.
///
/// Its text has the server's primary message: no query, no parameter values and no password.
struct PostgreSQLFailure: Error, Hashable, Sendable {
    enum Kind: Hashable, Sendable {
        /// The server refused the statement, which changed nothing.
        case server
        /// The connection ended before the answer. A request that was sent may have been carried out.
        case lost(wasSent: Bool)
        /// No connection could be made.
        case connect
        /// The process lacks descriptors, threads or memory.
        case local
    }

    var kind: Kind
    var message: String
    /// The server's code, also that of a refused connection.
    var sqlstate: String?

    init(_ kind: Kind, _ message: String, sqlstate: String? = nil) {
        (self.kind, self.message, self.sqlstate) = (kind, message, sqlstate)
    }

    init(errno number: Int32, operation: String) {
        self.init(.local, "\(operation) failed: \(String(cString: strerror(number)))")
    }

    /// Returns the failure of a request that the end of the connection leaves without an answer.
    func lost(wasSent: Bool) -> PostgreSQLFailure { PostgreSQLFailure(.lost(wasSent: wasSent), message, sqlstate: sqlstate) }

    static let closed = PostgreSQLFailure(.lost(wasSent: false), "the connection was closed")
}

extension PostgreSQLFailure {
    /// Creates a failure from a result; one without a code is libpq's own, and ends the connection as fatal ones do.
    init(_ result: PostgreSQLResult) {
        // PG_DIAG_SEVERITY_NONLOCALIZED, PG_DIAG_SQLSTATE and PG_DIAG_MESSAGE_PRIMARY of postgres_ext.h: Swift imports no character
        // constants.
        func field(_ code: Unicode.Scalar) -> String? {
            PQresultErrorField(result.result, Int32(code.value)).map { String(cString: $0) }
        }
        let state = field("C")
        let isFatal = state == nil || ["FATAL", "PANIC"].contains(field("V") ?? field("S"))
        let text = field("M") ?? Self.line(PQresultErrorMessage(result.result)) ?? "the server gave no reason"
        self.init(isFatal ? .lost(wasSent: true) : .server, Self.withoutValues(text, state), sqlstate: state)
    }

    /// Cuts the message of a data exception (class 22), such as `invalid input syntax for type integer: "a"`, at its quoted value.
    static func withoutValues(_ message: String, _ state: String?) -> String {
        // Translated messages have other quotation marks.
        let marks = "\"\u{ab}\u{bb}\u{201c}\u{201d}\u{201e}\u{2039}\u{203a}"
        guard state?.hasPrefix("22") == true, let value = message.firstIndex(where: { marks.contains($0) }) else { return message }
        return message[..<value] + "\u{2026}"
    }

    /// Creates a failure from the message of a connection that could not be made.
    ///
    /// The message is of the verbosity PQERRORS_VERBOSE: only there does libpq show the server's code before a connection exists.
    init(connecting connection: OpaquePointer) {
        // "FATAL:  28P01: password authentication failed", and on a line of its own "LOCATION:  auth_failed, auth.c:321".
        let lines = String(cString: PQerrorMessage(connection)).split(separator: "\n")
            .filter { !$0.contains(#/:  \w+, \w+\.c:\d+$/#) }
        let state = lines.lazy.compactMap { $0.firstMatch(of: #/:  ([0-9A-Z]{5}):/#)?.1 }.first.map(String.init)
        let words = lines.map { $0.replacing(#/:  [0-9A-Z]{5}:/#, with: ":").split(whereSeparator: \.isWhitespace) }
        let message = words.map { $0.joined(separator: " ") }.joined(separator: "; ")
        // libpq reports these as text alone.
        let isShortage = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains { message.contains(String(cString: strerror($0))) }
        self.init(
            isShortage ? .local : .connect, message.isEmpty ? "the server gave no reason" : message, sqlstate: state)
    }

    static func line(_ text: UnsafePointer<CChar>?) -> String? {
        text.flatMap { String(cString: $0).split(separator: "\n").first.map(String.init) }
    }

    var attemptFailure: AttemptFailure {
        if kind == .local { return .local }
        // The store was closed.
        if self == .closed { return .permanent }
        guard let sqlstate else { return .network }
        // A wrong connection string, password, database or set of tables stays wrong.
        return ["28", "3D", "42", "RE"].contains { sqlstate.hasPrefix($0) } ? .permanent : .server
    }
}

extension PostgreSQLFailure {
    /// The meaning of codes that begin with one of these; the statement goes on with the server's name, and is empty if the
    /// message says all.
    private typealias Meaning = (states: [String], code: JobStoreError.Code, statement: String, advice: String)

    private static let meanings: [Meaning] = [
        // The store's own codes.
        (["RE001"], .tooLarge, "", "store it in a file, and push the file's name"),
        (["RE002"], .full, "", JobStoreError.full(queue: "", limit: 0).advice),
        (["RE003"], .newerSchema, "", "update this program"),
        (["RE004"], .foreign, "", "connect again, or install the functions with PostgreSQLStore.install()"),
        (["RE005"], .foreign, "", "install it with PostgreSQLStore.install(), or run install.sql"),
        (["RE006"], .unavailable, "", "correct it"),
        (
            ["28"], .unavailable, "the connection is refused by",
            "check the user name, the password file (~/.pgpass, mode 0600) and the server's pg_hba.conf"
        ),
        (
            ["3D000"], .unavailable, "the connection is refused by",
            "create the database, or name another one in the connection string"
        ),
        (["53300"], .unavailable, "the connection is refused by", "raise max_connections of the server, or run fewer workers"),
        (
            ["57P01", "57P02", "57P03"], .unavailable, "the connection is refused by",
            "wait until the server has started; the job store connects again by itself"
        ),
        (
            ["08"], .unavailable, "the connection is refused by",
            "check the server's log and the network between this machine and the server"
        ),
        (["53100"], .diskFull, "no space is left for", "free some space on the server; nothing that was stored is lost"),
        (
            ["25006"], .readOnly, "nothing can be written to",
            "connect to the primary server (target_session_attrs=read-write), and check default_transaction_read_only"
        ),
        (
            ["42501"], .readOnly, "the access is denied by",
            "grant the role of the connection access to the tables and functions of the job store"
        ),
        (
            ["40001", "40P01", "55P03"], .busy, "another transaction holds up",
            "try again; find the other transaction in pg_stat_activity"
        ),
        (
            ["XX001", "XX002"], .corrupt, "the database is damaged of",
            "stop its workers, keep a copy of the server's data, and restore a backup"
        ),
        (
            ["42P01", "42883"], .foreign, "there are no tables of jobs in",
            "let the program that adds jobs install them, or run install.sql; or check search_path"
        ),
        (["54"], .inputOutput, "the statement is too large for", "push fewer jobs at once; the change was not made"),
        (
            ["58"], .inputOutput, "reading or writing failed on the machine of",
            "check the server's disk and log; the change was not made"
        ),
    ]

    private var meaning: Meaning {
        switch kind {
        case .server:
            let statement = "a statement was refused with the code \(sqlstate ?? "") by"
            return ([], .inputOutput, statement, "check the server's log; the change was not made")
        case .lost:
            let advice = "check the server and the network; the job store connects again by itself"
            return ([], .unavailable, "lost the connection to", advice)
        case .connect:
            return ([], .unavailable, "cannot connect to", "check that the server runs and that this machine can reach it")
        case .local:
            return ([], .unavailable, "no connection to", "check the limits of open files, threads and memory of this process")
        }
    }

    /// Returns the error of a store at `address`, as ``PostgreSQLConninfo/address`` writes it.
    func storeError(for address: String) -> JobStoreError {
        let known = sqlstate.flatMap { state in Self.meanings.first { $0.states.contains { state.hasPrefix($0) } } }
        let meaning = known ?? meaning
        let text = meaning.statement.isEmpty ? message : "\(meaning.statement) PostgreSQL at \(address): \(message)"
        return JobStoreError(meaning.code, text, next: meaning.advice)
    }
}
#endif
