/// The SQL that makes the tables and functions of a store, as its files have it.
package enum PostgreSQLSchema {
    /// The version of the tables; a store refuses later ones.
    package static let version: Int64 = 1

    /// The statements that come first: they make the table of versions, and refuse later ones.
    package static var versions: [String] { split(PackageResources.versions_sql) }

    /// The statements that make the tables of a version from those of the one before.
    package static func tables(_ version: Int64) -> [String] { version == 1 ? split(PackageResources.tables_1_sql) : [] }

    /// The statements that make or renew the functions, in the order of `install.sql`.
    package static var functions: [String] {
        [
            PackageResources.rules_sql, PackageResources.push_sql, PackageResources.workers_sql, PackageResources.claim_sql,
            PackageResources.results_sql, PackageResources.management_sql, PackageResources.rights_sql,
        ].flatMap(split)
    }

    /// The statements that make the roles.
    package static var roles: [String] { split(PackageResources.roles_sql) }

    /// Splits a file into its statements, which end with a line; those within `$$` belong to a body.
    private static func split(_ file: [UInt8]) -> [String] { split(String(decoding: file, as: UTF8.self)) }

    /// Splits the text of a file.
    package static func split(_ text: String) -> [String] {
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
