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
    }

    /// The last evaluation; `nil` before the first.
    package private(set) var path: NetworkPath?
    package private(set) var epoch: UInt64 = 0
    /// Whether the last evaluation found no way.
    package var isUnsatisfied: Bool { path.map { !$0.isSatisfied } ?? false }
    /// The carrier-change counter of a link.
    private struct Counter: Equatable {
        var link: UInt32
        var changes: UInt32
    }

    /// The counters of the links that packets leave through, by family.
    private struct Counters: Equatable {
        var ipv4: Counter?
        var ipv6: Counter?
    }

    /// The counters at the last evaluation.
    private var carrierChanges = Counters()

    package init() {}

    /// Takes in an evaluation.
    ///
    /// The epoch grows by one at most, whatever came together.
    package mutating func observe(_ new: NetworkPath, _ table: InterfaceTable, resumed: Bool) -> Observation {
        var observation = Observation()
        let counters = Counters(ipv4: Self.counter(new.ipv4, table), ipv6: Self.counter(new.ipv6, table))
        defer {
            path = new
            carrierChanges = counters
        }
        guard let old = path else {
            if new.isSatisfied { epoch = 1 }
            observation.conditionChanged = true
            return observation
        }
        observation.lost = old.isSatisfied && !new.isSatisfied
        observation.blinked =
            old.isSatisfied && new.isSatisfied
            && (hasMoved(counters.ipv4) || hasMoved(counters.ipv6))
        let advances =
            resumed || observation.blinked || (!old.isSatisfied && new.isSatisfied)
            || IPAddress.Family.allCases.contains { new[$0].isNewEpoch(since: old[$0]) }
        if advances { epoch &+= 1 }
        observation.conditionChanged = advances || old.isSatisfied != new.isSatisfied
        return observation
    }

    /// Whether a link that packets left through before, over either family, has another counter now.
    private func hasMoved(_ counter: Counter?) -> Bool {
        guard let counter else { return false }
        let known = carrierChanges.ipv4?.link == counter.link ? carrierChanges.ipv4 : carrierChanges.ipv6
        return known.map { $0.link == counter.link && $0 != counter } ?? false
    }

    private static func counter(_ path: FamilyPath, _ table: InterfaceTable) -> Counter? {
        guard let link = path.interface?.index else { return nil }
        return table[link].map { Counter(link: link, changes: $0.carrierChanges) }
    }
}
