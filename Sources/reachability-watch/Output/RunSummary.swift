/// What `run --summary` tells at the end.
struct RunSummary: Hashable {
    /// How many attempts were started.
    var attempts = 0
    /// How many of them failed by themselves.
    var charged = 0
    /// How many of them an outage broke off.
    var brokenOff = 0
    /// How many of them started though the network was known to be away.
    var startedOffline = 0
    /// How long the job waited for the network.
    var waited = Duration.zero
    /// How long all of it took.
    var elapsed = Duration.zero
    /// How long after a reconnect the attempt started that had waited for it; the last one's, `nil` if none did.
    var reconnectToAttempt: Duration?

    /// The lines.
    var lines: [String] {
        var lines = [
            "attempts: \(attempts), of which failed: \(charged), broken off by an outage: \(brokenOff)",
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
