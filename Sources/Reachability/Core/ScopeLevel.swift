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
    /// The carrier-change counters of the links that packets left through, at the last evaluation.
    private var carrierChanges: [UInt32: UInt32] = [:]

    package init() {}

    /// Takes in an evaluation.
    ///
    /// The epoch grows by one at most, whatever came together.
    package mutating func observe(_ new: NetworkPath, _ table: InterfaceTable, resumed: Bool) -> Observation {
        var observation = Observation()
        let counters = Self.counters(new, table)
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
            && counters.contains { carrierChanges[$0.key].map { [now = $0.value] in $0 != now } ?? false }
        let advances =
            resumed || observation.blinked || (!old.isSatisfied && new.isSatisfied)
            || IPAddress.Family.allCases.contains { new[$0].isNewEpoch(since: old[$0]) }
        if advances { epoch &+= 1 }
        observation.conditionChanged = advances || old.isSatisfied != new.isSatisfied
        return observation
    }

    private static func counters(_ path: NetworkPath, _ table: InterfaceTable) -> [UInt32: UInt32] {
        var counters: [UInt32: UInt32] = [:]
        for family in IPAddress.Family.allCases {
            if let index = path[family].interface?.index { counters[index] = table[index]?.carrierChanges }
        }
        return counters
    }
}
