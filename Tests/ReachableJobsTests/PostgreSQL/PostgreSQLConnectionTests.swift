#if PostgreSQL
import Foundation
import Glibc
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// Requests on a real server, which Scripts/postgresql starts.
@Suite(.timeLimit(.minutes(2)), .enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"))
struct PostgreSQLConnectionTests {
    private let bench: PostgreSQLBench

    init() async throws { bench = try await PostgreSQLBench.opened() }

    @Test func valuesComeBackAsTheyWere() async throws {
        let large = Data((0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let sql = "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10"
        let full = try await bench.connection.query(
            sql,
            [
                .int(.min), .text("h\u{e9}llo \u{1F600}"), .bytes(large), .bool(true), .ints([1, nil, .max]),
                .texts(["", nil, "a\"b"]), .bools([true, false, nil]), .bytesArray([Data(), Data([0, 255])]), .bytes(Data()),
                .text(""),
            ])
        #expect(full.rowCount == 1 && full.columnCount == 10)
        #expect(full.int(0, 0) == .min)
        #expect(full.text(0, 1) == "h\u{e9}llo \u{1F600}")
        #expect(full.bytes(0, 2) == large)
        #expect(full.bool(0, 3) == true)
        #expect(full.ints(0, 4) == [1, nil, .max])
        #expect(full.texts(0, 5) == ["", nil, "a\"b"])
        #expect(full.bools(0, 6) == [true, false, nil])
        #expect(full.bytesArray(0, 7) == [Data(), Data([0, 255])])
        #expect(full.bytes(0, 8) == Data())
        #expect(full.text(0, 9) == "")
        let empty = try await bench.connection.query(
            sql,
            [
                .int(nil), .text(nil), .bytes(nil), .bool(nil), .ints([]), .texts([]), .bools([]), .bytesArray([]), .bytes(nil),
                .text(nil),
            ])
        for column in [0, 1, 2, 3, 8, 9] { #expect(empty.isNull(0, column)) }
        #expect(empty.ints(0, 4) == [] && empty.texts(0, 5) == [] && empty.bools(0, 6) == [] && empty.bytesArray(0, 7) == [])
    }

    @Test func identitiesAreUUIDs() async throws {
        let ids = ["00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"].compactMap { DurableJobID($0) }
        let result = try await bench.connection.query("SELECT id, id::text FROM unnest($1) AS id", [.ids(ids)])
        #expect((0..<result.rowCount).map { result.id($0, 0) } == ids)
        #expect(result.text(0, 1) == "00112233-4455-6677-8899-aabbccddeeff")
        #expect(try await bench.connection.query("SELECT $1", [.text("\(ids[0])")]).id(0, 0) == ids[0])
        #expect(try await bench.connection.query("SELECT cardinality($1)", [.ids([])]).int(0, 0) == 0)
    }

    @Test func otherTypesAndPlacesAreNil() async throws {
        let result = try await bench.connection.query(
            "SELECT 1::int2, 2::int4, 'abc'::text, '\\xff'::bytea, ARRAY[[1,2],[3,4]], ARRAY['x'], 'some text'::text")
        #expect(result.int(0, 0) == 1 && result.int(0, 1) == 2)
        #expect(result.int(0, 2) == nil && result.bool(0, 2) == nil && result.text(0, 3) == nil)
        #expect(result.ints(0, 4) == nil && result.ints(0, 5) == nil && result.texts(0, 6) == nil)
        #expect(result.id(0, 1) == nil && result.id(0, 2) == nil)
        for (row, column) in [(-1, 0), (1, 0), (0, -1), (0, 7), (.max, .max)] { #expect(result.isNull(row, column)) }
        let affected = try await bench.connection.query("SELECT generate_series(1, 3)")
        #expect(affected.affectedRowCount == 3 && affected.rowCount == 3)
        #expect(try await bench.connection.query("").rowCount == 0)
    }

    @Test func textWithNULIsRefused() async throws {
        for value in [PostgreSQLValue.text("a\0b"), .texts(["a", "\0"])] {
            let failure = await postgreSQLFailure { try await bench.connection.query("SELECT $1", [value]) }
            #expect(failure?.kind == .invalid)
        }
        #expect(await postgreSQLFailure { try await bench.connection.query("SELECT\0") } != nil)
        #expect(await postgreSQLFailure { try await bench.connection.listen("a\0b") } != nil)
    }

    @Test func eachTaskReceivesItsAnswers() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<50 {
                group.addTask {
                    for index in 0..<20 {
                        let text = "\(task)/\(index)"
                        let result = try await bench.connection.query("SELECT $1, $2", [.text(text), .int(Int64(index))])
                        #expect(result.text(0, 0) == text && result.int(0, 1) == Int64(index))
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func largeRequestsDoNotBlockLargeAnswers() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<24 {
                group.addTask {
                    // More than the buffers of a socket hold; no two are of the same size.
                    let bytes = Data(repeating: UInt8(task), count: (2 << 20) + task)
                    let answer = try await bench.connection.query("SELECT $1", [.bytes(bytes)])
                    #expect(answer.bytes(0, 0) == bytes)
                }
            }
            try await group.waitForAll()
        }
    }

    @Test func oneFailureLeavesItsNeighboursAlone() async throws {
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<300 {
                group.addTask {
                    let sql = index % 5 == 1 ? "SELEC nonsense" : "SELECT 12 / $1"
                    let failure = await postgreSQLFailure { try await bench.connection.query(sql, [.int(index % 3 == 0 ? 0 : 4)]) }
                    // A syntax error is reported to each request that waited for the same preparation.
                    let expected: String? = index % 5 == 1 ? "42601" : index % 3 == 0 ? "22012" : nil
                    #expect(failure?.sqlstate == expected)
                    #expect(failure?.kind == expected.map { .server(sqlstate: $0) })
                }
            }
        }
        #expect(bench.ends.value.isEmpty)
    }

    @Test func valuesStayOutOfMessages() async throws {
        let casts = [
            "SELECT $1::text::int", "SELECT $1::text::jsonb", "SELECT $1::text::bool", "SELECT set_config('work_mem', $1, false)",
        ]
        for sql in casts {
            let failure = await postgreSQLFailure { try await bench.connection.query(sql, [.text("a \"private\" value")]) }
            #expect(failure != nil && failure?.message.contains("private") == false)
        }
        #expect(PostgreSQLFailure.withoutValues("ung\u{fc}ltig: \u{bb}private\u{ab}", "22P02") == "ung\u{fc}ltig: \u{2026}")
    }

    @Test func aFailedCommitIsAFailure() async throws {
        _ = try await bench.connection.query("CREATE TEMPORARY TABLE late (n int8 UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        async let failing = postgreSQLFailure {
            try await bench.connection.query("INSERT INTO late VALUES ($1), ($1)", [.int(1)])
        }
        async let good = bench.connection.query("INSERT INTO late VALUES ($1)", [.int(2)])
        #expect(await failing?.kind == .server(sqlstate: "23505"))
        #expect(try await good.affectedRowCount == 1)
        #expect(try await bench.connection.query("SELECT n FROM late").rowCount == 1)
    }

    @Test func staleStatementsArePreparedAgain() async throws {
        _ = try await bench.connection.query("CREATE TEMPORARY TABLE plan (a int8)")
        #expect(try await bench.connection.query("SELECT * FROM plan").columnCount == 1)
        _ = try await bench.connection.query("ALTER TABLE plan ADD b int8")
        #expect(try await bench.connection.query("SELECT * FROM plan").columnCount == 2)
        _ = try await bench.connection.query("DEALLOCATE ALL")
        #expect(try await bench.connection.query("SELECT * FROM plan").columnCount == 2)
    }

    @Test func settingsApplyToTheSession() async throws {
        let set = PostgreSQLBench(settings: [("statement_timeout", "1234ms"), ("reachability.test", "it's")])
        try await set.connection.open()
        let result = try await set.connection.query(
            """
            SELECT current_setting('statement_timeout'), current_setting('reachability.test'), current_setting('application_name')
            """)
        #expect(result.text(0, 0) == "1234ms" && result.text(0, 1) == "it's" && result.text(0, 2) == "reachability")
        let wrong = PostgreSQLBench(settings: [("statement_timeout", "nonsense")])
        let failure = await postgreSQLFailure { try await wrong.connection.open() }
        #expect(failure?.kind == .server(sqlstate: "22023"))
        #expect(failure?.message == "the setting statement_timeout was refused: invalid value for parameter \"\u{2026}\"")
        #expect(wrong.ends.value.isEmpty)
    }

    @Test func notificationsArriveWhileIdle() async throws {
        let sender = try await PostgreSQLBench.opened()
        let channel = #"A "channel"; of its own"#
        try await bench.connection.listen(channel)
        for payload in ["1", "two"] {
            _ = try await sender.connection.query("SELECT pg_notify($1, $2)", [.text(channel), .text(payload)])
        }
        try await bench.notifications.wait { $0.count == 2 }
        #expect(bench.notifications.value == ["\(channel)=1", "\(channel)=two"])
    }
}
#endif
