import CommandKit
import Reachability

/// The histories of all scopes, from observations of any source: files of `watch`, or another store.
struct Report {
    /// The number of scopes that are kept.
    static let scopeLimit = 64
    /// The time within which a watch writes the first states of its scopes; those of hosts wait for name servers.
    private static let beginning = Duration.seconds(60)

    /// The beginning and the end of the period; `nil` for those of the observations.
    let from: Duration?
    let until: Duration?
    /// The scopes to keep; all if empty.
    let selected: Set<String>
    /// The scopes that were seen, in their order; at most ``scopeLimit``.
    private(set) var scopes: [String] = []
    /// The number of observations with a state.
    private(set) var observations = 0
    /// The number of observations of further scopes.
    private(set) var unlisted = 0

    private var timelines: [String: Timeline] = [:]
    /// The scopes that each stream watches, with the time of their last beginning.
    private var watched: [Int: [String: Duration]] = [:]

    init(from: Duration? = nil, until: Duration? = nil, scopes: Set<String> = []) {
        (self.from, self.until, selected) = (from, until, scopes)
    }

    /// Adds an observation.
    ///
    /// - Parameter stream: The source of watches that follow each other, such as a log with its older files. An observation
    ///   of one scope shows that its other scopes are watched, too.
    mutating func add(_ observation: Observation, from stream: Int = 0) {
        if observation.hasState {
            observations += 1
            guard isKnown(observation.scope) else { return }
            noteScope(of: observation, in: stream)
            timelines[observation.scope]?.add(observation)
            // A watch that begins shows nothing about the scopes of the one before.
            if !observation.beginsWatch { extendOthers(observation, in: stream) }
        } else {
            for scope in (watched[stream] ?? [:]).keys { timelines[scope]?.add(observation) }
            if observation.kind == .end { watched[stream] = [:] }
        }
    }

    /// Returns the histories in the order in which their scopes were seen, all of one period.
    ///
    /// - Parameter end: The end of the period, unless it has one; `nil` for the last observation.
    func finish(at end: Duration? = nil) -> [TimelineSummary] {
        let ordered = scopes.compactMap { timelines[$0] }
        let extents = ordered.compactMap(\.extent)
        let start = extents.map(\.start).min()
        return ordered.map { $0.finish(from: start, at: end ?? extents.map(\.end).max() ?? .zero) }
    }

    /// Returns true if the scope is kept; begins its history if it is new.
    private mutating func isKnown(_ scope: String) -> Bool {
        if timelines[scope] != nil { return true }
        guard scopes.contains(scope) || scopes.count < Self.scopeLimit else {
            unlisted += 1
            return false
        }
        if !scopes.contains(scope) { scopes.append(scope) }
        // As the lines name it, or as text output shows it.
        guard selected.isEmpty || selected.contains(scope) || selected.contains(ForeignText(scope).terminal) else { return false }
        timelines[scope] = Timeline(scope: scope, from: from, until: until)
        return true
    }

    private mutating func noteScope(of observation: Observation, in stream: Int) {
        let (scope, time) = (observation.scope, observation.time)
        if observation.beginsWatch {
            // Another watch need not have the same scopes.
            watched[stream] = watched[stream]?.filter { $0.value > time - Self.beginning }
        }
        if observation.kind == .baseline || watched[stream]?[scope] == nil { watched[stream, default: [:]][scope] = time }
    }

    private mutating func extendOthers(_ observation: Observation, in stream: Int) {
        for scope in (watched[stream] ?? [:]).keys where scope != observation.scope { timelines[scope]?.extend(to: observation) }
    }
}
