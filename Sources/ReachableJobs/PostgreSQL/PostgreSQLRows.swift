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
    mutating func text() -> String? { result.text(row, next()).map(StoredText.loaded) }
    mutating func bool() -> Bool { result.bool(row, next()) ?? false }
    mutating func bytes() -> Data { result.bytes(row, next()) ?? Data() }
    mutating func ints() -> [Int64] { (result.ints(row, next()) ?? []).map { $0 ?? 0 } }
    mutating func texts() -> [String?] { (result.texts(row, next()) ?? []).map { $0.map(StoredText.loaded) } }
    mutating func instant() -> StoreInstant? { int().map(StoreInstant.init) }
    mutating func date() -> Date? { int().map { Date(timeIntervalSince1970: Double($0) / 1e9) } }
    mutating func state() -> DurableJob.State? {
        int().flatMap { Self.states.indices.contains(Int(clamping: $0)) ? Self.states[Int(clamping: $0)] : nil }
    }

    /// The states by their numbers in the table.
    static let states: [DurableJob.State] = [.available, .running, .failed, .succeeded, .cancelled]

    /// Reads the columns of `reachable_view`; `nil` if they are null or make no job.
    mutating func job() -> (job: DurableJob, claim: Int64)? {
        guard let id = id(), let position = int(), let queue = text(), let kind = text(),
            let version = int(), let scope = text()
        else { return nil }
        var new = NewJob(id: id, queue: queue, kind: kind, version: Int(clamping: version), payload: Data())
        (new.scope, new.destination) = (scope, text())
        new.priority = JobPriority(rawValue: count()) ?? .normal
        let (notBefore, deadline, uniqueKey) = (instant(), instant(), text())
        (new.serialKey, new.continuesAfterFailure, new.isRepeatable) = (text(), bool(), bool())
        if let key = text() { new.idempotencyKey = key }
        new.traceContext = StoredText.context(of: result.text(row, next()))
        guard let state = state() else { return nil }
        var job = DurableJob(new, position: position, now: StoreInstant(nanoseconds: 0), created: Date(timeIntervalSince1970: 0))
        (job.notBefore, job.deadline, job.uniqueKey) = (notBefore, deadline, uniqueKey)
        (job.state, job.isCancelRequested) = (state, bool())
        job.counters.started = count()
        job.counters.charged = count()
        job.counters.networkFailures = count()
        job.counters.failureIndex = count()
        job.counters.crashes = count()
        let (until, since, isNetwork) = (instant(), instant(), bool())
        if let until, let since { job.softDelay = DurableJob.SoftDelay(until: until, since: since, isNetwork: isNetwork) }
        (job.hardUntil, job.lastError, job.failureReason) = (instant(), text(), text())
        if let created = date() { job.created = created }
        (job.finished, job.isBlocked, job.hasUnknownOutcome) = (date(), bool(), bool())
        let claim = int() ?? 0
        job.payload = bytes()
        return (job, claim)
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
