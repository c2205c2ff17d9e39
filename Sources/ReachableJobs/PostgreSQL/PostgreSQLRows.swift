#if PostgreSQL
internal import CLibPQ
internal import FoundationEssentials
internal import ReachableRetry

/// The rows that answer a statement.
// Sendable: nothing changes a PGresult after it was handed over, and libpq lets threads share such results ("Behavior in Threaded
// Programs"). Only the last reference releases it.
final class PostgreSQLResult: @unchecked Sendable {
    let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    var rows: [PostgreSQLRow] { rows(from: 0) }

    func rows(from column: Int) -> [PostgreSQLRow] {
        (0..<Int(PQntuples(result))).map { PostgreSQLRow(result: self, row: $0, column: column) }
    }

    /// Returns a value; `nil` for NULL, for a value of another type, and for a row or column that does not exist.
    func value<Value: PostgreSQLValue>(_ row: Int = 0, _ column: Int = 0) -> Value? {
        // libpq prints a warning for numbers outside of the result.
        guard (0..<Int(PQntuples(result))).contains(row), (0..<Int(PQnfields(result))).contains(column) else { return nil }
        let (row, column) = (Int32(row), Int32(column))
        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else { return nil }
        return Value(postgreSQL: UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column))))
    }
}

struct PostgreSQLRow {
    let result: PostgreSQLResult
    let row: Int
    var column: Int
    /// False if a value was missing that is never null.
    private(set) var isWhole = true

    init(result: PostgreSQLResult, row: Int, column: Int) { (self.result, self.row, self.column) = (result, row, column) }

    mutating func next<Value: PostgreSQLValue>() -> Value? {
        defer { column += 1 }
        return result.value(row, column)
    }

    /// Returns a list that the server wrote as JSON; an empty one for NULL.
    mutating func json<Value: Decodable & ExpressibleByArrayLiteral>() -> Value {
        guard let text: String = next() else { return [] }
        let value = try? JSONDecoder().decode(Value.self, from: Data(text.utf8))
        if value == nil { isWhole = false }
        return value ?? []
    }

    /// Returns a value that is never null; in its place another one.
    mutating func needed<Value: PostgreSQLValue>(_ other: Value) -> Value {
        let value: Value? = next()
        if value == nil { isWhole = false }
        return value ?? other
    }

    mutating func instant() -> StoreInstant? { next().map(StoreInstant.init(nanoseconds:)) }
    mutating func date() -> Date? { next().map { (time: Int64) in Date(timeIntervalSince1970: Double(time) / 1e9) } }
    mutating func state() -> DurableJob.State? { next().flatMap { Self.states.indices.contains($0) ? Self.states[$0] : nil } }

    static let states: [DurableJob.State] = [.available, .running, .failed, .succeeded, .cancelled]
}

/// A job and its last claim, as `reachable_view` has them.
struct PostgreSQLJob {
    var job = DurableJob(
        NewJob(id: DurableJobID(high: 0, low: 0), queue: "", kind: "", version: 1, payload: Data()), position: 0,
        now: StoreInstant(nanoseconds: 0), created: Date(timeIntervalSince1970: 0))
    var claim: Int64 = 0

    init(_ row: inout PostgreSQLRow) {
        for column in Self.columns { column.read(&self, &row) }
    }

    /// Returns the list of columns of a SELECT.
    ///
    /// - Parameters:
    ///   - prefix: `(job).` for functions that return jobs beside other facts.
    ///   - hasPayload: False to select an empty payload instead.
    static func selection(_ prefix: String = "(job).", hasPayload: Bool = true) -> String {
        columns.map { !hasPayload && $0.name == "payload" ? "''::bytea" : prefix + $0.name }.joined(separator: ", ")
    }

    private typealias Column = (name: String, read: @Sendable (inout PostgreSQLJob, inout PostgreSQLRow) -> Void)

    private static let columns: [Column] = [
        ("id", { $0.job.id = $1.needed($0.job.id) }),
        ("position", { $0.job.position = $1.needed(0) }),
        ("queue", { $0.job.queue = $1.needed("") }),
        ("kind", { $0.job.kind = $1.needed("") }),
        ("version", { $0.job.version = $1.needed(1) }),
        ("scope", { $0.job.scope = $1.needed("") }),
        ("destination", { $0.job.destination = $1.next() }),
        ("priority", { $0.job.priority = $1.next().flatMap(JobPriority.init(rawValue:)) ?? .normal }),
        ("pushed", { $0.job.pushed = StoreInstant(nanoseconds: $1.needed(0)) }),
        ("not_before", { $0.job.notBefore = $1.instant() }),
        ("deadline", { $0.job.deadline = $1.instant() }),
        ("unique_key", { $0.job.uniqueKey = $1.next() }),
        ("serial_key", { $0.job.serialKey = $1.next() }),
        ("continues", { $0.job.continuesAfterFailure = $1.needed(false) }),
        ("is_repeatable", { $0.job.isRepeatable = $1.needed(false) }),
        ("idempotency_key", { $0.job.idempotencyKey = $1.next() ?? $0.job.id.description }),
        ("trace", { $0.job.traceContext = StoredText.context(of: $1.next()) }),
        ("state", { $0.job.state = $1.state() ?? .available }),
        ("is_cancel_requested", { $0.job.isCancelRequested = $1.needed(false) }),
        ("started", { $0.job.counters.started = $1.needed(0) }),
        ("charged", { $0.job.counters.charged = $1.needed(0) }),
        ("network_failures", { $0.job.counters.networkFailures = $1.needed(0) }),
        ("failure_index", { $0.job.counters.failureIndex = $1.needed(0) }),
        ("crashes", { $0.job.counters.crashes = $1.needed(0) }),
        ("soft_until", { $0.job.softDelay = $1.instant().map { .init(until: $0, since: $0, isNetwork: false) } }),
        ("soft_since", { job, row in if let since = row.instant() { job.job.softDelay?.since = since } }),
        ("avoided_by", { $0.setAvoidance($1.next()) }),
        ("avoided_since", { job, row in if let since: Int64 = row.next() { job.job.avoidance?.since = since } }),
        ("avoided_until", { job, row in if let until: Int64 = row.next() { job.job.avoidance?.until = until } }),
        ("hard_until", { $0.job.hardUntil = $1.instant() }),
        ("last_error", { $0.job.lastError = $1.next() }),
        ("failure_reason", { $0.job.failureReason = $1.next() }),
        ("created", { $0.job.created = $1.date() ?? $0.job.created }),
        ("finished", { $0.job.finished = $1.date() }),
        ("is_blocked", { $0.job.isBlocked = $1.next() ?? false }),
        ("has_unknown_outcome", { $0.job.hasUnknownOutcome = $1.needed(false) }),
        ("claim", { $0.claim = $1.needed(0) }),
        ("payload", { $0.job.payload = $1.needed(Data()) }),
        ("is_started", { if $1.needed(false) { $0.job.counters.started += 1 } }),
    ]

    private mutating func setAvoidance(_ text: String?) {
        guard let text, let space = text.lastIndex(of: " ") else { return }
        job.avoidance = .init(node: String(text[..<space]), bootID: String(text[text.index(after: space)...]), since: 0, until: 0)
        job.softDelay?.isNetwork = true
    }
}

extension Duration {
    /// The number of whole nanoseconds that a database adds to a time: at most half of the range, so that no sum overflows.
    var storable: Int64 { min(max(nanoseconds, -(1 << 61)), 1 << 61) }
}
#endif
