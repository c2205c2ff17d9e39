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
    private var since: (at: Duration, isBeginning: Bool)?

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
        let time = CalendarTime(transition.wallTime, offset: localOffset(transition.wallTime)).plain
        var line = "\(style.dimmed(time))  \(style.label(transition.current.status))  "
        if let scope { line += style.strong(escapedForTerminal(scope)) + "  " }
        return line + escapedForTerminal(story(of: transition))
    }

    private mutating func story(of transition: Transition) -> String {
        let hasFlipped = transition.previous.map { $0.status != transition.current.status } ?? true
        var notes = transition.kindsInWords
        if hasFlipped {
            if let previous = transition.previous, previous.status != .unknown, let since {
                let elapsed = elapsedText(transition.at - since.at)
                notes.insert(since.isBeginning ? "after \(elapsed)" : "after at least \(elapsed)", at: 0)
            }
            since = (transition.at, !transition.isBaseline)
        }
        let hasEnded = transition.cause.kind == .ended
        let summary = hasEnded ? transition.cause.detail : transition.current.summary
        let story = notes.isEmpty ? summary : "\(notes.joined(separator: ", ")): \(summary)"
        return transition.isBaseline || hasEnded || transition.cause.detail.isEmpty
            ? story : "\(story) (\(transition.cause.detail))"
    }
}

extension Transition {
    /// The kinds in words, but for becoming online or offline, which a line says otherwise.
    var kindsInWords: [String] {
        let gained = IPAddress.Family.allCases.filter { current[$0].isSatisfied && previous?[$0].isSatisfied == false }
        let lost = IPAddress.Family.allCases.filter { !current[$0].isSatisfied && previous?[$0].isSatisfied == true }
        let words: [(Kinds, String)] = [
            (.familyGained, "\(Self.names(gained)) gained"), (.familyLost, "\(Self.names(lost)) lost"),
            (.interfaceChanged, "interface changed"), (.gatewayChanged, "gateway changed"),
            (.sourceChanged, "source address changed"), (.reestablished, "lost and regained"),
            (.resumed, "resumed from suspension"), (.resynced, "events were lost"), (.reasonChanged, "reason changed"),
        ]
        return words.compactMap { kinds.contains($0) ? $1 : nil }
    }

    private static func names(_ families: [IPAddress.Family]) -> String {
        families.isEmpty ? "a family" : families.map { $0 == .ipv4 ? "IPv4" : "IPv6" }.joined(separator: " and ")
    }
}
