import Reachability

/// Writes the transitions of one scope for people.
///
/// It remembers since when the scope is up or down.
struct TransitionText {
    private let style: TextStyle
    /// The scope's name on each line; `nil` if there is only one scope.
    private let scope: String?
    private let localOffset: @Sendable (Duration) -> Int
    /// When the status was last seen to change, and whether that was its beginning rather than the start of the watch.
    private var since: (at: BootInstant, isBeginning: Bool)?

    /// - Parameters:
    ///   - scope: the scope's name, if lines must tell several apart.
    ///   - localOffset: the seconds that local clocks are ahead of UTC at a time.
    init(style: TextStyle, scope: String?, localOffset: @escaping @Sendable (Duration) -> Int) {
        self.style = style
        self.scope = scope
        self.localOffset = localOffset
    }

    /// Transitions were lost: what was remembered may be wrong.
    mutating func forget() { since = nil }

    /// One line, without its end.
    mutating func line(for transition: Transition) -> String {
        // A monitor that ended before its first event knows no time of day.
        let time = transition.wallTime == .zero ? nil : CalendarTime(transition.wallTime, offset: localOffset(transition.wallTime))
        var line = time.map { style.dimmed($0.plain) + "  " } ?? ""
        line += "\(style.label(transition.current.status))  "
        if let scope { line += style.strong(escapedForTerminal(scope)) + "  " }
        return line + escapedForTerminal(report(of: transition))
    }

    private mutating func report(of transition: Transition) -> String {
        let hasFlipped = transition.previous.map { $0.status != transition.current.status } ?? true
        var elapsed: String?
        if hasFlipped {
            if let previous = transition.previous, previous.status != .unknown, let since {
                elapsed = (since.isBeginning ? "after " : "after at least ") + elapsedText(since.at.duration(to: transition.at))
            }
            since = (transition.at, !transition.isBaseline)
        }
        return transition.text(elapsed: elapsed)
    }
}
