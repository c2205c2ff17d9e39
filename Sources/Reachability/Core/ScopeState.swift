/// The state of one scope: its level, and the last transition of each kind of stream.
package struct ScopeState: Equatable, Sendable {
    /// The transitions of both kinds of stream.
    package typealias Published = (raw: Transition?, damped: Transition?)

    package private(set) var level = ScopeLevel()
    package private(set) var penalty = FlapPenalty()
    package private(set) var steadiness: Steadiness
    private var raw = TransitionReducer()
    private var damped: TransitionReducer
    /// The number of streams and conditions that use the scope.
    package var uses = 0

    /// The families of the scope's addresses.
    var families: FamilySet = []

    /// The scope's place among all: scopes that were added earlier are looked up earlier.
    package let order: UInt64

    /// - Parameter steadiness: the steadiness of a scope that is known already; a new scope has no edges of its own.
    package init(lossGrace: Duration, order: UInt64 = 0, steadiness: Steadiness = Steadiness()) {
        self.order = order
        self.steadiness = steadiness
        damped = TransitionReducer(lossGrace: lossGrace)
    }

    /// Counts one use less.
    ///
    /// - Returns: true if that was the last one.
    mutating func loseUse() -> Bool {
        uses -= 1
        return uses == 0
    }

    /// Makes an unknown path the baseline of streams that have none.
    mutating func goBlind() {
        raw.goBlind()
        damped.goBlind()
    }

    /// The time at which a held transition is published; `nil` if none is held.
    package var deadline: Duration? { damped.deadline }

    /// True while a loss is held.
    var holdsLoss: Bool { damped.holdsLoss }

    package func reducer(isRaw: Bool) -> TransitionReducer { isRaw ? raw : damped }

    /// Applies a verdict to level and epoch, and so to conditions.
    ///
    /// Call ``publish(_:_:resynced:at:wallTime:cause:)`` next.
    package mutating func observe(_ path: NetworkPath, _ table: InterfaceTable, resumed: Bool, at now: Duration) -> ScopeChange {
        let epoch = level.epoch
        var change = level.observe(path, table, resumed: resumed)
        if change.old != nil && level.epoch != epoch { steadiness.noteEdge(at: now) }
        change.isUnsteady = steadiness.steadyAt != nil
        return change
    }

    /// Ends unsteadiness whose time is over.
    ///
    /// - Returns: true if it ended.
    mutating func settleDown(at now: Duration) -> Bool {
        guard steadiness.steadyAt != nil else { return false }
        steadiness.advance(to: now)
        return steadiness.steadyAt == nil
    }

    /// The time at which the scope becomes steady; `nil` if it is, or while it is unsatisfied: then an edge comes first.
    var steadyAt: Duration? { level.isUnsatisfied ? nil : steadiness.steadyAt }

    /// The earliest end of the lifetimes of the routes that decide about the path.
    private(set) var expiry: Duration?
    /// True if a route may have got another lifetime since the details were read.
    private(set) var hasOldLifetimes = false

    /// Takes over the observed path with its details.
    ///
    /// - Parameter expiry: the earliest end of its routes' lifetimes; `nil` if the details were not read again.
    package mutating func describe(_ path: NetworkPath, isComplete: Bool, expiry: Duration??) {
        level.describe(path, isComplete: isComplete)
        if let expiry { (self.expiry, hasOldLifetimes) = (expiry, false) } else if !path.isSatisfied { self.expiry = nil }
    }

    /// Notes that the lifetime of a route has ended, or may be another one: the details have to be read again.
    mutating func noteOtherLifetime() { (expiry, hasOldLifetimes) = (nil, true) }

    /// Returns the transitions that follow from a verdict.
    ///
    /// - Parameters:
    ///   - path: the observed path, with its details.
    ///   - change: the change that the verdict made.
    ///   - resynced: true if events were lost before.
    package mutating func publish(
        _ path: NetworkPath, _ change: ScopeChange, resynced: Bool, at now: Duration, wallTime: Duration, cause: () -> Cause
    ) -> Published {
        if change.lost || change.blinked { penalty.addLoss(at: now) }
        // Both kinds of stream share the cause, which is found only if one of them publishes.
        var knownCause: Cause?
        func explanation() -> Cause {
            let explanation = knownCause ?? cause()
            knownCause = explanation
            return explanation
        }
        let stamp = stamp(now, wallTime)
        return (
            raw.reduce(path, change, resynced: resynced, stamp, cause: explanation()),
            damped.reduce(path, change, resynced: resynced, stamp, cause: explanation())
        )
    }

    /// Returns the held transition that is due, from the last verdict: the kernel may not answer any more.
    ///
    /// - Parameter path: the path of the last verdict, with its validation.
    package mutating func publishHeld(_ path: NetworkPath, at now: Duration, wallTime: Duration) -> Transition? {
        damped.reduce(path, ScopeChange(old: path), resynced: false, stamp(now, wallTime), cause: .audit)
    }

    /// Returns the transitions of a new validation of the published path.
    package mutating func revalidate(_ finding: PathValidation, at now: Duration, wallTime: Duration, _ cause: Cause) -> Published {
        let stamp = stamp(now, wallTime)
        return (raw.revalidate(finding, stamp, cause), damped.revalidate(finding, stamp, cause))
    }

    /// Returns the last transitions.
    package mutating func end(at now: Duration, wallTime: Duration, _ cause: Cause) -> Published {
        let stamp = stamp(now, wallTime)
        return (raw.end(stamp, cause), damped.end(stamp, cause))
    }

    private func stamp(_ now: Duration, _ wallTime: Duration) -> TransitionReducer.Stamp {
        TransitionReducer.Stamp(at: BootInstant(sinceBoot: now), wallTime: wallTime, epoch: level.epoch, penalty: penalty)
    }
}

