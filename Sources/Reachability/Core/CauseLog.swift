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
        let isLoss = (old?.isSatisfied ?? false) && !new.isSatisfied
        // What is lost is explained by the way it went before, what is gained by the way it goes now.
        let egress = Set([old, isLoss ? nil : new].flatMap { [$0?.ipv4.interface?.index, $0?.ipv6.interface?.index] }.compactMap(\.self))
        let concernsEgress = hint.interface.map { egress.contains($0.index) } ?? false
        let sources = [old?.ipv4.source, old?.ipv6.source, new.ipv4.source, new.ipv6.source]
        switch hint.kind {
        case .resumed: return 200
        case .linkRemoved: return concernsEgress ? 100 : 20
        case .linkAppeared: return isLoss ? 5 : 60
        case .link(let change):
            switch change.causeKind {
            case .linkDown: return concernsEgress ? 95 : isLoss ? 30 : 15
            case .linkUp: return (isLoss ? 10 : 70) + (concernsEgress ? 10 : 0)
            default: return change == .nothingOfInterest ? 2 : concernsEgress ? 60 : 10
            }
        case .address(let address, let change):
            let isOurs = sources.contains(address.address)
            switch change {
            case .removed: return isOurs ? 90 : concernsEgress ? 55 : 12
            case .added, .madeReady: return (isLoss ? 8 : 72) + (isOurs ? 12 : 0)
            case .renewed: return 3
            }
        // A route that the kernel announces as gone with its link or address is explained by those, which score higher.
        case .route(let change): return change.isRemoval ? (isLoss ? 80 : 50) : 78
        case .nexthop: return 65
        case .rule: return 64
        case .setting: return 40
        case .overrun: return 35
        }
    }
}
