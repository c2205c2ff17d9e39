/// The messages of a service to its manager (sd_notify(3)): ready, a line about its state, signs of life, the end.
///
/// Pure: each method returns the message to send now, if there is one.
package struct ServiceNotifications: Hashable, Sendable {
    private enum Phase {
        case starting, ready, stopping
    }

    /// The longest line, in bytes: systemd ignores messages of more than 4096 (NOTIFY_BUFFER_MAX).
    private static let maxStatus = 2000

    private var phase = Phase.starting
    private var status: String?
    /// The passes of the reader at the last sign of life.
    private var passes: UInt64?

    package init() {}

    /// The interval of calls of ``tick(passes:)``.
    ///
    /// Twice as often as sd_watchdog_enabled(3) advises: a reader that is late once is not ended.
    package static func interval(ofWatchdog limit: Duration) -> Duration { max(limit / 4, .milliseconds(1)) }

    /// Notes the line about the service's state, which may hold any text.
    package mutating func note(status: String) -> String? {
        let line = Self.line(status)
        guard line != self.status else { return nil }
        self.status = line
        return "STATUS=\(line)"
    }

    /// Notes that the service is ready.
    package mutating func noteReady() -> String? {
        guard phase == .starting else { return nil }
        phase = .ready
        return "READY=1"
    }

    /// Gives a sign of life if the reader has passed through its loop since the last one.
    ///
    /// The caller then has the reader pass again, which a reader that is stuck does not.
    package mutating func tick(passes: UInt64) -> String? {
        defer { self.passes = passes }
        guard let last = self.passes, last != passes, phase != .stopping else { return nil }
        return "WATCHDOG=1"
    }

    /// Notes that the service ends.
    package mutating func noteStop() -> String? {
        guard phase != .stopping else { return nil }
        phase = .stopping
        return "STOPPING=1"
    }

    /// Returns the text on one line without invisible characters, cut at the limit.
    private static func line(_ text: String) -> String {
        let line = ForeignText(text).terminal
        guard line.utf8.count > maxStatus else { return line }
        var cut = ""
        var size = 0
        for character in line {
            size += character.utf8.count
            guard size <= maxStatus else { break }
            cut.append(character)
        }
        return cut + "…"
    }
}

/// Sends a service's messages to its manager.
package actor ServiceNotifier {
    /// The time after which the manager ends a service without a sign of life; `nil` for none.
    private let watchdog: Duration?
    private let transmit: @Sendable (String) -> Void
    private var notifications = ServiceNotifications()

    /// - Parameter transmit: Sends a message.
    package init(watchdog: Duration?, transmit: @escaping @Sendable (String) -> Void) {
        (self.watchdog, self.transmit) = (watchdog, transmit)
    }

    /// Creates it for a manager; `nil` if the manager wants no messages.
    package init?(_ manager: ServiceManager) {
        guard let socket = manager.notifyAddress.flatMap(NotifySocket.init) else { return nil }
        self.init(watchdog: manager.watchdog) { _ = socket.send($0) }
    }

    /// Sends the line about the service's state, if it is new.
    package func note(status: String) { send(notifications.note(status: status)) }

    /// Says that the service is ready.
    package func noteReady() { send(notifications.noteReady()) }

    /// Says that the service ends.
    package func noteStop() { send(notifications.noteStop()) }

    private func send(_ message: String?) {
        if let message { transmit(message) }
    }

    /// Gives signs of life until the task is cancelled, as long as the reader passes through its loop.
    ///
    /// - Parameters:
    ///   - clock: The clock of the intervals.
    ///   - passes: Returns the number of the reader's passes.
    ///   - pass: Has the reader pass soon.
    package func feedWatchdog(
        on clock: any Clock<Duration> = ContinuousClock(), passes: @Sendable () -> UInt64, pass: @Sendable () -> Void
    ) async {
        guard let watchdog else { return }
        let interval = ServiceNotifications.interval(ofWatchdog: watchdog)
        repeat {
            send(notifications.tick(passes: passes()))
            pass()
        } while (try? await clock.sleep(for: interval)) != nil
    }
}
