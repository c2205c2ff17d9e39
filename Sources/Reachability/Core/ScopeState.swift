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

/// What a scope's raw path is and was: the level and epoch that conditions show.
package struct ScopeLevel: Equatable, Sendable {
    /// What one evaluation changed.
    package struct Observation: Equatable, Sendable {
        /// The egress link lost its carrier and got it back between two evaluations.
        package var blinked = false
        /// Satisfied before and not now.
        package var lost = false
        /// The level or the epoch changed.
        package var conditionChanged = false
        /// The evaluation before; `nil` for the first.
        package var old: NetworkPath?
        /// Level and epoch afterwards, as conditions show them.
        package var state = Condition.State()
    }

    /// How packets of one family leave: what of it level and epoch depend on.
    private struct Way: Equatable {
        var link: UInt32?
        var source: IPAddress?
        /// The link's carrier-change counter, if it was in the table.
        var carrierChanges: UInt32?

        init?(_ path: NetworkPath, _ family: IPAddress.Family, _ table: InterfaceTable) {
            guard path.supports(family) else { return nil }
            (link, source) = (path.link(over: family), path.source(over: family))
            carrierChanges = link.flatMap(table.position).map { table.all[$0].carrierChanges }
        }
    }

    /// The last evaluation; `nil` before the first.
    package private(set) var path: NetworkPath?
    package private(set) var epoch: UInt64 = 0
    /// Whether the path's details were read.
    package private(set) var isDescribed = true
    private var ipv4: Way?
    private var ipv6: Way?

    package init() {}

    /// Whether the last evaluation found no way.
    package var isUnsatisfied: Bool { path.map { !$0.isSatisfied } ?? false }

    /// Level and epoch as conditions show them.
    package var state: Condition.State {
        path.map { Condition.State(isSatisfied: $0.isSatisfied, epoch: epoch) } ?? Condition.State()
    }

    /// Takes in an evaluation.
    ///
    /// The epoch grows by one at most, whatever came together.
    package mutating func observe(_ new: NetworkPath, _ table: InterfaceTable, resumed: Bool) -> Observation {
        var observation = Observation(old: path)
        let isSatisfied = new.isSatisfied
        let (newIPv4, newIPv6) = (Way(new, .ipv4, table), Way(new, .ipv6, table))
        if let old = path {
            let wasSatisfied = old.isSatisfied
            observation.lost = wasSatisfied && !isSatisfied
            observation.blinked = wasSatisfied && isSatisfied && (hasBlinked(newIPv4) || hasBlinked(newIPv6))
            let advances =
                resumed || observation.blinked || (!wasSatisfied && isSatisfied)
                || Self.differ(ipv4, newIPv4) || Self.differ(ipv6, newIPv6)
            if advances { epoch &+= 1 }
            observation.conditionChanged = advances || wasSatisfied != isSatisfied
        } else {
            if isSatisfied { epoch = 1 }
            observation.conditionChanged = true
        }
        (path, ipv4, ipv6) = (new, newIPv4, newIPv6)
        observation.state = Condition.State(isSatisfied: isSatisfied, epoch: epoch)
        return observation
    }

    /// Takes over the same path with the details that were read later, all of them or not.
    package mutating func describe(_ path: NetworkPath, isComplete: Bool) { (self.path, isDescribed) = (path, isComplete) }

    /// Whether connections of a family cannot have survived: another interface (by index, so not a rename) or source.
    private static func differ(_ old: Way?, _ new: Way?) -> Bool {
        guard let old, let new else { return false }
        return old.link != new.link || old.source != new.source
    }

    /// Whether the link lost its carrier and got it back, if packets left through it before, over either family.
    private func hasBlinked(_ way: Way?) -> Bool {
        guard let way, let link = way.link, let changes = way.carrierChanges else { return false }
        let known = ipv4?.link == link ? ipv4 : ipv6
        guard let known, known.link == link, let knownChanges = known.carrierChanges else { return false }
        return knownChanges != changes
    }
}

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
