import Glibc

/// Whole queues beside each other and beside pgbench.
///
/// Jobs that do nothing are pushed in one transaction to four idle workers, each a process of its own. The time counts until the
/// last result is committed.
struct PostgreSQLQueues {
    let server: PostgreSQLServer
    let rounds: Int
    /// The number of jobs in a round.
    let runs: Int

    private static let workers = 4
    /// The jobs of a statement of pgbench.
    private static let batch = 100

    private enum Contender: String, CaseIterable {
        case ours = "this library"
        case floor = "pgbench, the same statements, a hundred jobs each"
        case bare = "pgbench, two updates of a table with one index, a hundred jobs each"
        case procrastinate
        case procrastinateTen = "procrastinate-10"
        case pgqueuer

        /// The least ratio of our completions to its.
        var goal: Double? {
            switch self {
            case .floor: 0.6
            case .procrastinate, .procrastinateTen: 10
            case .pgqueuer: 1
            case .ours, .bare: nil
            }
        }

        /// True if a transaction handles a single job.
        var isSlow: Bool { self == .procrastinate || self == .procrastinateTen }
    }

    func measure() throws {
        var contenders = Contender.allCases
        if Programs.postgreSQLPeer == nil {
            contenders = [.ours, .floor, .bare]
            print(Programs.postgreSQLPeersAreMissing + "\n")
        }
        var results: [Contender: [Double]] = [:]
        var names: [Contender: String] = [:]
        for round in 0..<rounds {
            // Each begins in turn.
            for index in contenders.indices {
                let contender = contenders[(index + round) % contenders.count]
                let (name, rate) = try measure(contender)
                names[contender] = name
                results[contender, default: []].append(rate)
            }
        }
        print(row(["queue, four workers", "completions/s", "we complete × its", "goal", ""]))
        print("|---|---|---|---|---|")
        let ours = results[.ours] ?? []
        for contender in contenders {
            let theirs = results[contender] ?? []
            let ratios = zip(ours, theirs).map { $0 / $1 }
            print(
                row([
                    names[contender] ?? contender.rawValue, decimal(median(theirs), 0), contender == .ours ? "" : summary(ratios),
                    contender.goal.map { "≥ \(decimal($0, $0 < 1 ? 1 : 0)) × its" } ?? "",
                    contender.goal.map { median(ratios) >= $0 ? "holds" : "MISSED" } ?? "",
                ]))
        }
        print("")
    }

    /// Returns a name with a version, and jobs a second.
    private func measure(_ contender: Contender) throws -> (String, Double) {
        try server.clear()
        switch contender {
        case .ours: return (contender.rawValue, try measureOurs())
        case .floor: return (contender.rawValue, try measureFloor())
        case .bare: return (contender.rawValue, try measureBare())
        case .procrastinate, .procrastinateTen, .pgqueuer: return try measurePeer(contender)
        }
    }

    private func measureOurs() throws -> Double {
        try server.install()
        let workers = try (0..<Self.workers).map { _ in try Peer([Programs.built("bench"), "jobs-worker", server.conninfo]) }
        try server.wait(until: "SELECT count(*) = \(Self.workers) FROM reachable_workers")
        usleep(1_000_000)
        let start = try server.push(runs)
        try server.wait(until: "SELECT count(*) = \(runs) FROM reachable_jobs WHERE state = 3")
        let end = try server.number(server.ask("SELECT max(finished) / 1e9 FROM reachable_jobs"))
        return withExtendedLifetime(workers) { Double(runs) / (end - start) }
    }

    private func measureFloor() throws -> Double {
        try server.install()
        // So that none comes away with less than a hundred.
        _ = try server.push(runs + runs / 4)
        return try measure(PostgreSQLServer.workerStatements, ["base": server.registerClients()])
    }

    private func measureBare() throws -> Double {
        _ = try server.ask(
            "CREATE TABLE bare (id bigint PRIMARY KEY, state smallint NOT NULL DEFAULT 0, payload bytea)",
            "CREATE INDEX ON bare (id) WHERE state = 0",
            """
            INSERT INTO bare SELECT number, 0, convert_to(repeat('x', 100), 'UTF8')
            FROM generate_series(1, \(runs + runs / 4)) AS number
            """)
        return try measure(
            """
            WITH claimed AS (
                UPDATE bare SET state = 1 WHERE id IN (
                    SELECT id FROM bare WHERE state = 0 ORDER BY id LIMIT :batch::bigint FOR UPDATE SKIP LOCKED)
                RETURNING id)
            SELECT array_agg(id) AS ids FROM claimed \\gset
            UPDATE bare SET state = 2 WHERE id = ANY(:ids::bigint[]);
            """)
    }

    private func measure(_ script: String, _ variables: [String: Int] = [:]) throws -> Double {
        _ = try server.ask("VACUUM ANALYZE")
        let transactions = runs / Self.workers / Self.batch
        let rate = try server.bench(script, transactions: transactions, variables: variables.merging(["batch": Self.batch]) { $1 })
        return rate * Double(Self.batch)
    }

    private func measurePeer(_ contender: Contender) throws -> (String, Double) {
        guard let program = Programs.postgreSQLPeer else { throw BenchError(Programs.postgreSQLPeersAreMissing) }
        func peer(_ words: String...) throws -> Peer { try Peer(program + [contender.rawValue] + words, hasOutput: true) }
        func told(_ peer: Peer) throws -> String {
            guard peer.wait() == 0 else { throw BenchError("\(contender.rawValue) has failed") }
            return String(peer.readOutput().dropLast())
        }
        let name = try told(peer("install")) + (contender == .procrastinateTen ? ", ten at a time" : "")
        let workers = try (0..<Self.workers).map { _ in try peer("work") }
        let listeners = "query ~ '^LISTEN' OR application_name = 'work'"
        try server.wait(until: "SELECT count(*) >= \(Self.workers) FROM pg_stat_activity WHERE \(listeners)")
        usleep(2_000_000)
        let count = contender.isSlow ? runs / 10 : runs
        let start = try server.number(told(peer("push", "\(count)")))
        let (done, end) =
            contender == .pgqueuer
            ? ("pgqueuer_log WHERE status = 'successful'", "created") : ("procrastinate_events WHERE type = 'succeeded'", "at")
        try server.wait(until: "SELECT count(*) = \(count) FROM \(done)")
        let last = try server.number(server.ask("SELECT extract(epoch FROM max(\(end))) FROM \(done)"))
        return withExtendedLifetime(workers) { (name, Double(count) / (last - start)) }
    }
}
