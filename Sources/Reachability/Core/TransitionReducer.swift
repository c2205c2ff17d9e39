/// Turns the evaluations of one scope into the transitions of one kind of stream: raw, or with losses held back for a grace.
package struct TransitionReducer: Equatable, Sendable {
    /// What is to be published, still without epoch and times.
    package struct Publication: Equatable, Sendable {
        package var sequence: UInt64
        package var previous: NetworkPath?
        package var current: NetworkPath
        package var kinds: Transition.Kinds
        package var cause: Cause
    }

    private struct Hold: Equatable {
        var until: Duration
        var cause: Cause
    }

    package let lossGrace: Duration
    /// What listeners were last told; `nil` before the baseline.
    package private(set) var published: NetworkPath?
    package private(set) var sequence: UInt64 = 0
    private var hold: Hold?
    /// Kinds that belong to a change which is still held back.
    private var pending: Transition.Kinds = []

    package init(lossGrace: Duration) {
        self.lossGrace = max(.zero, lossGrace)
    }

    /// When a held loss is due, if there is one.
    package var deadline: Duration? { hold?.until }

    /// Makes an unknown path the baseline, if there is none yet.
    package mutating func goBlind() { published = published ?? .unknown }

    /// Takes in an evaluation, or the same path again because time has passed.
    package mutating func reduce(
        _ path: NetworkPath, blinked: Bool, resumed: Bool, resynced: Bool, at now: Duration, cause: @autoclosure () -> Cause
    ) -> Publication? {
        guard let old = published else {
            published = path
            return nil
        }
        if resumed { pending.insert(.resumed) }
        var kinds = path.kinds(since: old)
        if kinds.contains(.offline) {
            let held = hold ?? Hold(until: now.saturatingAdd(lossGrace), cause: cause())
            if resynced { pending.insert(.resynced) }
            guard now >= held.until else {
                hold = held
                return nil
            }
            return publish(path, kinds, held.cause)
        }
        if blinked || hold != nil { kinds.insert(.reestablished) }
        guard !kinds.isEmpty || !pending.isDisjoint(with: .resumed) else {
            published = path
            return nil
        }
        if resynced { pending.insert(.resynced) }
        return publish(path, kinds, cause())
    }

    /// Takes in what was found about the path that was published last.
    package mutating func revalidate(_ finding: PathValidation, _ cause: Cause) -> Publication? {
        guard var path = published, hold == nil, path.isSatisfied, path.validation != finding else { return nil }
        path.validation = finding
        return publish(path, .validationChanged, cause)
    }

    /// The end: listeners are told that nothing is known any more.
    package mutating func end(_ cause: Cause) -> Publication? {
        published == nil || published?.status == .unknown ? nil : publish(.unknown, [], cause)
    }

    private mutating func publish(_ path: NetworkPath, _ kinds: Transition.Kinds, _ cause: Cause) -> Publication {
        sequence += 1
        defer {
            published = path
            hold = nil
            pending = []
        }
        return Publication(sequence: sequence, previous: published, current: path, kinds: kinds.union(pending), cause: cause)
    }
}
