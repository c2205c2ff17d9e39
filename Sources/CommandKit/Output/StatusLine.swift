internal import Glibc
internal import Reachability
internal import Synchronization

/// The last line of a terminal, which a command replaces while it waits; messages go above it.
///
/// It is on standard error, and only if that is a terminal that moves its cursor. Each change is a single write(2), which removes
/// the old line and leaves the new one, so that writers on several threads need no order.
package enum StatusLine {
    private static let shown = Mutex<String?>(nil)

    /// True if standard error is a terminal that can replace a line.
    package static let isAvailable =
        isatty(STDERR_FILENO) == 1 && !["", "dumb"].contains(Program.environment("TERM") ?? "")

    /// Replaces the line; `nil` removes it.
    ///
    /// Does nothing without a terminal.
    package static func show(_ text: String?) {
        guard isAvailable else { return }
        let line = text.map { fitted($0, columns: columns) }
        let old = shown.withLock { shown in
            defer { shown = line }
            return shown
        }
        guard old != line else { return }
        try? DescriptorOutput.diagnostics.write(bytes: Array(erasing("", before: line).utf8)[...])
    }

    /// Returns the bytes that write a message above the line, if there is one.
    static func above(_ message: String) -> String {
        guard let line = shown.withLock(\.self) else { return message + "\n" }
        return erasing(message + "\n", before: line)
    }

    /// Returns the text that erases the line, writes a message, and writes another line.
    static func erasing(_ message: String, before line: String?) -> String { "\r\u{1b}[K\(message)\(line ?? "")" }

    /// Returns a text of printable characters that does not reach the end of a row, where the terminal would begin another one.
    static func fitted(_ text: String, columns: Int) -> String {
        let text = ForeignText(text).terminal
        func width(_ character: Character) -> Int { character.isASCII ? 1 : 2 }
        guard text.reduce(0, { $0 + width($1) }) >= columns else { return text }
        var left = columns - 3
        return text.prefix { character in
            left -= width(character)
            return left >= 0
        } + "…"
    }

    private static var columns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 10 else { return 80 }
        return Int(size.ws_col)
    }
}
