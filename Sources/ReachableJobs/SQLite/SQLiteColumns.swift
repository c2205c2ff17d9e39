#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import GRDBSQLite
internal import ReachableRetry

// GRDB's `Row` makes a dictionary of the columns' names for each statement, and `StatementArguments` copies all values. With them,
// pushes and runs in batches took three times as long, and a single run 1.6 times.

struct ColumnReader: DatabaseValueConvertible, StatementColumnConvertible {
    private let statement: SQLiteStatement
    private var index: CInt = 0

    init(sqliteStatement: SQLiteStatement, index: CInt) { statement = sqliteStatement }

    // Not the default: a row may begin with a null.
    static func fromStatement(_ statement: SQLiteStatement, atUncheckedIndex index: CInt) -> ColumnReader? {
        ColumnReader(sqliteStatement: statement, index: index)
    }

    // Rows come from statements only.
    static func fromDatabaseValue(_ value: DatabaseValue) -> ColumnReader? { nil }
    var databaseValue: DatabaseValue { .null }

    /// Reads the next column; throws if it has no such value, as in a damaged file.
    mutating func next<Value: ColumnValue>(_ type: Value.Type = Value.self) throws -> Value {
        defer { index += 1 }
        guard let raw = Value.Raw.fromStatement(statement, atUncheckedIndex: index), let value = Value(raw: raw) else {
            throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "a row cannot be read")
        }
        return value
    }
}

struct ColumnBinder {
    private let statement: Statement
    private var index: CInt = 0

    init(_ statement: Statement) {
        self.statement = statement
        // Resets the statement, too.
        statement.setUncheckedArguments(StatementArguments())
    }

    mutating func bind(_ value: some ColumnValue) throws {
        index += 1
        let code = value.raw.bind(to: statement.sqliteStatement, at: index)
        if code != SQLITE_OK { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}

extension Database {
    private func statement<each Argument: ColumnValue>(_ sql: String, _ arguments: repeat each Argument) throws -> Statement {
        let statement = try cachedStatement(sql: sql)
        var binder = ColumnBinder(statement)
        for argument in repeat each arguments { try binder.bind(argument) }
        return statement
    }

    @discardableResult
    func change<each Argument: ColumnValue>(_ sql: String, _ arguments: repeat each Argument) throws -> Int {
        try statement(sql, repeat each arguments).execute()
        return changesCount
    }

    func rows<each Argument: ColumnValue, Value>(
        _ sql: String, _ arguments: repeat each Argument, read: (inout ColumnReader) throws -> Value
    ) throws -> [Value] {
        let cursor = try ColumnReader.fetchCursor(statement(sql, repeat each arguments))
        var values: [Value] = []
        while var row = try cursor.next() { values.append(try read(&row)) }
        return values
    }

    func row<each Argument: ColumnValue, Value>(
        _ sql: String, _ arguments: repeat each Argument, read: (inout ColumnReader) throws -> Value
    ) throws -> Value? {
        let cursor = try ColumnReader.fetchCursor(statement(sql, repeat each arguments))
        // Its end resets the statement.
        defer { withExtendedLifetime(cursor) {} }
        guard var row = try cursor.next() else { return nil }
        return try read(&row)
    }

    func value<each Argument: ColumnValue, Value: ColumnValue>(
        _ sql: String, _ arguments: repeat each Argument
    ) throws -> Value? {
        try row(sql, repeat each arguments) { try $0.next(Value?.self) } ?? nil
    }
}

// MARK: - Values

protocol ColumnValue: SendableMetatype {
    associatedtype Raw: DatabaseValueConvertible & StatementColumnConvertible & SendableMetatype
    init?(raw: Raw)
    var raw: Raw { get }
}

extension ColumnValue where Raw == Self {
    init?(raw: Self) { self = raw }
    var raw: Self { self }
}

extension ColumnValue where Self: RawRepresentable, Raw == RawValue {
    init?(raw: RawValue) { self.init(rawValue: raw) }
    var raw: RawValue { rawValue }
}

extension Int64: ColumnValue { typealias Raw = Int64 }
extension Int: ColumnValue { typealias Raw = Int }
extension Bool: ColumnValue { typealias Raw = Bool }
extension Data: ColumnValue { typealias Raw = Data }
extension WorkerID: ColumnValue { typealias Raw = Int64 }
extension JobPriority: ColumnValue { typealias Raw = Int }

extension Optional: ColumnValue where Wrapped: ColumnValue {
    init?(raw: Wrapped.Raw?) {
        self = .none
        guard let raw else { return }
        guard let value = Wrapped(raw: raw) else { return nil }
        self = value
    }
    var raw: Wrapped.Raw? { map(\.raw) }
}

extension String: ColumnValue {
    init?(raw: String) { self = StoredText.loaded(raw) }
    var raw: String { StoredText.stored(self) }
}

extension [String: String]: ColumnValue {
    init?(raw: String?) { self = StoredText.context(of: raw) }
    var raw: String? { StoredText.text(of: self) }
}

extension StoreInstant: ColumnValue {
    init?(raw: Int64) { self.init(nanoseconds: raw) }
    var raw: Int64 { nanoseconds }
}

/// Nanoseconds since 1970.
extension Date: ColumnValue {
    init?(raw: Int64) { self.init(timeIntervalSince1970: Double(raw) / 1e9) }
    var raw: Int64 { Int64(exactly: (timeIntervalSince1970 * 1e9).rounded()) ?? 0 }
}

extension DurableJobID: ColumnValue {
    init?(raw: String) { self.init(raw) }
    var raw: String { description }
}

/// Unfinished jobs have numbers below 2; indexes name the numbers.
extension DurableJob.State: ColumnValue {
    static let numbered: [DurableJob.State] = [.available, .running, .failed, .succeeded, .cancelled]

    init?(raw: Int) {
        guard Self.numbered.indices.contains(raw) else { return nil }
        self = Self.numbered[raw]
    }
    var raw: Int { Self.numbered.firstIndex(of: self) ?? 0 }
}
#endif
