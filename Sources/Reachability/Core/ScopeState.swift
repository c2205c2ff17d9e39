/// All that the monitor knows about one scope: its level, and what each kind of stream was told.
package struct ScopeState: Equatable, Sendable {
    package struct Publication: Equatable, Sendable {
        package var isRaw: Bool
        package var content: TransitionReducer.Publication
        package var epoch: UInt64
        package var penalty: FlapPenalty
    }

    /// What of an evaluation is news.
    package struct News: Sendable {
        package var raw: Publication?
        package var damped: Publication?
        /// The condition, if it changed.
        package var condition: Condition.State?
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

    /// Takes in an evaluation and says what of it is news.
    package mutating func observe(
        _ path: NetworkPath, _ table: InterfaceTable, _ circumstances: Circumstances, cause: (NetworkPath?) -> Cause
    ) -> News {
        let old = level.path
        let observation = level.observe(path, table, resumed: circumstances.resumed)
        if observation.lost || observation.blinked { penalty.addLoss(at: circumstances.now) }
        // Both kinds of stream are told the same, and words are only found if there is something to tell.
        var knownCause: Cause?
        func explanation() -> Cause {
            let explanation = knownCause ?? cause(old)
            knownCause = explanation
            return explanation
        }
        func reduce(_ reducer: inout TransitionReducer) -> TransitionReducer.Publication? {
            reducer.reduce(
                path, blinked: observation.blinked, resumed: circumstances.resumed, resynced: circumstances.resynced,
                at: circumstances.now, cause: explanation())
        }
        var news = News()
        if let content = reduce(&raw) { news.raw = publication(content, isRaw: true) }
        if let content = reduce(&damped) { news.damped = publication(content, isRaw: false) }
        if observation.conditionChanged { news.condition = Condition.State(isSatisfied: path.isSatisfied, epoch: level.epoch) }
        return news
    }

    private func publication(_ content: TransitionReducer.Publication, isRaw: Bool) -> Publication {
        Publication(isRaw: isRaw, content: content, epoch: level.epoch, penalty: penalty)
    }

    /// A held loss whose grace is over, from what is known: nobody may have answered since.
    package mutating func tellHeldLoss(at now: Duration) -> Publication? {
        guard let path = level.path,
            let content = damped.reduce(
                path, blinked: false, resumed: false, resynced: false, at: now, cause: Cause(.audit, "a periodic check found it"))
        else { return nil }
        return publication(content, isRaw: false)
    }

    package mutating func end(_ cause: Cause) -> [Publication] {
        let contents = [(true, raw.end(cause)), (false, damped.end(cause))]
        return contents.compactMap { isRaw, content in content.map { publication($0, isRaw: isRaw) } }
    }
}
