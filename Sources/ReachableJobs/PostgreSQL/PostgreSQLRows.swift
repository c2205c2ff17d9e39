#if PostgreSQL
internal import FoundationEssentials
internal import ReachableRetry

/// A row of an answer, read from a column on.
struct PostgreSQLRow {
    let result: PostgreSQLResult
    let row: Int
    var column: Int

    init(_ result: PostgreSQLResult, _ row: Int, from column: Int = 0) {
        (self.result, self.row, self.column) = (result, row, column)
    }

    private mutating func next() -> Int {
        defer { column += 1 }
        return column
    }

    mutating func int() -> Int64? { result.int(row, next()) }
    mutating func id() -> DurableJobID? { result.id(row, next()) }
    mutating func count() -> Int { Int(clamping: int() ?? 0) }
    mutating func stored() -> String? { result.text(row, next()) }
    mutating func text() -> String? { stored().map(StoredText.loaded) }
    mutating func bool() -> Bool { result.bool(row, next()) ?? false }
    mutating func bytes() -> Data { result.bytes(row, next()) ?? Data() }
    mutating func ints() -> [Int64] { (result.ints(row, next()) ?? []).map { $0 ?? 0 } }
    mutating func ids() -> [DurableJobID?] { result.ids(row, next()) ?? [] }
    mutating func texts() -> [String?] { (result.texts(row, next()) ?? []).map { $0.map(StoredText.loaded) } }
    mutating func instant() -> StoreInstant? { int().map(StoreInstant.init) }
    mutating func date() -> Date? { int().map { Date(timeIntervalSince1970: Double($0) / 1e9) } }
    mutating func state() -> DurableJob.State? {
        int().flatMap { Self.states.indices.contains(Int(clamping: $0)) ? Self.states[Int(clamping: $0)] : nil }
    }

    /// The states by their numbers in the table.
    static let states: [DurableJob.State] = [.available, .running, .failed, .succeeded, .cancelled]
}

/// A job and its last claim, as `reachable_view` has them.
struct PostgreSQLJob {
    var job = DurableJob(
        NewJob(id: DurableJobID(high: 0, low: 0), queue: "", kind: "", version: 1, payload: Data()), position: 0,
        now: StoreInstant(nanoseconds: 0), created: Date(timeIntervalSince1970: 0))
    var claim: Int64 = 0
    /// False if a column is null that never is.
    private var isWhole = true

    /// Reads the columns of ``selection(_:)``; `nil` if they make no job.
    init?(_ row: inout PostgreSQLRow) {
        for column in Self.columns { column.read(&self, &row) }
        if !isWhole { return nil }
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
        ("id", { $0.job.id = $0.needed($1.id()) ?? $0.job.id }),
        ("position", { $0.job.position = $0.needed($1.int()) ?? 0 }),
        ("queue", { $0.job.queue = $0.needed($1.text()) ?? "" }),
        ("kind", { $0.job.kind = $0.needed($1.text()) ?? "" }),
        ("version", { $0.job.version = $1.count() }),
        ("scope", { $0.job.scope = $0.needed($1.text()) ?? "" }),
        ("destination", { $0.job.destination = $1.text() }),
        ("priority", { $0.job.priority = JobPriority(rawValue: $1.count()) ?? .normal }),
        ("pushed", { $0.job.pushed = $0.needed($1.instant()) ?? $0.job.pushed }),
        ("not_before", { $0.job.notBefore = $1.instant() }),
        ("deadline", { $0.job.deadline = $1.instant() }),
        ("unique_key", { $0.job.uniqueKey = $1.text() }),
        ("serial_key", { $0.job.serialKey = $1.text() }),
        ("continues", { $0.job.continuesAfterFailure = $1.bool() }),
        ("is_repeatable", { $0.job.isRepeatable = $1.bool() }),
        ("idempotency_key", { $0.job.idempotencyKey = $1.text() ?? $0.job.id.description }),
        ("trace", { $0.job.traceContext = StoredText.context(of: $1.stored()) }),
        ("state", { $0.job.state = $0.needed($1.state()) ?? .available }),
        ("is_cancel_requested", { $0.job.isCancelRequested = $1.bool() }),
        ("started", { $0.job.counters.started = $1.count() }),
        ("charged", { $0.job.counters.charged = $1.count() }),
        ("network_failures", { $0.job.counters.networkFailures = $1.count() }),
        ("failure_index", { $0.job.counters.failureIndex = $1.count() }),
        ("crashes", { $0.job.counters.crashes = $1.count() }),
        ("soft_until", { $0.job.softDelay = $1.instant().map { .init(until: $0, since: $0, isNetwork: false) } }),
        ("soft_since", { job, row in if let since = row.instant() { job.job.softDelay?.since = since } }),
        ("avoided_by", { $0.setAvoidance($1.text()) }),
        ("avoided_since", { job, row in if let since = row.int() { job.job.avoidance?.since = since } }),
        ("avoided_until", { job, row in if let until = row.int() { job.job.avoidance?.until = until } }),
        ("hard_until", { $0.job.hardUntil = $1.instant() }),
        ("last_error", { $0.job.lastError = $1.text() }),
        ("failure_reason", { $0.job.failureReason = $1.text() }),
        ("created", { $0.job.created = $0.needed($1.date()) ?? $0.job.created }),
        ("finished", { $0.job.finished = $1.date() }),
        ("is_blocked", { $0.job.isBlocked = $1.bool() }),
        ("has_unknown_outcome", { $0.job.hasUnknownOutcome = $1.bool() }),
        ("claim", { $0.claim = $0.needed($1.int()) ?? 0 }),
        ("payload", { $0.job.payload = $1.bytes() }),
        ("is_started", { if $1.bool() { $0.job.counters.started += 1 } }),
    ]

    private mutating func needed<Value>(_ value: Value?) -> Value? {
        if value == nil { isWhole = false }
        return value
    }

    /// The text has the node, a space and the boot.
    private mutating func setAvoidance(_ text: String?) {
        guard let text, let space = text.lastIndex(of: " ") else { return }
        job.avoidance = .init(node: String(text[..<space]), bootID: String(text[text.index(after: space)...]), since: 0, until: 0)
        job.softDelay?.isNetwork = true
    }
}

extension PostgreSQLResult {
    /// The rows, each read from its first column.
    var rows: [PostgreSQLRow] { (0..<rowCount).map { PostgreSQLRow(self, $0) } }

    /// The texts of the first column.
    var firstTexts: [String] { rows.map { row in text(row.row, 0) ?? "" } }
}

extension Duration {
    /// The number of whole nanoseconds that a database adds to a time: at most half of the range, so that no sum overflows.
    var storable: Int64 { min(max(nanoseconds, -(1 << 61)), 1 << 61) }
}
#endif
