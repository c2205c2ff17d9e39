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