extension Cause {
    /// The cause of a baseline.
    static let began = Cause(.started, "watching began")
    /// The cause of a change that no event explains.
    static let audit = Cause(.audit, "a periodic check found it")
    /// The cause of a change that a requested evaluation found.
    static let request = Cause(.audit, "a check after a failure found it")
}

/// The level and epoch of a scope, as conditions show them.
package struct ScopeLevel: Equatable, Sendable {
    /// The way of one family's packets, as far as level and epoch depend on it.
    private struct Way: Equatable {
        var link: UInt32?
        var source: IPAddress?
        /// The link's carrier-change counter, if it was in the table.
        var carrierChanges: UInt32?
        /// The interfaces that the link, a tunnel, stands on.
        var ground: [UInt32] = []

        init?(_ path: NetworkPath, _ family: IPAddress.Family, _ table: InterfaceTable) {
            guard path.supports(family) else { return nil }
            (link, source) = (path.link(over: family), path.source(over: family))
            carrierChanges = link.flatMap(table.position).map { table.all[$0].carrierChanges }
            if path.hasGround(over: family) { ground = path[family].ground }
        }
    }

    /// The last evaluation; `nil` before the first.
    package private(set) var path: NetworkPath?
    package private(set) var epoch: UInt64 = 0
    /// True if the path's details were read.
    package private(set) var isDescribed = true
    /// The interface that packets left through until the last loss.
    package private(set) var lostEgress: NetworkInterface.Identity?
    private var ipv4: Way?
    private var ipv6: Way?
    /// The last ground that either family found: both stand on the same, and may be evaluated one after the other.
    private var ground: [UInt32] = []

    package init() {}

    /// True if the last evaluation found no way.
    package var isUnsatisfied: Bool { path.map { !$0.isSatisfied } ?? false }

    /// Level and epoch as conditions show them.
    package var state: Condition.State {
        path.map { Condition.State(isSatisfied: $0.isSatisfied, epoch: epoch) } ?? Condition.State()
    }

    /// Applies a verdict.
    ///
    /// The epoch grows by one at most, whatever comes together.
    package mutating func observe(_ new: NetworkPath, _ table: InterfaceTable, resumed: Bool) -> ScopeChange {
        var change = ScopeChange(old: path, resumed: resumed)
        let isSatisfied = new.isSatisfied
        let (newIPv4, newIPv6) = (Way(new, .ipv4, table), Way(new, .ipv6, table))
        if let old = path {
            let wasSatisfied = old.isSatisfied
            change.lost = wasSatisfied && !isSatisfied
            if change.lost { lostEgress = old.interface?.identity }
            change.blinked = wasSatisfied && isSatisfied && (hasBlinked(newIPv4) || hasBlinked(newIPv6))
            change.changedGround = hasOtherGround(ipv4, newIPv4) || hasOtherGround(ipv6, newIPv6)
            let advances =
                resumed || change.blinked || change.changedGround || (!wasSatisfied && isSatisfied)
                || Self.differ(ipv4, newIPv4) || Self.differ(ipv6, newIPv6)
            if advances { epoch &+= 1 }
            change.conditionChanged = advances || wasSatisfied != isSatisfied
        } else {
            if isSatisfied { epoch = 1 }
            change.conditionChanged = true
        }
        if let new = newIPv4, !new.ground.isEmpty, new.ground != ipv4?.ground { ground = new.ground }
        if let new = newIPv6, !new.ground.isEmpty, new.ground != ipv6?.ground { ground = new.ground }
        (path, ipv4, ipv6) = (new, newIPv4, newIPv6)
        change.state = Condition.State(isSatisfied: isSatisfied, epoch: epoch)
        return change
    }

    /// Takes over the same path with its details, complete or not.
    package mutating func describe(_ path: NetworkPath, isComplete: Bool) { (self.path, isDescribed) = (path, isComplete) }

    /// Returns true if no connection of a family can have survived: another interface (by index, not by name) or source.
    private static func differ(_ old: Way?, _ new: Way?) -> Bool {
        guard let old, let new else { return false }
        return old.link != new.link || old.source != new.source
    }

    /// Returns true if an interface joined or left what the tunnel stands on.
    private func hasOtherGround(_ old: Way?, _ new: Way?) -> Bool {
        guard let old, let new, !old.ground.isEmpty, !new.ground.isEmpty, old.link == new.link else { return false }
        return old.ground != new.ground && new.ground != ground
    }

    /// Returns true if a link that packets left through before, over either family, lost its carrier and got it back.
    private func hasBlinked(_ way: Way?) -> Bool {
        guard let way, let link = way.link, let changes = way.carrierChanges else { return false }
        let known = ipv4?.link == link ? ipv4 : ipv6
        guard let known, known.link == link, let knownChanges = known.carrierChanges else { return false }
        return knownChanges != changes
    }
}

