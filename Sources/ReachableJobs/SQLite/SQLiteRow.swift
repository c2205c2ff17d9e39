#if SQLite
internal import FoundationEssentials
internal import GRDB
internal import GRDBSQLite

/// A copy of a row, read by the numbers of its columns.
///
/// GRDB's rows also look up their columns' names, which costs more than most of the store's queries.
struct SQLiteRow: DatabaseValueConvertible, StatementColumnConvertible {
    fileprivate enum Value {
        case null
        case integer(Int64)
        case text(String)
        case blob(Data)
    }

    private let values: [Value]

    init(sqliteStatement statement: SQLiteStatement, index: CInt) {
        values = (0..<sqlite3_column_count(statement)).map { Value(statement, $0) }
    }

    // Not the default: a row may begin with a null.
    static func fromStatement(_ statement: SQLiteStatement, atUncheckedIndex index: CInt) -> SQLiteRow? {
        SQLiteRow(sqliteStatement: statement, index: index)
    }

    /// Returns the first row of a statement.
    static func first(of statement: Statement) throws -> SQLiteRow? { try fetchCursor(statement).next() }

    // Rows come from statements only.
    static func fromDatabaseValue(_ value: DatabaseValue) -> SQLiteRow? { nil }
    var databaseValue: DatabaseValue { .null }

    // A value of another type is converted as by SQLite: a damaged file must not end the process.
    subscript(column: Int) -> Int64 { if case .integer(let number) = values[column] { number } else { 0 } }
    subscript(column: Int) -> String { if case .text(let text) = values[column] { text } else { "" } }
    subscript(column: Int) -> Data { if case .blob(let data) = values[column] { data } else { Data() } }
    subscript(column: Int) -> Int { Int(self[column] as Int64) }
    subscript(column: Int) -> Bool { self[column] as Int64 != 0 }
    subscript(column: Int) -> Int64? { if case .integer(let number) = values[column] { number } else { nil } }
    subscript(column: Int) -> String? { if case .text(let text) = values[column] { text } else { nil } }
}

extension SQLiteRow.Value {
    fileprivate init(_ statement: SQLiteStatement, _ column: CInt) {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER:
            self = .integer(sqlite3_column_int64(statement, column))
        case SQLITE_TEXT:
            let start = sqlite3_column_text(statement, column)
            let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
            self = .text(String(decoding: bytes, as: UTF8.self))
        case SQLITE_BLOB:
            let start = sqlite3_column_blob(statement, column)
            let bytes = UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
            self = .blob(Data(bytes))
        default:
            // The tables have no other types.
            self = .null
        }
    }
}

extension Statement {
    /// Sets the parameters in their order, without the copies that ``StatementArguments`` makes.
    func bind<each Value: StatementBinding>(_ values: repeat each Value) throws {
        // Resets the statement, too.
        setUncheckedArguments(StatementArguments())
        var index: CInt = 0
        for value in repeat each values {
            index += 1
            let code = value.bind(to: sqliteStatement, at: index)
            if code != SQLITE_OK { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        }
    }
}
#endif
