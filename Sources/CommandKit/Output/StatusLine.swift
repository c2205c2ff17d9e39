internal import Glibc
internal import Reachability
internal import Synchronization

/// The last line of a terminal, which a command replaces while it waits; messages go above it.
///
/// It is on standard error, and only if that is a terminal that moves its cursor. A command in the background and a terminal that
/// takes no characters (Ctrl-S) get no line.
package enum StatusLine {
    private struct State {
        var line: (text: StyledText, style: TextStyle)?
        /// The characters on the terminal.
        var shown: String?
        /// The number of reasons to leave the terminal to others.
        var hidings = 0
    }

    private static let state = Mutex(State())

    /// True if standard error is a terminal that can replace a line.
    package static let isAvailable =
        isatty(STDERR_FILENO) == 1 && !["", "dumb"].contains(Program.environment("TERM") ?? "")

    /// The columns that a line may take; a terminal of unknown size has 80.
    ///
    /// The last one stays free: some terminals begin another row as soon as it is taken.
    package static var columns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 79 }
        return Int(size.ws_col) - 1
    }

    /// Replaces the line by a text without colours; `nil` removes it.
    package static func show(_ text: String?) { show(text.map { StyledText($0) }, Program.outputStyle(.never)) }

    /// Replaces the line; `nil` removes it.
    ///
    /// Does nothing without a terminal.
    package static func show(_ text: StyledText?, _ style: TextStyle) {
        change { $0.line = text.map { ($0, style) } }
    }

    /// Removes the line until ``restore()``, because another program may write to the terminal, or this one stops or ends.
    ///
    /// The line is gone when this returns.
    package static func hide() { change { $0.hidings += 1 } }

    /// Shows the line again, once for each ``hide()``.
    package static func restore() { change { $0.hidings -= 1 } }

    /// Makes a change and brings the terminal up to date.
    ///
    /// Writes under the lock: the writes are in the order of the changes. The terminal takes characters, so that this is no wait.
    private static func change(_ body: (inout State) -> Void) {
        guard isAvailable else { return }
        state.withLock { state in
            body(&state)
            guard isInForeground, takesCharacters else { return }
            let line = state.hidings > 0 ? nil : state.line.map { $0.text.fitted(to: columns, $0.style).rendered($0.style) }
            guard line != state.shown else { return }
            try? DescriptorOutput.diagnostics.write(bytes: Array(replacing(state.shown, by: line).utf8)[...])
            state.shown = line
        }
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

    /// Returns the terminal's ``StatusLine``, if standard output goes to a terminal, too.
    ///
    /// Otherwise a pager may own the screen, as in `run … | less`.
    package static func terminal(_ style: TextStyle) -> LineDisplay? {
        guard StatusLine.isAvailable, isatty(STDOUT_FILENO) == 1 else { return nil }
        return LineDisplay(columns: { StatusLine.columns }, show: { StatusLine.show($0, style) })
    }
}
