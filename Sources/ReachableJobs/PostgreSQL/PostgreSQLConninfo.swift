#if PostgreSQL
internal import CLibPQ
internal import Reachability

/// A connection string: a URL or a list of key=value.
///
/// libpq adds its defaults, the environment, the service and the password file itself.
struct PostgreSQLConninfo: Sendable {
    /// The connection string of each server, which are tried one after the other; none if the string is invalid.
    ///
    /// They have the options of the string, and defaults that neither it nor the environment sets.
    private(set) var servers: [String] = []
    /// "host:port/database" for messages; never a user name or a password.
    private(set) var address = "an invalid connection string"
    /// The scope of the only server; `nil` for a local socket, a service, and several servers.
    private(set) var scope: Scope?

    /// The failure of a string without servers.
    // libpq's message repeats parts of the string, which may be parts of a password.
    static let invalid = PostgreSQLFailure(
        .connect,
        """
        the connection string is invalid (in a URL's user name and password, the characters @ / : ? # % are written as %40 %2F %3A \
        %3F %23 %25)
        """, sqlstate: "RE006")

    init(_ text: String) {
        guard Self.isComplete(text), let given = Self.take(PQconninfoParse(text, nil)) else { return }
        let defaults = Self.take(PQconndefaults()) ?? [:]
        let service = given["service"]
        func value(_ names: String...) -> String? {
            [given, service == nil ? defaults : [:]].flatMap { list in names.compactMap { list[$0] } }.first { !$0.isEmpty }
        }
        var options = ["fallback_application_name": "reachability"]
        // A service may set these, and options would override it. No variable of the environment does.
        if value("service") == nil {
            options["keepalives_idle"] = "5"
            options["keepalives_interval"] = "2"
            options["keepalives_count"] = "3"
            options["tcp_user_timeout"] = "10000"
        }
        options.merge(given) { $1 }
        // Texts are UTF-8, whatever PGCLIENTENCODING says.
        options["client_encoding"] = "UTF8"
        // Each server has its own time limit: libpq would try the servers of a list itself, but without its blocking functions one
        // that does not answer ends the list.
        let lists = ["host", "hostaddr", "port"].compactMap { name in
            value(name).map { (name, $0.split(separator: ",", omittingEmptySubsequences: false)) }
        }
        var count = lists.map(\.1.count).max() ?? 1
        // libpq reports lists of different lengths.
        if !lists.allSatisfy({ [1, count].contains($0.1.count) }) { count = 1 }
        servers = (0..<count).map { index in
            var server = options
            if count > 1 { for (name, list) in lists { server[name] = String(list[list.count == 1 ? 0 : index]) } }
            return server.map { name, value in
                "\(name)='" + value.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
            }.joined(separator: " ")
        }

        if let service {
            address = "the service \(service)"
            return
        }
        let host = value("host", "hostaddr") ?? "the local socket"
        let database = (value("dbname") ?? value("user")).map { "/\($0)" } ?? ""
        address = (host.contains(":") && !host.contains(",") ? "[\(host)]" : host) + ":\(value("port") ?? "5432")\(database)"
        if count == 1, let host = value("hostaddr") ?? value("host"), !["/", "@"].contains(host.prefix(1)), !host.contains(",") {
            scope = IPAddress(host).map(Scope.address) ?? .host(host)
            scope?.port = value("port").flatMap { UInt16($0) }
        }
    }

    /// Returns the time limit in seconds for one server, or `nil` for none.
    ///
    /// libpq enforces it only in its blocking functions. Like there, 0 and negative values mean no limit.
    static func connectTimeout(of connection: OpaquePointer) -> Int? {
        let seconds = (take(PQconninfo(connection))?["connect_timeout"]).flatMap { Int($0) } ?? 10
        return seconds > 0 ? min(seconds, 86_400) : nil
    }

    /// Returns false for a URL whose password is cut by its own characters: the rest would appear as a host in messages.
    private static func isComplete(_ text: String) -> Bool {
        if text.utf8.contains(0) { return false }
        guard ["postgres://", "postgresql://"].contains(where: { text.hasPrefix($0) }) else { return true }
        let url = #/[a-z]+://([^:@/?#]*(:[^:@/?#]*)?@)?[^@/?#]*(/[^@?]*(\?.*)?|\?[^@]*)?/#
        return text.wholeMatch(of: url) != nil
    }

    private static func take(_ list: UnsafeMutablePointer<PQconninfoOption>?) -> [String: String]? {
        guard let list else { return nil }
        defer { PQconninfoFree(list) }
        var options: [String: String] = [:]
        var option = list
        while let name = option.pointee.keyword {
            options[String(cString: name)] = option.pointee.val.map { String(cString: $0) }
            option += 1
        }
        return options
    }
}
#endif
