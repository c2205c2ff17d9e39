/// The SQL that makes the tables and functions of a store, as its files have it.
package enum PostgreSQLSchema {
    /// The version of the tables; a store refuses later ones.
    package static let version: Int64 = 1

    /// The statements of the installation, in order: those of `install.sql`.
    package static var statements: [String] {
        [
            PackageResources.tables_sql, PackageResources.rules_sql, PackageResources.push_sql, PackageResources.workers_sql,
            PackageResources.claim_sql, PackageResources.results_sql, PackageResources.management_sql, PackageResources.version_sql,
        ].flatMap { split(String(decoding: $0, as: UTF8.self)) }
    }

    /// The statements that make the roles.
    package static var roles: [String] { split(String(decoding: PackageResources.roles_sql, as: UTF8.self)) }

    /// Splits a file into its statements, which end with a line; those within `$$` belong to a body.
    static func split(_ text: String) -> [String] {
        var (statements, statement, isBody): ([String], String, Bool) = ([], "", false)
        for line in text.split(separator: "\n") {
            if line.hasPrefix("--"), !isBody { continue }
            statement += line + "\n"
            if line.split(separator: "$$", omittingEmptySubsequences: false).count.isMultiple(of: 2) { isBody.toggle() }
            guard !isBody, line.hasSuffix(";") else { continue }
            statements.append(statement)
            statement = ""
        }
        return statements
    }
}
