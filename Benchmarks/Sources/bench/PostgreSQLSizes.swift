/// The sizes of the tables after many jobs, with autovacuum as the server has it.
struct PostgreSQLSizes {
    let server: PostgreSQLServer
    /// How many jobs end.
    let finished: Int

    func measure() throws {
        try server.install()
        // The lane is there before the workers ask for it.
        _ = try server.push(1)
        try server.registerClients()
        print(row(["the tables of the store", "jobs", "table MB", "indexes MB", "bytes a job", "jobs/s"]))
        print("|---|---|---|---|---|---|")
        var rate = try run(finished)
        try report("after \(finished) finished jobs", rate)
        let pruned = try server.ask(
            """
            DO $$ BEGIN
                WHILE reachable_prune(0, 0, 10000) > 0 LOOP COMMIT; END LOOP;
            END $$
            """, "VACUUM reachable_jobs", "SELECT count(*) FROM reachable_jobs WHERE state > 1")
        guard pruned == "0" else { throw BenchError("\(pruned) jobs were not pruned") }
        try report("when these are pruned", nil)
        rate = try run(max(1, finished / 10))
        try report("and after a tenth as many again", rate)
        print("")
    }

    /// Pushes and runs jobs, some at a time; returns jobs a second.
    private func run(_ count: Int) throws -> Double {
        let (batch, step) = (500, 100_000)
        var (left, rates) = (count, [Double]())
        while left > 0 {
            let some = min(step, left)
            for _ in 0..<max(1, some / 10_000) { _ = try server.push(min(10_000, some)) }
            // The lease of 30 s goes on.
            for worker in 1...4 { _ = try server.ask("SELECT count(*) FROM reachable_extend(\(worker))") }
            let script = PostgreSQLServer.workerStatements
            rates.append(
                try server.bench(script, transactions: some / 4 / batch, variables: ["batch": batch]) * Double(batch))
            left -= some
        }
        return median(rates)
    }

    private func report(_ name: String, _ rate: Double?) throws {
        let jobs = try server.number(server.ask("SELECT count(*) FROM reachable_jobs"))
        let table = try server.number(server.ask("SELECT pg_table_size('reachable_jobs')"))
        let indexes = try server.number(server.ask("SELECT pg_indexes_size('reachable_jobs')"))
        print(
            row([
                name, decimal(jobs, 0), decimal(table / 1e6, 0), decimal(indexes / 1e6, 0),
                jobs > 0 ? decimal((table + indexes) / jobs, 0) : "", rate.map { decimal($0, 0) } ?? "",
            ]))
    }
}
