extension MonitorCore {
    /// The last evaluation of a scope, if there was one.
    package func path(_ scope: Scope) -> NetworkPath? {
        guard var path = scopes[scope]?.level.path else { return nil }
        if let finding = validation?.finding, scope == .internet { path.validation = finding }
        return path
    }

    /// The condition of a scope as of its last evaluation.
    package func condition(_ scope: Scope) -> Condition.State { scopes[scope]?.level.state ?? Condition.State() }

    /// If true, the scope's path changed so often that it is not relied on yet.
    package func isUnsteady(_ scope: Scope) -> Bool { scopes[scope]?.steadiness.steadyAt != nil }

    /// Where a new listener of a stream starts; `nil` before the scope's first evaluation.
    package func baseline(_ key: StreamKey, now: BootInstant, wallTime: Duration) -> Transition? {
        if let ending {
            return Transition(
                sequence: 0, epoch: 0, previous: nil, current: .unknown, kinds: [], cause: ending, at: now, wallTime: wallTime,
                flapPenalty: 0)
        }
        guard let state = scopes[key.scope] else { return nil }
        let reducer = state.reducer(isRaw: key.isRaw)
        guard let path = reducer.published else { return nil }
        return Transition(
            sequence: reducer.sequence, epoch: state.level.epoch, previous: nil, current: path, kinds: [],
            cause: state.level.path == nil ? Cause(.blinded, health.lastFailure?.description ?? "nothing can be seen") : .began,
            at: now, wallTime: wallTime, flapPenalty: state.penalty.level(at: now.sinceBoot))
    }
}

/// One kind of stream of one scope.
package struct StreamKey: Hashable, Sendable {
    package var scope: Scope
    package var isRaw: Bool

    package init(scope: Scope, isRaw: Bool) {
        self.scope = scope
        self.isRaw = isRaw
    }
}

extension Cause {
    /// A listener began to watch.
    fileprivate static let began = Cause(.started, "watching began")
}
