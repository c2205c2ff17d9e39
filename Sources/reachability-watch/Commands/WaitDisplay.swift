import CommandKit
import Reachability
import ReachableRetry

/// The messages of `run`, and below them on a terminal the wait for the next attempt.
///
/// A reader may hold up a message, but never an attempt: its start only removes the line.
actor WaitDisplay {
    private let display: LineDisplay?
    private let write: @Sendable (String) -> Void
    private let stopwatch: Stopwatch
    private var progress: WaitProgress
    private var wait: @Sendable () -> RunWait? = { nil }
    private var timer = ActorTimer()

    /// Creates it.
    ///
    /// - Parameters:
    ///   - display: The last line of the terminal; without one, messages report long waits.
    ///   - write: Writes a message.
    init(
        _ display: LineDisplay?, on clock: any Clock<Duration> = ContinuousClock(), _ write: @escaping @Sendable (String) -> Void
    ) {
        (self.display, self.write) = (display, write)
        stopwatch = Stopwatch(clock)
        progress = WaitProgress(isLine: display != nil)
    }

    /// Begins to show waits.
    ///
    /// - Parameter wait: Returns the present wait; `nil` while an attempt runs.
    func begin(_ wait: @escaping @Sendable () -> RunWait?) {
        self.wait = wait
        refresh()
    }

    /// Writes a message above the line.
    func say(_ message: String) {
        display?.show(nil)
        write(message)
        refresh()
    }

    /// Shows the present wait, and again when its text has changed.
    ///
    /// - Parameter isNew: True if an attempt was made since the last call: another wait begins.
    func refresh(isNew: Bool = false) {
        let now = stopwatch.elapsed()
        if isNew { _ = progress.update(nil, at: now) }
        let (text, next) = progress.update(wait(), at: now)
        timer.cancel()
        // By the same reading: the clock may have moved on.
        if let next { timer.set(stopwatch, at: now + next) { [self] in await refresh() } }
        if let display {
            display.show(text.map { StyledText($0) })
        } else if let text {
            write(ForeignText(text).terminal)
        }
    }

    /// Removes the line, because an attempt starts.
    nonisolated func clear() { display?.show(nil) }

    /// Removes the line for good.
    func end() {
        wait = { nil }
        refresh()
    }
}
