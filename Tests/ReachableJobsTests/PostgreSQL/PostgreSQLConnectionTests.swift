#if PostgreSQL
import Foundation
import Glibc
import ReachabilityTesting
import Testing

@testable import ReachableJobs

/// Requests on a real server, which Scripts/postgresql starts.
// One at a time: the test for leaks counts what the process has.
@Suite(.timeLimit(.minutes(2)), .serialized, .enabled(if: hasPostgreSQL, "run them with Scripts/postgresql"))
struct PostgreSQLConnectionTests {
    private let bench: PostgreSQLBench

    init() async throws { bench = try await PostgreSQLBench() }

    @Test func valuesComeBackAsTheyWere() async throws {
        let large = Data((0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let ids = ["00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"].compactMap { DurableJobID($0) }
        func query(_ row: String, _ parameters: [PostgreSQLParameter]) async throws -> PostgreSQLResult {
            let list = parameters.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
            return try await bench.query("SELECT \(list), '\(row)'", parameters)
        }
        let single = try await query(
            "single", [.value(Int64.min), .value("h\u{e9}llo \u{1F600}"), .value(large), .value(true), .value(Data()), .value("")])
        #expect(single.value(0, 0) == Int64.min && single.text(0, 1) == "h\u{e9}llo \u{1F600}" && single.value(0, 2) == large)
        #expect(single.value(0, 3) == true && single.value(0, 4) == Data() && single.text(0, 5) == "")
        let arrays = try await bench.query(
            "SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text",
            [
                .array([1, nil, Int64.max]), .array(["", nil, "a\"b"]), .array([true, false, nil]),
                .array([Data(), Data([0, 255])]), .array(ids), .value(ids[0]),
            ])
        let texts = (0..<6).map { arrays.text(0, $0) }
        #expect(texts[..<3] == ["{1,NULL,9223372036854775807}", #"{"",NULL,"a\"b"}"#, "{t,f,NULL}"])
        #expect(texts[3] == #"{"\\x","\\x00ff"}"#)
        #expect(texts[4] == "{00112233-4455-6677-8899-aabbccddeeff,ffeeddcc-bbaa-9988-7766-554433221100}")
        #expect(texts[5] == "00112233-4455-6677-8899-aabbccddeeff")
        let nulls = try await query(
            "nulls", [.value(Int?.none), .value(String?.none), .value(Data?.none), .value(Bool?.none), .array([Int]?.none)])
        for column in 0..<5 { #expect(nulls.value(0, column) == Data?.none) }
        let empty = try await bench.query(
            "SELECT $1::text, $2::text, $3::text", [.array([Int]()), .array([String]()), .array([DurableJobID]())])
        #expect((0..<3).map { empty.text(0, $0) } == ["{}", "{}", "{}"])
    }

    @Test func otherTypesAndPlacesAreNil() async throws {
        let result = try await bench.query("SELECT 1::int2, -2::int4, 'abc'::text, '\\xff'::bytea")
        #expect(result.int(0, 0) == 1 && result.int(0, 1) == -2)
        #expect(result.int(0, 2) == nil && result.value(0, 2) == Bool?.none && result.text(0, 3) == nil)
        #expect(result.value(0, 1) == DurableJobID?.none && result.value(0, 2) == DurableJobID?.none)
        for (row, column) in [(-1, 0), (1, 0), (0, -1), (0, 4), (.max, .max)] { #expect(result.value(row, column) == Data?.none) }
    }

    @Test func textMayIncludeNUL() async throws {
        let (text, texts) = ("a\0b\u{1}0", ["\0", "\u{1}"])
        let result = try await bench.query("SELECT $1, ($2)[1], ($2)[2]", [.value(text), .array(texts)])
        #expect(result.text(0, 0) == text && [result.text(0, 1), result.text(0, 2)] == texts)
    }

    @Test func tooLargeParametersAreRefused() async throws {
        let half = PostgreSQLParameter(oid: 17, bytes: [UInt8](repeating: 0, count: 257 << 20))
        let failure = await postgreSQLFailure { try await bench.query("SELECT $1, $2", [half, half]) }
        #expect(failure?.storeError(for: "").advice.contains("fewer jobs") == true)
    }

    @Test func eachTaskReceivesItsAnswers() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<50 {
                group.addTask {
                    for index in 0..<20 {
                        let text = "\(task)/\(index)"
                        let result = try await bench.query("SELECT $1, $2", [.value(text), .value(index)])
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
                    let answer = try await bench.query("SELECT $1", [.value(bytes)])
                    #expect(answer.value() == bytes)
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
                    let failure = await postgreSQLFailure { try await bench.query(sql, [.value(index % 3 == 0 ? 0 : 4)]) }
                    // Those that waited for the failed preparation of another one have no statement.
                    let expected = index % 5 == 1 ? ["42601", "26000"] : index % 3 == 0 ? ["22012"] : [nil]
                    #expect(expected.contains(failure?.sqlstate) && (failure?.kind ?? .server) == .server)
                }
            }
        }
        #expect(bench.ends.value == 0)
    }

    @Test func valuesStayOutOfMessages() async throws {
        let casts = [
            "SELECT $1::text::int", "SELECT $1::text::jsonb", "SELECT $1::text::bool", "SELECT set_config('work_mem', $1, false)",
        ]
        for sql in casts {
            let failure = await postgreSQLFailure { try await bench.query(sql, [.value("a \"private\" value")]) }
            #expect(failure != nil && failure?.message.contains("private") == false)
        }
        #expect(PostgreSQLFailure.withoutValues("ung\u{fc}ltig: \u{bb}private\u{ab}", "22P02") == "ung\u{fc}ltig: \u{2026}")
    }

    @Test func aFailedCommitIsAFailure() async throws {
        try await bench.query("CREATE TEMPORARY TABLE late (n int8 UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        async let failing = postgreSQLFailure { try await bench.query("INSERT INTO late VALUES ($1), ($1)", [.value(1)]) }
        async let good = bench.query("INSERT INTO late VALUES ($1)", [.value(2)])
        #expect(await failing?.sqlstate == "23505")
        _ = try await good
        #expect(try await bench.query("SELECT n FROM late").rowCount == 1)
    }

    @Test func staleStatementsArePreparedAgain() async throws {
        try await bench.query("CREATE TEMPORARY TABLE plan (a int8 DEFAULT 1)")
        try await bench.query("INSERT INTO plan DEFAULT VALUES")
        #expect(try await bench.query("SELECT * FROM plan").int(0, 1) == nil)
        for change in ["ALTER TABLE plan ADD b int8 DEFAULT 2", "DEALLOCATE ALL"] {
            try await bench.query(change)
            let failure = await postgreSQLFailure { try await bench.query("SELECT * FROM plan") }
            #expect(failure?.isStale == true)
            #expect(try await bench.query("SELECT * FROM plan").int(0, 1) == 2)
        }
    }

    @Test func theSessionHasItsSettings() async throws {
        #expect(try await bench.query("SHOW application_name").text(0, 0) == "reachability")
        #expect(try await bench.query("SHOW client_encoding").text(0, 0) == "UTF8")
    }

    @Test func notificationsArriveWhileIdle() async throws {
        let sender = try await PostgreSQLBench()
        try await bench.query("LISTEN channel")
        for payload in ["1", "two"] { try await sender.query("SELECT pg_notify('channel', $1)", [.value(payload)]) }
        try await bench.notifications.wait { $0 == 2 }
    }
}
#endif
