/// All that the monitor knows about one scope: its level, and what each kind of stream was told.
package struct ScopeState: Equatable, Sendable {
    package struct Publication: Equatable, Sendable {
        package var isRaw: Bool
        package var content: TransitionReducer.Publication
    }

    /// The circumstances of an evaluation.
    package struct Circumstances: Sendable {
        package var now: Duration
        package var resumed = false
        package var resynced = false

        package init(now: Duration, resumed: Bool = false, resynced: Bool = false) {
            self.now = now
            self.resumed = resumed
            self.resynced = resynced
        }
    }

    package private(set) var level = ScopeLevel()
    package private(set) var penalty = FlapPenalty()
    private var raw = TransitionReducer(lossGrace: .zero)
    private var damped: TransitionReducer
    /// How many streams and conditions need the scope.
    package var uses = 0

    /// The families of the addresses that the scope asks about.
    var families: FamilySet = []

    /// The scope's place among all: scopes that were added earlier are asked about earlier.
    package let order: UInt64

    package init(lossGrace: Duration, order: UInt64 = 0) {
        self.order = order
        damped = TransitionReducer(lossGrace: lossGrace)
    }

    package var deadline: Duration? { damped.deadline }

    package func reducer(isRaw: Bool) -> TransitionReducer { isRaw ? raw : damped }

    /// Takes in an evaluation and says what to publish, and whether the condition changed.
    package mutating func observe(
        _ path: NetworkPath, _ table: InterfaceTable, _ circumstances: Circumstances, cause: (NetworkPath?) -> Cause
    ) -> (publications: [Publication], conditionChanged: Bool) {
        let old = level.path
        let observation = level.observe(path, table, resumed: circumstances.resumed)
        if observation.lost || observation.blinked { penalty.addLoss(at: circumstances.now) }
        var publications: [Publication] = []
        // Both kinds of stream are told the same, and words are only found if there is something to tell.
        var knownCause: Cause?
        func explanation() -> Cause {
            let explanation = knownCause ?? cause(old)
            knownCause = explanation
            return explanation
        }
        func reduce(_ reducer: inout TransitionReducer, isRaw: Bool) {
            let content = reducer.reduce(
                path, blinked: observation.blinked, resumed: circumstances.resumed, resynced: circumstances.resynced,
                at: circumstances.now, cause: explanation())
            if let content { publications.append(Publication(isRaw: isRaw, content: content)) }
        }
        reduce(&raw, isRaw: true)
        reduce(&damped, isRaw: false)
        return (publications, observation.conditionChanged)
    }

    /// A held loss whose grace is over, from what is known: nobody may have answered since.
    package mutating func tellHeldLoss(at now: Duration) -> Publication? {
        guard let path = level.path,
            let content = damped.reduce(
                path, blinked: false, resumed: false, resynced: false, at: now, cause: Cause(.audit, "a periodic check found it"))
        else { return nil }
        return Publication(isRaw: false, content: content)
    }

    package mutating func end(_ cause: Cause) -> [Publication] {
        let contents = [(true, raw.end(cause)), (false, damped.end(cause))]
        return contents.compactMap { isRaw, content in content.map { Publication(isRaw: isRaw, content: $0) } }
    }
}
