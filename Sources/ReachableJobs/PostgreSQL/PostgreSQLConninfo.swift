#if PostgreSQL
internal import CLibPQ
internal import Glibc

/// The options of a connection string.
struct PostgreSQLConninfo: Sendable {
    typealias Option = (name: String, value: String)

    /// The options of each server, which are tried one after the other.
    ///
    /// They are those of the string, and defaults that neither it nor the environment sets.
    let servers: [[Option]]

    private static let invalid = PostgreSQLFailure(
        .connect,
        """
        the connection string is invalid (in a URL's user name and password, the characters @ / : ? # % are written as %40 %2F %3A \
        %3F %23 %25)
        """)

    /// Parses a URL or a list of key=value; libpq adds its defaults, the environment, the service and the password file itself.
    init(_ text: String) throws(PostgreSQLFailure) {
        // libpq's message repeats parts of the string, which may be parts of a password.
        guard Self.isComplete(text), var options = Self.take(PQconninfoParse(text, nil)) else { throw Self.invalid }
        let given = Set(options.map(\.name))
        func addDefault(_ name: String, _ value: String) {
            if !given.contains(name) { options.append((name, value)) }
        }
        addDefault("fallback_application_name", "reachability")
        // A service may set these, and options would override it. No variable of the environment does.
        if !given.contains("service"), getenv("PGSERVICE") == nil {
            addDefault("keepalives_idle", "5")
            addDefault("keepalives_interval", "2")
            addDefault("keepalives_count", "3")
            addDefault("tcp_user_timeout", "10000")
        }
        // Texts are UTF-8, whatever PGCLIENTENCODING says.
        options.removeAll { $0.name == "client_encoding" }
        options.append(("client_encoding", "UTF8"))
        servers = Self.split(options)
    }

    /// Begins to connect to a server; `nil` without memory.
    static func start(_ options: [Option]) -> OpaquePointer? {
        let copies: [UnsafeMutablePointer<CChar>?] = options.flatMap { [strdup($0.name), strdup($0.value)] }
        defer { for copy in copies { free(copy) } }
        // Missing memory would end the list early.
        guard !copies.contains(nil) else { return nil }
        let names = stride(from: 0, to: copies.count, by: 2).map { UnsafePointer(copies[$0]) } + [nil]
        let values = stride(from: 1, to: copies.count, by: 2).map { UnsafePointer(copies[$0]) } + [nil]
        return PQconnectStartParams(names, values, 0)
    }

    /// Returns the time limit in seconds for one server, or `nil` for none.
    ///
    /// libpq enforces it only in its blocking functions. Like there, 0 and negative values mean no limit.
    static func connectTimeout(of connection: OpaquePointer) -> Int64? {
        let options = take(PQconninfo(connection)) ?? []
        guard let seconds = options.first(where: { $0.name == "connect_timeout" }).flatMap({ Int64($0.value) }) else { return 10 }
        return seconds > 0 ? min(seconds, 86_400) : nil
    }

    /// Returns "host:port/database" for messages; never a user name or a password.
    static func address(of text: String) -> String {
        guard isComplete(text), let given = take(PQconninfoParse(text, nil)) else { return "an invalid connection string" }
        let defaults = take(PQconndefaults()) ?? []
        func value(_ names: String...) -> String? {
            for list in [given, defaults] {
                for name in names {
                    if let value = list.first(where: { $0.name == name })?.value, !value.isEmpty { return value }
                }
            }
            return nil
        }
        if let service = given.first(where: { $0.name == "service" })?.value { return "the service \(service)" }
        var host = value("host", "hostaddr") ?? "the local socket"
        if host.contains(":"), !host.contains(",") { host = "[\(host)]" }
        let port = value("port") ?? "5432"
        let database = value("dbname") ?? value("user")
        return "\(host):\(port)" + (database.map { "/\($0)" } ?? "")
    }

    /// Returns false for a URL whose password is cut by its own characters: the rest would appear as a host in messages.
    private static func isComplete(_ text: String) -> Bool {
        guard !text.utf8.contains(0) else { return false }
        guard text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") else { return true }
        let rest = text.drop { $0 != "/" }.dropFirst(2)
        guard let at = rest.lastIndex(of: "@"), at < rest.firstIndex(of: "?") ?? rest.endIndex else {
            // "?" may be part of a password as well.
            return !rest.contains("@") || rest.firstIndex(of: "/") ?? rest.endIndex < rest.firstIndex(of: "?") ?? rest.endIndex
        }
        return !rest[..<at].contains { "@/#".contains($0) } && rest[..<at].count { $0 == ":" } <= 1
    }

    /// Splits lists of servers, so that each has its own time limit.
    ///
    /// libpq would try the servers of a list itself, but without its blocking functions one that does not answer ends the list.
    private static func split(_ options: [Option]) -> [[Option]] {
        func list(_ name: String, _ variable: String) -> [Substring] {
            let text = options.first { $0.name == name }?.value ?? getenv(variable).map { String(cString: $0) } ?? ""
            return text.isEmpty ? [] : text.split(separator: ",", omittingEmptySubsequences: false)
        }
        let lists = [
            ("host", list("host", "PGHOST")), ("hostaddr", list("hostaddr", "PGHOSTADDR")), ("port", list("port", "PGPORT")),
        ].filter { !$0.1.isEmpty }
        let count = lists.filter { $0.0 != "port" }.map(\.1.count).max() ?? 1
        // libpq reports lists of different lengths, and this attribute compares the servers.
        let isComparing = options.contains { $0.name == "target_session_attrs" && $0.value == "prefer-standby" }
        guard count > 1, !isComparing, lists.allSatisfy({ $0.1.count == count || $0.0 == "port" && $0.1.count == 1 }) else {
            return [options]
        }
        let others = options.filter { option in !lists.contains { $0.0 == option.name } }
        return (0..<count).map { index in
            others + lists.map { (name: $0.0, value: String($0.1[$0.1.count == 1 ? 0 : index])) }
        }
    }

    /// Returns the options that have a value, and frees them.
    private static func take(_ list: UnsafeMutablePointer<PQconninfoOption>?) -> [Option]? {
        guard let list else { return nil }
        defer { PQconninfoFree(list) }
        var options: [Option] = []
        var option = list
        while let name = option.pointee.keyword {
            if let value = option.pointee.val { options.append((String(cString: name), String(cString: value))) }
            option += 1
        }
        return options
    }
}
#endif
