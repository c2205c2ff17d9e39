/// The sizes of the tables and the time of a claim after many jobs, with autovacuum as the server has it.
struct PostgreSQLSizes {
    let server: PostgreSQLServer
    /// How many jobs end.
    let finished: Int

    func measure() throws {
        try server.install()
        // The lane is there before the workers ask for it.
        _ = try server.push(1)
        var base = try server.registerClients()
        print(row(["the tables of the store", "jobs", "table MB", "indexes MB", "bytes a job", "jobs/s", "claim of 64, ms"]))
        print("|---|---|---|---|---|---|---|")
        try report("with a thousand ready jobs alone", nil, base)
        var rate = try run(finished, base)
        try report("after \(finished) finished jobs", rate, base)
        let pruned = try server.ask(
            """
            DO $$ BEGIN
                WHILE reachable_prune(0, 0, 10000) > 0 LOOP COMMIT; END LOOP;
            END $$
            """, "VACUUM reachable_jobs", "SELECT count(*) FROM reachable_jobs WHERE state > 1")
        guard pruned == "0" else { throw BenchError("\(pruned) jobs were not pruned") }
        // The leases have ended meanwhile.
        base = try server.registerClients()
        try report("when these are pruned", nil, base)
        rate = try run(max(1, finished / 10), base)
        try report("and after a tenth as many again", rate, base)
        print("")
    }

    /// Pushes and runs jobs, some at a time; returns jobs a second.
    private func run(_ count: Int, _ base: Int) throws -> Double {
        let (batch, step) = (500, 100_000)
        var (left, rates) = (count, [Double]())
        while left > 0 {
            let some = min(step, left)
            for _ in 0..<max(1, some / 10_000) { _ = try server.push(min(10_000, some)) }
            // The lease of 30 s goes on.
            for worker in 1...4 { _ = try server.ask("SELECT count(*) FROM reachable_extend(\(base + worker), 'machine')") }
            let script = PostgreSQLServer.workerStatements
            rates.append(
                try server.bench(script, transactions: some / 4 / batch, variables: ["batch": batch, "base": base]) * Double(batch))
            left -= some
        }
        return median(rates)
    }

    private func report(_ name: String, _ rate: Double?, _ base: Int) throws {
        let jobs = try server.number(server.ask("SELECT count(*) FROM reachable_jobs"))
        let table = try server.number(server.ask("SELECT pg_table_size('reachable_jobs')"))
        let indexes = try server.number(server.ask("SELECT pg_indexes_size('reachable_jobs')"))
        print(
            row([
                name, decimal(jobs, 0), decimal(table / 1e6, 0), decimal(indexes / 1e6, 0),
                jobs > 0 ? decimal((table + indexes) / jobs, 0) : "", rate.map { decimal($0, 0) } ?? "",
                decimal(try timeClaim(base + 1), 1),
            ]))
    }

    /// Returns the median of the times of some claims among a thousand ready jobs, in milliseconds; each is undone.
    private func timeClaim(_ worker: Int) throws -> Double {
        _ = try server.push(1000)
        _ = try server.ask("SELECT count(*) FROM reachable_extend(\(worker), 'machine')")
        let time = try server.ask(
            """
            CREATE FUNCTION pg_temp.time_claim() RETURNS double precision LANGUAGE plpgsql AS $$
            DECLARE
                times double precision[] := '{}';
                start timestamptz;
            BEGIN
                -- The first ones plan the statements.
                FOR round IN -2 .. 9 LOOP
                    BEGIN
                        start := clock_timestamp();
                        PERFORM FROM reachable_claim(\(worker), 1, 1, 64, '{1}', '{1000000}', '{0}', 0, 1);
                        IF round > 0 THEN times := times || extract(epoch FROM clock_timestamp() - start) * 1000; END IF;
                        RAISE EXCEPTION 'undone';
                    EXCEPTION WHEN raise_exception THEN NULL;
                    END;
                END LOOP;
                RETURN (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY time) FROM unnest(times) AS time);
            END $$
            """, "SELECT pg_temp.time_claim()")
        return try server.number(time)
    }
}
