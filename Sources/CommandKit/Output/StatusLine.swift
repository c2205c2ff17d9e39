internal import Glibc
internal import Reachability
internal import Synchronization

/// The last line of a terminal, which a command replaces while it waits; messages go above it.
///
/// It is on standard error, and only if that is a terminal that moves its cursor. Each change is a single write(2), which removes
/// the old line and leaves the new one, so that writers on several threads need no order. A command in the background and a
/// terminal that takes no characters (Ctrl-S) get no line.
package enum StatusLine {
    private static let shown = Mutex<String?>(nil)

    /// True if standard error is a terminal that can replace a line.
    package static let isAvailable =
        isatty(STDERR_FILENO) == 1 && !["", "dumb"].contains(Program.environment("TERM") ?? "")

    /// The columns of the terminal; one of unknown size has 80.
    package static var columns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Replaces the line by a text without colours; `nil` removes it.
    package static func show(_ text: String?) { show(text.map { StyledText($0) }, Program.outputStyle(.never)) }

    /// Replaces the line; `nil` removes it.
    ///
    /// Does nothing without a terminal.
    package static func show(_ text: StyledText?, _ style: TextStyle) {
        guard isAvailable, isInForeground, takesCharacters else { return }
        let line = text.map { $0.fitted(to: columns - 1, style).rendered(style) }
        let old = shown.withLock { shown in
            defer { shown = line }
            return shown
        }
        guard old != line else { return }
        try? DescriptorOutput.diagnostics.write(bytes: Array(replacing(old, by: line).utf8)[...])
    }

    /// Returns the bytes that write a message above the line, if there is one.
    static func above(_ message: String) -> String {
        guard let line = shown.withLock(\.self) else { return message + "\n" }
        return replacing(line, by: nil) + message + "\n" + replacing(nil, by: line)
    }

    /// Returns the bytes that replace one line by another one.
    ///
    /// The cursor rests at the line's beginning: when the terminal becomes narrower and breaks the line, it is still there, and
    /// everything behind it is erased (ED). A line that is wider than it was thought to be is not broken (DECAWM is off).
    static func replacing(_ old: String?, by line: String?) -> String {
        let erasing = old == nil ? "" : "\u{1b}[J"
        guard let line else { return old == nil ? "" : "\r" + erasing }
        return "\(old == nil ? "" : "\r")\u{1b}[?7l\(line)\(erasing)\u{1b}[?7h\r"
    }

    /// True unless the terminal belongs to another job of the shell (tcgetpgrp(3)).
    private static var isInForeground: Bool {
        let group = tcgetpgrp(STDERR_FILENO)
        // It may be the terminal of another session.
        return group < 0 || group == getpgrp()
    }

    private static var takesCharacters: Bool {
        var request = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
        return poll(&request, 1, 0) == 1 && request.revents & Int16(POLLOUT) != 0
    }
}

/// The place of a status line: closures, so that tests can read it.
package struct LineDisplay: Sendable {
    /// Returns the columns that a line may take.
    package var columns: @Sendable () -> Int
    /// Replaces the line; `nil` removes it.
    package var show: @Sendable (StyledText?) -> Void

    /// Creates it.
    package init(columns: @escaping @Sendable () -> Int, show: @escaping @Sendable (StyledText?) -> Void) {
        (self.columns, self.show) = (columns, show)
    }

    /// Removes the line.
    package var clear: @Sendable () -> Void { { [show] in show(nil) } }

    /// Returns the terminal's ``StatusLine``, if standard output goes to a terminal, too.
    ///
    /// Otherwise a pager may own the screen, as in `run … | less`.
    package static func terminal(_ style: TextStyle) -> LineDisplay? {
        guard StatusLine.isAvailable, isatty(STDOUT_FILENO) == 1 else { return nil }
        // The last column stays free: some terminals begin another row as soon as it is taken.
        return LineDisplay(columns: { StatusLine.columns - 1 }, show: { StatusLine.show($0, style) })
    }
}
