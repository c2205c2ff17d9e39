/// The figures of `run --summary`.
struct RunSummary: Hashable {
    /// The number of attempts.
    var attempts = 0
    /// The number of attempts that failed by themselves.
    var charged = 0
    /// The number of attempts that failed during an outage.
    var brokenOff = 0
    /// The number of attempts that could not start because this machine was short of something.
    var notStarted = 0
    /// The number of attempts that started while the network was known to be away.
    var startedOffline = 0
    /// The time that the job waited for the network.
    var waited = Duration.zero
    /// The time from when the first attempt could have started to the end.
    var elapsed = Duration.zero
    /// The time from the last reconnect that an attempt waited for to this attempt; `nil` if none did.
    ///
    /// Counted from when the bus could have started the attempt: all scopes are there, and the attempt before has ended.
    var reconnectToAttempt: Duration?

    /// The lines.
    var lines: [String] {
        var lines = [
            "attempts: \(attempts), of which failed: \(charged), broken off by an outage: \(brokenOff)"
                + (notStarted > 0 ? ", not started: \(notStarted)" : ""),
            "time: \(RunNarrator.text(elapsed)), of which waiting for the network: \(RunNarrator.text(waited))",
            "attempts started while the network was away: \(startedOffline)",
        ]
        if let reconnectToAttempt {
            lines.append("from the network's return to the attempt: \(Self.precise(reconnectToAttempt))")
        }
        return lines
    }

    /// Milliseconds with two places.
    private static func precise(_ duration: Duration) -> String {
        let hundredths = Int64(clamping: duration.attoseconds / 10_000_000_000_000)
        let places = hundredths % 100
        return "\(hundredths / 100).\(places < 10 ? "0" : "")\(places)ms"
    }
}
