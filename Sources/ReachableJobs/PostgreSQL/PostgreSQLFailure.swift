#if PostgreSQL
internal import CLibPQ
internal import Glibc
internal import ReachableRetry

/// A failure of a connection or of one of its requests.
///
/// Its text has the server's primary message: no query, no parameter values and no password.
struct PostgreSQLFailure: Error, Hashable, Sendable {
    /// The kind of a failure.
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

    /// The kind.
    var kind: Kind
    /// The statement of what is wrong.
    var message: String
    /// The server's code, also that of a refused connection.
    var sqlstate: String?

    init(_ kind: Kind, _ message: String, sqlstate: String? = nil) {
        (self.kind, self.message, self.sqlstate) = (kind, message, sqlstate)
    }

    /// Creates a failure from an error number.
    init(errno number: Int32, operation: String) {
        self.init(.local, "\(operation) failed: \(String(cString: strerror(number)))")
    }

    /// Returns the failure of a request that the end of the connection leaves without an answer.
    func lost(wasSent: Bool) -> PostgreSQLFailure { PostgreSQLFailure(.lost(wasSent: wasSent), message, sqlstate: sqlstate) }

    /// The failure of a request on a connection that was closed.
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

    /// Returns the first line of libpq's text.
    static func line(_ text: UnsafePointer<CChar>?) -> String? {
        text.flatMap { String(cString: $0).split(separator: "\n").first.map(String.init) }
    }

    /// The fault of a failure to connect.
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
    /// The meaning of codes.
    private struct Meaning {
        /// The beginnings of the codes.
        let states: [String]
        let code: JobStoreError.Code
        /// The statement of what is wrong, which goes on with the server's name; empty if the message says all.
        let statement: String
        let advice: String

        init(_ states: [String], _ code: JobStoreError.Code, _ statement: String = "", next advice: String) {
            (self.states, self.code, self.statement, self.advice) = (states, code, statement, advice)
        }
    }

    private static let meanings = [
        // The store's own codes.
        Meaning(["RE001"], .tooLarge, next: "store it in a file, and push the file's name"),
        Meaning(["RE002"], .full, next: JobStoreError.full(queue: "", limit: 0).advice),
        Meaning(["RE003"], .newerSchema, next: "update this program"),
        Meaning(["RE004"], .foreign, next: "connect again, or install the functions with PostgreSQLStore.install()"),
        Meaning(["RE005"], .foreign, next: "install it with PostgreSQLStore.install(), or run install.sql"),
        Meaning(["RE006"], .unavailable, next: "correct it"),
        Meaning(
            ["28"], .unavailable, "the connection is refused by",
            next: "check the user name, the password file (~/.pgpass, mode 0600) and the server's pg_hba.conf"),
        Meaning(
            ["3D000"], .unavailable, "the connection is refused by",
            next: "create the database, or name another one in the connection string"),
        Meaning(
            ["53300"], .unavailable, "the connection is refused by",
            next: "raise max_connections of the server, or run fewer workers"),
        Meaning(
            ["57P01", "57P02", "57P03"], .unavailable, "the connection is refused by",
            next: "wait until the server has started; the job store connects again by itself"),
        Meaning(
            ["08"], .unavailable, "the connection is refused by",
            next: "check the server's log and the network between this machine and the server"),
        Meaning(
            ["53100"], .diskFull, "no space is left for",
            next: "free some space on the server; nothing that was stored is lost"),
        Meaning(
            ["25006"], .readOnly, "nothing can be written to",
            next: "connect to the primary server (target_session_attrs=read-write), and check default_transaction_read_only"),
        Meaning(
            ["42501"], .readOnly, "the access is denied by",
            next: "grant the role of the connection access to the tables and functions of the job store"),
        Meaning(
            ["40001", "40P01", "55P03"], .busy, "another transaction holds up",
            next: "try again; find the other transaction in pg_stat_activity"),
        Meaning(
            ["XX001", "XX002"], .corrupt, "the database is damaged of",
            next: "stop its workers, keep a copy of the server's data, and restore a backup"),
        Meaning(
            ["42P01", "42883"], .foreign, "there are no tables of jobs in",
            next: "let the program that adds jobs install them, or run install.sql; or check search_path"),
        Meaning(
            ["54"], .inputOutput, "the statement is too large for", next: "push fewer jobs at once; the change was not made"),
        Meaning(
            ["58"], .inputOutput, "reading or writing failed on the machine of",
            next: "check the server's disk and log; the change was not made"),
    ]

    /// The meaning of the kind.
    private var meaning: Meaning {
        switch kind {
        case .server:
            Meaning(
                [], .inputOutput, "a statement was refused with the code \(sqlstate ?? "") by",
                next: "check the server's log; the change was not made")
        case .lost:
            Meaning(
                [], .unavailable, "lost the connection to",
                next: "check the server and the network; the job store connects again by itself")
        case .connect:
            Meaning(
                [], .unavailable, "cannot connect to", next: "check that the server runs and that this machine can reach it")
        case .local:
            Meaning(
                [], .unavailable, "no connection to", next: "check the limits of open files, threads and memory of this process")
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
