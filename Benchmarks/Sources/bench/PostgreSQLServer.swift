import CBench
import Glibc
import ReachableJobs

/// The server that `Scripts/postgresql` has started.
struct PostgreSQLServer {
    /// The connection string: all is in the environment.
    let conninfo = "dbname=postgres"
    private let programs: String
    private let files: String

    init() throws {
        guard let programs = getenv("POSTGRESQL_BIN"), let data = getenv("POSTGRESQL_DATA") else {
            throw BenchError("there is no server: start `Benchmarks/run postgresql`, or `Scripts/postgresql` with this command")
        }
        self.programs = String(cString: programs)
        files = String(cString: data) + "/.."
    }

    /// Executes SQL, one transaction each; returns the last row, its columns separated by |.
    func ask(_ statements: String...) throws -> String {
        let psql = ["\(programs)/psql", "-qAtX", "-v", "ON_ERROR_STOP=1"]
        let lines = try output(psql + ["-c", "SET client_min_messages = warning"] + statements.flatMap { ["-c", $0] }).split(
            separator: "\n")
        return lines.last.map(String.init) ?? ""
    }

    /// Deletes all schemas.
    func clear() throws {
        _ = try ask(
            """
            DO $$
            DECLARE name text;
            BEGIN
                FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$' LOOP
                    EXECUTE format('DROP SCHEMA %I CASCADE', name);
                END LOOP;
                CREATE SCHEMA public;
            END $$
            """)
    }

    /// Installs the tables of the store.
    func install() throws { try blocking { [conninfo] in try await PostgreSQLStore(conninfo).install() } }

    /// Adds jobs, each with a hundred bytes, and commits; returns the server's time after it.
    func push(_ count: Int) throws -> Double {
        func each(_ value: String) -> String { "array_fill(\(value), ARRAY[\(count)])" }
        let null = each("NULL::text")
        let push = """
            SELECT count(*) FROM reachable_push_batch(
                ARRAY(SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                    || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid FROM generate_series(1, \(count))),
                \(each("'default'::text")), \(each("'no-op'::text")), \(each("1::bigint")),
                \(each("convert_to(format('{\"payload\":\"%s\",\"scope\":\"internet\"}', repeat('x', 100)), 'UTF8')")),
                \(each("'internet'::text")), \(null), \(each("1::bigint")), \(each("NULL::bigint")), \(each("NULL::bigint")),
                \(null), \(null), \(null), \(each("false")), \(each("true")), \(null), \(null))
            """
        return try number(ask(push, "SELECT extract(epoch FROM clock_timestamp())"))
    }

    /// Executes a script of pgbench with four clients; returns transactions a second.
    func bench(_ script: String, transactions: Int, variables: [String: Int]) throws -> Double {
        let path = "\(files)/script-\(getpid())"
        guard let file = fopen(path, "w") else { throw BenchError("\(path): \(String(cString: strerror(errno)))") }
        fputs(script, file)
        fclose(file)
        let words = [
            "\(programs)/pgbench", "-n", "-M", "prepared", "-c", "4", "-t", "\(transactions)", "-f", path, "postgres",
        ]
        let text = try output(words + variables.flatMap { ["-D", "\($0.key)=\($0.value)"] })
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("tps = ") }) else {
            throw BenchError("pgbench has told nothing: \(text)")
        }
        return try number(line.dropFirst(6).prefix { $0 != " " })
    }

    /// Makes the clients of pgbench workers; returns the number before their first.
    func registerClients() throws -> Int {
        for _ in 0..<4 { _ = try ask("SELECT reachable_register('default', 'node', 'boot', 'machine', 'process', 'host')") }
        let base = Int(try number(ask("SELECT max(number) FROM reachable_workers"))) - 4
        // They know the lane.
        _ = try ask("SELECT count(*) FROM reachable_claim(\(base + 1), 1, 1, 0, '{}', '{}', '{}', 0, 0)")
        return base
    }

    /// A script of pgbench: the statements of a worker that runs a batch of jobs.
    static let workerStatements = """
        \\set worker :client_id + 1 + :base
        \\set call random(1, 1000000000)
        SELECT array_agg(id) AS ids, array_agg(claim) AS claims, count(*) AS n FROM reachable_claim(
            :worker::bigint, :call::bigint, :call::bigint, :batch::bigint, '{1}', '{1000000}', '{0}', 0, 1)
            WHERE id IS NOT NULL \\gset
        SELECT count(*) FROM reachable_start(:worker::bigint, :ids::uuid[], :claims::bigint[]);
        SELECT count(*) FROM reachable_finish(:worker::bigint, :ids::uuid[], :claims::bigint[],
            array_fill('succeeded'::text, ARRAY[:n::int]), '{}', '{}', '{}', '{}', '{}', '{}',
            array_fill(1::bigint, ARRAY[:n::int]), array_fill(0::bigint, ARRAY[:n::int]), array_fill(0::bigint, ARRAY[:n::int]),
            array_fill(0::bigint, ARRAY[:n::int]), '{}', 0, false);
        """

    /// Waits until a query returns true.
    func wait(until query: String, seconds: Int = 300) throws {
        // Seldom: each look takes time from the workers.
        for _ in 0..<seconds * 2 {
            if try ask(query) == "t" { return }
            usleep(500_000)
        }
        throw BenchError("not within \(seconds) s: \(query)")
    }

    func number(_ text: some StringProtocol) throws -> Double {
        guard let number = Double(text) else { throw BenchError("no number: \(text)") }
        return number
    }

    private func output(_ words: [String]) throws -> String {
        let program = try Peer(words, hasOutput: true)
        guard program.wait() == 0 else { throw BenchError("\(words[0]) has failed") }
        return program.readOutput()
    }
}
