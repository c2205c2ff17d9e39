import CommandKit
import Reachability

/// The last line of `watch` on a terminal: the present state of each scope, and how long it has lasted.
struct WatchStatus {
    private struct State {
        var path = NetworkPath.unknown
        var clock = StatusClock()
    }

    /// The longest time between two drawings: another job may have left the terminal meanwhile.
    private static let longestWait = Duration.seconds(60)

    private let names: [String]
    private let style: TextStyle
    /// The states by scope.
    private var states: [State]

    init(scopes: [Scope], style: TextStyle) {
        names = scopes.map(\.description)
        self.style = style
        states = scopes.map { _ in State() }
    }

    /// Records a transition.
    ///
    /// - Parameter hasGap: `true` if transitions before it were lost.
    mutating func note(_ transition: Transition, ofScopeAt index: Int, hasGap: Bool) {
        _ = states[index].clock.elapsed(before: transition, hasGap: hasGap)
        states[index].path = transition.current
    }

    /// Returns the line with as much detail as the columns hold; `nil` before the first baseline.
    func line(at now: BootInstant, columns: Int) -> StyledText? {
        let known = zip(names, states).filter { $1.clock.since != nil }
        guard !known.isEmpty else { return nil }
        var forms = Detail.allCases.map { detail in
            joined(known.map { parts(of: $1, named: names.count > 1 ? $0 : nil, detail, at: now) })
        }
        if known.count > 1 { forms.append(summary(of: known)) }
        return (forms.first { $0.columns <= columns } ?? forms.last)?.fitted(to: columns, style)
    }

    /// Returns the time until the line is to be drawn again; `nil` before the first baseline.
    func nextChange(after now: BootInstant) -> Duration? {
        states.compactMap(\.clock.since).map { Age(of: $0, at: now).untilChange }.min().map { min($0, Self.longestWait) }
    }

    private enum Detail: CaseIterable {
        case full
        case brief
        case state
    }

    private func parts(of state: State, named name: String?, _ detail: Detail, at now: BootInstant) -> [StyledText.Part] {
        let status = state.path.status
        let age = "\(state.clock.isExact ? "" : "at least ")\(Age(of: state.clock.since ?? now, at: now).text)"
        let description = description(of: state.path, detail)
        return (name.map { [.init("\($0) ")] } ?? []) + [
            .init("\(style.sign(status)) \(status.word)", status),
            .init(" \(age)\(description.map { status == .unsatisfied ? ": \($0)" : " \($0)" } ?? "")"),
        ]
    }

    private func description(of path: NetworkPath, _ detail: Detail) -> String? {
        switch detail {
        case _ where path.status == .unknown: nil
        case .full: path.summary
        case .brief: path.status == .satisfied ? path.interface.map { "via \($0.name)" } : path.summary
        case .state: nil
        }
    }

    private func joined(_ scopes: [[StyledText.Part]]) -> StyledText {
        StyledText(Array(scopes.joined(separator: [.init(style.hasUnicode ? " · " : " | ")])))
    }

    /// Returns the numbers of scopes by status, with the names of those that are not online first.
    private func summary(of known: [(String, State)]) -> StyledText {
        let groups: [[StyledText.Part]] = [NetworkPath.Status.unsatisfied, .unknown, .satisfied].compactMap { status in
            let members = known.filter { $1.path.status == status }.map(\.0)
            guard !members.isEmpty else { return nil }
            let label = StyledText.Part("\(style.sign(status)) \(members.count) \(status.word)", status)
            return [label] + (status == .satisfied ? [] : [.init(": \(members.joined(separator: ", "))")])
        }
        return joined(groups)
    }
}

/// An elapsed time for people: it changes each second, after an hour each minute, and after a day each hour.
struct Age: Hashable {
    /// The text, rounded down: `5s`, `2m 5s`, `3h 4m`, `2d 3h`.
    let text: String
    /// The time until the text changes.
    let untilChange: Duration

    /// Returns the time since an instant.
    init(of instant: BootInstant, at now: BootInstant) { self.init(max(instant.duration(to: now), .zero)) }

    /// Returns an elapsed time.
    init(_ elapsed: Duration) {
        let elapsed = min(elapsed, DurationArgument.longest)
        let seconds = elapsed.components.seconds
        text = seconds == 0 ? "0s" : durationText(.seconds(seconds))
        let step: Int64 =
            switch seconds {
            case ..<3600: 1
            case ..<86_400: 60
            default: 3600
            }
        untilChange = .seconds((seconds / step + 1) * step) - elapsed
    }
}