/// Turns the verdicts about one scope into the transitions of one kind of stream, raw or damped.
///
/// A damped stream publishes a loss after its grace, becoming satisfied at once, and every other change at once if its last
/// transition is old enough, otherwise when it is. So a flapping carrier makes four transitions a second, not a thousand. A raw
/// stream has neither a grace nor a spacing. Holds depend on time alone: no lookup is needed to publish.
package struct TransitionReducer: Equatable, Sendable {
    /// The data of a transition that the paths do not tell.
    package struct Stamp: Sendable {
        package var at: BootInstant
        package var wallTime: Duration
        package var epoch: UInt64
        package var penalty: FlapPenalty

        package init(at: BootInstant, wallTime: Duration = .zero, epoch: UInt64 = 0, penalty: FlapPenalty = FlapPenalty()) {
            (self.at, self.wallTime, self.epoch, self.penalty) = (at, wallTime, epoch, penalty)
        }
    }

    /// The relation of the last verdict to the last transition.
    private enum Phase: Equatable {
        /// The verdict is published, or differs in minor details.
        case published
        /// The path is lost; the loss is published if it outlasts its grace.
        case losing(until: Duration, Cause)
        /// Something else changed; it is published when the last transition is old enough.
        case waiting(until: Duration, Cause)

        var deadline: Duration? {
            switch self {
            case .published: nil
            case .losing(let until, _), .waiting(let until, _): until
            }
        }

        /// Holds a loss; a longer loss keeps its beginning and its cause.
        mutating func lose(until: Duration, _ cause: () -> Cause) {
            if case .losing = self { return }
            self = .losing(until: until, cause())
        }

        /// Holds another change, with the cause of the last one.
        mutating func wait(until: Duration, isNew: Bool, _ cause: () -> Cause) {
            if case .waiting = self, !isNew { return }
            self = .waiting(until: until, cause())
        }
    }

    /// The least distance of a damped transition to the one before, unless the path became satisfied.
    package static let spacing = Duration.milliseconds(250)

    private let lossGrace: Duration
    private let spacing: Duration
    /// The path that was published last; `nil` before the baseline.
    package private(set) var published: NetworkPath?
    package private(set) var sequence: UInt64 = 0
    /// The losses of the path or its carrier since the last transition.
    package private(set) var losses = 0
    private var phase = Phase.published
    /// The time of the last transition; `nil` before the first one, as the baseline is none.
    private var lastTime: Duration?
    private var publishedEpoch: UInt64 = 0
    /// The kinds to add to the next transition.
    private var pending: Transition.Kinds = []

    /// Creates the reducer of raw streams.
    package init() { (lossGrace, spacing) = (.zero, .zero) }

    /// Creates the reducer of damped streams.
    package init(lossGrace: Duration) { (self.lossGrace, spacing) = (max(.zero, lossGrace), Self.spacing) }

    /// The time at which a held transition is published; `nil` if none is held.
    package var deadline: Duration? { phase.deadline }

    /// True while a loss is held.
    package var holdsLoss: Bool { if case .losing = phase { true } else { false } }

    /// Makes an unknown path the baseline if there is none.
    package mutating func goBlind() { published = published ?? .unknown }

    /// Takes in a verdict, or the same path again because time has passed.
    package mutating func reduce(
        _ path: NetworkPath, _ change: ScopeChange, resynced: Bool, _ stamp: Stamp, cause: @autoclosure () -> Cause
    ) -> Transition? {
        guard let old = published else {
            (published, publishedEpoch) = (path, stamp.epoch)
            return nil
        }
        if change.lost || change.blinked { losses += 1 }
        if change.resumed { pending.insert(.resumed) }
        var kinds = path.kinds(since: old)
        if old.isSatisfied && path.isSatisfied,
            losses > 0 || change.changedGround || isBackOnAnotherEpoch(kinds, stamp.epoch)
        {
            kinds.insert(.reestablished)
        }
        guard !kinds.isEmpty || pending.contains(.resumed) else {
            (published, publishedEpoch, phase, pending) = (path, stamp.epoch, .published, [])
            return nil
        }
        if resynced { pending.insert(.resynced) }
        let now = stamp.at.sinceBoot
        if kinds.contains(.offline) {
            phase.lose(until: now.saturatingAdd(lossGrace), cause)
        } else {
            let due = kinds.contains(.online) ? nil : lastTime?.saturatingAdd(spacing)
            phase.wait(until: due ?? now, isNew: change.isNews(path), cause)
        }
        return publishIfDue(path, kinds, stamp)
    }

    /// Takes in a validation of the published path.
    package mutating func revalidate(_ finding: PathValidation, _ stamp: Stamp, _ cause: Cause) -> Transition? {
        guard var path = published, !holdsLoss, path.isSatisfied, path.validation != finding else { return nil }
        let now = stamp.at.sinceBoot
        path.validation = finding
        // A path that waits is published with its validation.
        let isFirst = phase == .published
        phase.wait(until: lastTime?.saturatingAdd(spacing) ?? now, isNew: true) { cause }
        return isFirst ? publishIfDue(path, .validationChanged, stamp) : nil
    }

    /// Publishes an unknown path, as the last transition.
    package mutating func end(_ stamp: Stamp, _ cause: Cause) -> Transition? {
        published == nil || published?.status == .unknown ? nil : publish(.unknown, [], stamp, cause)
    }

    /// Returns true for a change that was undone while it waited: connections of the time between are dead.
    private func isBackOnAnotherEpoch(_ kinds: Transition.Kinds, _ epoch: UInt64) -> Bool {
        guard case .waiting = phase else { return false }
        return kinds.isEmpty && !pending.contains(.resumed) && epoch != publishedEpoch
    }

    private mutating func publishIfDue(_ path: NetworkPath, _ kinds: Transition.Kinds, _ stamp: Stamp) -> Transition? {
        switch phase {
        case .losing(let due, let cause) where due <= stamp.at.sinceBoot: publish(path, kinds, stamp, cause)
        case .waiting(let due, let cause) where due <= stamp.at.sinceBoot: publish(path, kinds, stamp, cause)
        case .published, .losing, .waiting: nil
        }
    }

    private mutating func publish(
        _ path: NetworkPath, _ kinds: Transition.Kinds, _ stamp: Stamp, _ cause: Cause
    ) -> Transition {
        sequence += 1
        defer {
            (published, publishedEpoch, lastTime) = (path, stamp.epoch, stamp.at.sinceBoot)
            (phase, pending, losses) = (.published, [], 0)
        }
        return Transition(
            sequence: sequence, epoch: stamp.epoch, previous: published, current: path, kinds: kinds.union(pending), cause: cause,
            at: stamp.at, wallTime: stamp.wallTime, flapPenalty: stamp.penalty.level(at: stamp.at.sinceBoot), losses: losses)
    }
}
