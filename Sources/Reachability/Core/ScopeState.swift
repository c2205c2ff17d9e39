/// All that the monitor knows about one scope: its level, and what each kind of stream was told.
package struct ScopeState: Equatable, Sendable {
    package struct Publication: Equatable, Sendable {
        package var isRaw: Bool
        package var content: TransitionReducer.Publication
        package var epoch: UInt64
        package var penalty: FlapPenalty
    }

    /// What of an evaluation is news to streams.
    package struct News: Sendable {
        package var raw: Publication?
        package var damped: Publication?
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
    package private(set) var steadiness: Steadiness
    private var raw = TransitionReducer(lossGrace: .zero)
    private var damped: TransitionReducer
    /// How many streams and conditions need the scope.
    package var uses = 0

    /// The families of the addresses that the scope asks about.
    var families: FamilySet = []

    /// The scope's place among all: scopes that were added earlier are asked about earlier.
    package let order: UInt64

    /// - Parameter steadiness: the steadiness of a scope that is known already; a new scope has no edges of its own.
    package init(lossGrace: Duration, order: UInt64 = 0, steadiness: Steadiness = Steadiness()) {
        self.order = order
        self.steadiness = steadiness
        damped = TransitionReducer(lossGrace: lossGrace)
    }

    /// Counts one use less, and returns whether that was the last one.
    mutating func loseUse() -> Bool {
        uses -= 1
        return uses == 0
    }

    /// Has listeners told that nothing is known, as the baseline of streams that have none yet.
    mutating func goBlind() {
        raw.goBlind()
        damped.goBlind()
    }

    package var deadline: Duration? { damped.deadline }

    package func reducer(isRaw: Bool) -> TransitionReducer { isRaw ? raw : damped }

    /// Takes in an evaluation: what it means for level and epoch, and so for conditions.
    ///
    /// What streams are told of it is found by ``report(_:_:_:cause:)``, which has to follow.
    package mutating func observe(
        _ path: NetworkPath, _ table: InterfaceTable, resumed: Bool, at now: Duration
    ) -> ScopeLevel.Observation {
        let epoch = level.epoch
        let observation = level.observe(path, table, resumed: resumed)
        if observation.old != nil && level.epoch != epoch { steadiness.noteEdge(at: now) }
        return observation
    }

    /// Ends unsteadiness whose time is over; returns whether it ended.
    mutating func settleDown(at now: Duration) -> Bool {
        guard steadiness.steadyAt != nil else { return false }
        steadiness.advance(to: now)
        return steadiness.steadyAt == nil
    }

    /// The time at which a scope becomes steady; `nil` if it is, or while it is unsatisfied: then an edge comes first.
    var steadyAt: Duration? { level.isUnsatisfied ? nil : steadiness.steadyAt }

    /// Takes over the path that was observed with the details that were read since, complete or not.
    package mutating func describe(_ path: NetworkPath, isComplete: Bool) { level.describe(path, isComplete: isComplete) }

    /// Says what of an evaluation is news to streams.
    ///
    /// - Parameters:
    ///   - path: what was observed, with its details.
    ///   - observation: what it meant for level and epoch.
    package mutating func report(
        _ path: NetworkPath, _ observation: ScopeLevel.Observation, _ circumstances: Circumstances, cause: () -> Cause
    ) -> News {
        if observation.lost || observation.blinked { penalty.addLoss(at: circumstances.now) }
        // Both kinds of stream are told the same, and words are only found if there is something to tell.
        var knownCause: Cause?
        func explanation() -> Cause {
            let explanation = knownCause ?? cause()
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

    /// What was found about the path that was published last, for each kind of stream.
    package mutating func revalidate(_ finding: PathValidation, _ cause: Cause) -> [Publication] {
        let contents = [(true, raw.revalidate(finding, cause)), (false, damped.revalidate(finding, cause))]
        return contents.compactMap { isRaw, content in content.map { publication($0, isRaw: isRaw) } }
    }

    package mutating func end(_ cause: Cause) -> [Publication] {
        let contents = [(true, raw.end(cause)), (false, damped.end(cause))]
        return contents.compactMap { isRaw, content in content.map { publication($0, isRaw: isRaw) } }
    }
}
