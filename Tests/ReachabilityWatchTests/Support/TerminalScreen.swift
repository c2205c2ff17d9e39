/// The screen of a terminal: what a person sees after the bytes that programs have written.
struct TerminalScreen {
    /// The rows, without spaces at their ends.
    var rows: [String] { cells.map { String(String($0).reversed().drop { $0 == " " }.reversed()) } }
    /// The place of the cursor, from 0.
    private(set) var cursor = (row: 0, column: 0)
    private(set) var hasColor = false

    private let columns: Int
    private var cells: [[Character]] = [[]]
    private var wraps = true

    init(columns: Int = 80, _ text: String = "") {
        self.columns = columns
        write(text)
    }

    /// Writes characters and the sequences of ``StatusLine``; other sequences appear as ␛, so that no test expects them.
    mutating func write(_ text: String) {
        var rest = Substring(text)
        while let character = rest.popFirst() {
            switch character {
            case "\r": cursor.column = 0
            case "\n", "\r\n":
                if character == "\r\n" { cursor.column = 0 }
                cursor.row += 1
                if cursor.row == cells.count { cells.append([]) }
            case "\u{1b}": control(&rest)
            default: put(character)
            }
        }
    }

    private mutating func control(_ rest: inout Substring) {
        guard rest.first == "[", let end = rest.firstIndex(where: \.isLetter) else { return put("␛") }
        let sequence = rest[...end]
        rest = rest[rest.index(after: end)...]
        switch sequence {
        case "[J":
            cells.removeSubrange((cursor.row + 1)...)
            cells[cursor.row] = Array(cells[cursor.row].prefix(cursor.column))
        case "[?7l": wraps = false
        case "[?7h": wraps = true
        case _ where sequence.last == "m": hasColor = true
        default: put("␛")
        }
    }

    private mutating func put(_ character: Character) {
        if cursor.column >= columns {
            if wraps {
                cursor = (cursor.row + 1, 0)
                if cursor.row == cells.count { cells.append([]) }
            } else {
                cursor.column = columns - 1
            }
        }
        while cells[cursor.row].count <= cursor.column { cells[cursor.row].append(" ") }
        cells[cursor.row][cursor.column] = character
        cursor.column += 1
    }
}
