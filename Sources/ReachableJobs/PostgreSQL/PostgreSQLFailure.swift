#if PostgreSQL
internal import CLibPQ
internal import Glibc

/// A failure of a connection or of one of its requests.
///
/// Its text has the server's primary message: no query, no parameter values and no password.
struct PostgreSQLFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a failure.
    enum Kind: Hashable, Sendable {
        /// The server refused the statement, which changed nothing.
        case server(sqlstate: String)
        /// The connection ended before the answer. A request that was sent may have been carried out.
        case lost(wasSent: Bool)
        /// No connection could be made.
        case connect
        /// The process lacks descriptors, threads or memory.
        case local
        /// PostgreSQL has no representation of a value, or the statement is malformed. Nothing was sent.
        case invalid
    }

    /// The kind.
    var kind: Kind
    /// The statement of what is wrong.
    var message: String
    /// The server's code, also that of a refused connection.
    var sqlstate: String?

    init(_ kind: Kind, _ message: String, sqlstate: String? = nil) {
        (self.kind, self.message, self.sqlstate) = (kind, message, sqlstate)
        if case .server(let state) = kind { self.sqlstate = state }
    }

    /// Creates a failure from an error number.
    init(errno number: Int32, operation: String) {
        self.init(.local, "\(operation) failed: \(Self.text(of: number))")
    }

    var description: String { message }

    /// True if the connection has ended.
    var isEnd: Bool {
        switch kind {
        case .lost, .connect: true
        case .server, .local, .invalid: false
        }
    }

    /// Returns the failure of a request that the end of the connection leaves without an answer.
    func lost(wasSent: Bool) -> PostgreSQLFailure { PostgreSQLFailure(.lost(wasSent: wasSent), message, sqlstate: sqlstate) }

    /// The failure of a request on a connection that was closed.
    static let closed = PostgreSQLFailure(.lost(wasSent: false), "the connection was closed")
    /// The failure of a request on a connection that is not open yet.
    static let notOpen = PostgreSQLFailure(.lost(wasSent: false), "the connection is not open")

    static func text(of number: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let base = buffer.baseAddress else { return "error \(number)" }
            // Glibc's variant returns a static text or the buffer; Swift imports the one of POSIX, which fills the buffer.
            base.initialize(repeating: 0, count: buffer.count)
            return strerror_r(number, base, buffer.count) == 0 ? String(cString: base) : "error \(number)"
        }
    }
}

extension PostgreSQLFailure {
    /// Creates a failure from a result; false in `isFatal` if the connection goes on.
    ///
    /// libpq's own errors have no code: they mean that the connection is unusable.
    init(result: OpaquePointer, isFatal: inout Bool) {
        // PG_DIAG_SEVERITY_NONLOCALIZED, PG_DIAG_SQLSTATE and PG_DIAG_MESSAGE_PRIMARY of postgres_ext.h: Swift imports no character
        // constants.
        func field(_ code: Unicode.Scalar) -> String? {
            PQresultErrorField(result, Int32(code.value)).map { String(cString: $0) }
        }
        let severity = field("V") ?? field("S")
        let state = field("C")
        isFatal = state == nil || severity == "FATAL" || severity == "PANIC"
        let primary = field("M").map { Self.withoutValues($0, state) }
        let message = primary ?? Self.line(PQresultErrorMessage(result)) ?? "the server gave no reason"
        if let state, !isFatal {
            self.init(.server(sqlstate: state), message)
        } else {
            self.init(.lost(wasSent: true), message, sqlstate: state)
        }
    }

    /// Removes quoted values from the message of a data exception (class 22), such as `invalid input syntax for type integer: "a"`.
    static func withoutValues(_ message: String, _ state: String?) -> String {
        guard let state, state.hasPrefix("22") else { return message }
        if let first = message.firstIndex(of: "\""), let last = message.lastIndex(of: "\""), first < last {
            return message[...first] + "\u{2026}" + message[last...]
        }
        // Translated messages have other quotation marks.
        let marks = "\u{ab}\u{bb}\u{201c}\u{201d}\u{201e}\u{2039}\u{203a}"
        let end = message.firstIndex { marks.contains($0) }
        return end.map { String(message[..<$0]) + "\u{2026}" } ?? message
    }

    /// Creates a failure from the message of a connection that could not be made.
    ///
    /// The message is of the verbosity PQERRORS_VERBOSE: only there does libpq show the server's code before a connection exists.
    init(connecting connection: OpaquePointer) {
        var state: String?
        var lines: [Substring] = []
        for line in String(cString: PQerrorMessage(connection)).split(separator: "\n") {
            // "LOCATION:  auth_failed, auth.c:321"
            if line.contains(", "), line.contains(".c:"), line.contains(":  ") { continue }
            // "FATAL:  28P01: password authentication failed"
            let parts = line.split(separator: ":", omittingEmptySubsequences: false)
            if let index = parts.firstIndex(where: { Self.isState($0) }) {
                state = parts[index].filter { $0 != " " }
                lines.append(Substring((parts[..<index] + parts[(index + 1)...]).joined(separator: ":")))
            } else {
                lines.append(line)
            }
        }
        let text = lines.map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }.joined(separator: "; ")
        // libpq reports these as text alone.
        let isShortage = [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains { text.contains(Self.text(of: $0)) }
        self.init(isShortage ? .local : .connect, text.isEmpty ? "the server gave no reason" : text, sqlstate: state)
    }

    /// Returns true for five digits and capitals after two spaces.
    private static func isState(_ part: Substring) -> Bool {
        guard part.hasPrefix("  ") else { return false }
        let code = part.dropFirst(2).utf8
        return code.count == 5 && code.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) }
    }

    /// Returns the first line of libpq's text.
    static func line(_ text: UnsafePointer<CChar>?) -> String? {
        text.flatMap { String(cString: $0).split(separator: "\n").first.map(String.init) }
    }
}
#endif
