#if PostgreSQL
import Foundation
import Testing

@testable import ReachableJobs

/// Values, places and errors, which need no server.
@Suite(.timeLimit(.minutes(1))) struct PostgreSQLFailureTests {
    @Test(arguments: [
        ("53100", JobStoreError.Code.diskFull, "free some space"), ("25006", .readOnly, "primary"), ("42501", .readOnly, "grant"),
        ("40001", .busy, "try again"), ("40P01", .busy, "try again"), ("55P03", .busy, "try again"),
        ("58030", .inputOutput, "disk"), ("XX001", .corrupt, "backup"), ("XX002", .corrupt, "backup"),
        ("57P01", .unavailable, "wait"), ("57P02", .unavailable, "wait"), ("57P03", .unavailable, "wait"),
        ("53300", .unavailable, "max_connections"), ("08006", .unavailable, "network"), ("28P01", .unavailable, "password file"),
        ("28000", .unavailable, "pg_hba.conf"), ("3D000", .unavailable, "create the database"), ("42P01", .foreign, "install"),
        ("42883", .foreign, "install"), ("22012", .inputOutput, "log"),
    ])
    func codesBecomeStoreErrors(state: String, code: JobStoreError.Code, advice: String) {
        let error = PostgreSQLFailure(.server, "the reason", sqlstate: state).storeError(for: "db.example:5432/jobs")
        #expect(error.code == code && error.advice.contains(advice))
        #expect(error.message.contains("the reason") && error.message.contains("db.example:5432/jobs"))
    }

    @Test func connectionTroubleIsUnavailable() {
        for kind in [PostgreSQLFailure.Kind.connect, .lost(wasSent: true), .lost(wasSent: false), .local] {
            #expect(PostgreSQLFailure(kind, "reason").storeError(for: "address").code == .unavailable)
        }
        let refused = PostgreSQLFailure(.connect, "reason", sqlstate: "28P01").storeError(for: "address")
        #expect(refused.code == .unavailable && refused.advice.contains("password file"))
    }

    @Test(arguments: [
        ("postgres://me:pw@db.example:6432/jobs", "db.example:6432/jobs"), ("host=a,b port=1,2 dbname=c user=d", "a,b:1,2/c"),
        ("host=/run/pg port=5433 dbname=jobs password='a b'", "/run/pg:5433/jobs"), ("service=jobs", "the service jobs"),
        ("hostaddr=127.0.0.1 port=5432 user=u dbname=x", "127.0.0.1:5432/x"), ("nonsense", "an invalid connection string"),
        ("postgres://u:p@q@h/db", "an invalid connection string"), ("postgres://u:p%40q@h:1/db", "h:1/db"),
        ("postgres://h:1/db?user=a@b", "h:1/db"), ("postgresql://[::1]:5433/db", "[::1]:5433/db"),
        ("postgres://u:p@[::1]:5433/db", "[::1]:5433/db"), ("host=a\0b", "an invalid connection string"),
    ])
    func addressesNameServerAndDatabase(conninfo: String, address: String) {
        #expect(PostgreSQLConninfo(conninfo).address == address)
    }
}
#endif
