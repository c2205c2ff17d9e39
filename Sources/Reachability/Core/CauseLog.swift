/// The hints since things were last quiet, to tell which of them explains a change.
package struct CauseLog: Equatable, Sendable {
    /// Enough to explain; a flood of hints explains nothing more.
    package static let capacity = 64

    private var hints: [Hint] = []

    package init() {}

    package var isEmpty: Bool { hints.isEmpty }

    package mutating func append(_ hint: Hint) {
        if hints.count == Self.capacity { hints.removeFirst() }
        hints.append(hint)
    }

    package mutating func removeAll() {
        hints.removeAll(keepingCapacity: true)
    }

    /// The hint that explains best how a path became another one; of equals the latest.
    package func best(from old: NetworkPath?, to new: NetworkPath) -> Cause? {
        var best: (score: Int, hint: Hint)?
        for hint in hints {
            let score = Self.score(hint, from: old, to: new)
            if score >= best?.score ?? 0 { best = (score, hint) }
        }
        return best?.hint.cause
    }

    private static func score(_ hint: Hint, from old: NetworkPath?, to new: NetworkPath) -> Int {
        let wasSatisfied = old?.isSatisfied ?? false
        let isLoss = wasSatisfied && !new.isSatisfied
        let isGain = !wasSatisfied && new.isSatisfied
        // What is lost is explained by the way it went before, what is gained by the way it goes now.
        let indices = [isGain ? nil : old, isLoss ? nil : new].flatMap { [$0?.ipv4.interface?.index, $0?.ipv6.interface?.index] }
        let concernsEgress = hint.interface.map { indices.contains($0.index) } ?? false
        let sources = [old?.ipv4.source, old?.ipv6.source, new.ipv4.source, new.ipv6.source]
        /// A hint that takes something away explains no gain, one that adds something no loss.
        func score(_ base: Int, takesAway: Bool) -> Int {
            (takesAway ? isGain : isLoss) ? base / 10 : base
        }
        switch hint.kind {
        case .resumed: return 200
        case .linkRemoved: return score(concernsEgress ? 100 : 20, takesAway: true)
        case .linkAppeared: return score(60, takesAway: false)
        case .link(let change):
            switch change.causeKind {
            case .linkDown: return score(concernsEgress ? 95 : 30, takesAway: true)
            case .linkUp: return score(concernsEgress ? 80 : 70, takesAway: false)
            default: return change == .nothingOfInterest ? 2 : concernsEgress ? 60 : 10
            }
        case .address(let address, let change):
            let isOurs = sources.contains(address.address)
            switch change {
            case .removed: return score(isOurs ? 90 : concernsEgress ? 55 : 12, takesAway: true)
            case .added, .madeReady: return score(isOurs ? 84 : 72, takesAway: false)
            case .renewed: return 3
            }
        // A route that the kernel announces as gone with its link or address is explained by those, which score higher.
        case .route(let change): return score(change.isRemoval ? 85 : 78, takesAway: change.isRemoval)
        case .nexthop(_, let isRemoval): return score(65, takesAway: isRemoval)
        case .rule: return 64
        case .setting: return 40
        case .overrun: return 35
        }
    }
}
