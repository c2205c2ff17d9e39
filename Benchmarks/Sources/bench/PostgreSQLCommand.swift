import ArgumentParser
import CBench
import Glibc
import ReachableJobs

/// The command `bench postgresql`.
struct PostgreSQLCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "postgresql",
        abstract: "What a durable job costs in PostgreSQL, beside pgbench with the same statements and beside other queues.",
        discussion: "The server is that of `Scripts/postgresql`, which `Benchmarks/run` starts.")

    /// A part of the benchmark.
    enum Part: String, ExpressibleByArgument, CaseIterable {
        case queues, claims, processes, sizes
    }

    @Option(help: "How often all is measured.")
    var rounds = 5

    @Option(help: "How many jobs of a round each queue runs; a tenth of it those that need a transaction for each.")
    var runs = 40_000

    @Option(help: "How many stored jobs there are that may not run.")
    var jobs = 1_000_000

    @Option(help: "How many jobs end before the sizes of tables are measured.")
    var finished = 200_000

    @Option(help: "How many seconds an idle worker is watched for.")
    var idle = 65

    @Option(help: "Only this part; may be repeated.")
    var only: [Part] = []

    func validate() throws {
        guard [rounds, jobs, finished, idle].allSatisfy({ $0 > 0 }), runs >= 4000 else {
            throw ValidationError("all numbers must be positive, and --runs at least 4000")
        }
    }

    func run() throws {
        let server = try PostgreSQLServer()
        print("postgresql: \(Machine.description)")
        print("postgresql: version \(try server.ask("SHOW server_version")); medians of \(rounds) rounds, with quartiles\n")
        let (jobs, rounds) = (jobs, rounds)
        for part in only.isEmpty ? Part.allCases : only {
            try server.clear()
            switch part {
            case .queues: try PostgreSQLQueues(server: server, rounds: rounds, runs: runs).measure()
            case .claims: try blocking { try await Self.claims(server, jobs: jobs, rounds: rounds) }
            case .processes:
                try server.install()
                // A poll each 5 s, and a heartbeat each 10 s.
                try JobsProcesses(
                    store: PostgreSQLStore(server.conninfo), place: server.conninfo, rounds: rounds, idle: idle,
                    wakeUps: idle / 5 + idle / 10 + 2, are: "its polls and heartbeats"
                ).measure()
            case .sizes: try PostgreSQLSizes(server: server, finished: finished).measure()
            }
        }
        print("postgresql: load average \(Machine.load)")
    }

    private static func claims(_ server: PostgreSQLServer, jobs: Int, rounds: Int) async throws {
        try await JobsClaims(
            store: { name in
                _ = try server.ask("CREATE SCHEMA \(name)")
                let store = PostgreSQLStore("options=-csearch_path=\(name)")
                try await store.install()
                return store
            },
            execute: { schema, _, sql in
                // As autovacuum does within a minute.
                _ = try server.ask("SET search_path = \(schema); \(sql)", "VACUUM ANALYZE \(schema).reachable_jobs", "CHECKPOINT")
            },
            jobs: jobs, rounds: rounds
        ).measure()
    }
}
