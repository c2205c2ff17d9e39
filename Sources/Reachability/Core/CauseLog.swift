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
        // As a rule there is one, and nothing to choose.
        if hints.count == 1 { return hints[0].cause }
        var best: (score: Int, hint: Hint)?
        for hint in hints {
            let score = Self.score(hint, from: old, to: new)
            if score >= best?.score ?? 0 { best = (score, hint) }
        }
        return best?.hint.cause
    }

    private static func score(_ hint: Hint, from old: NetworkPath?, to new: NetworkPath) -> Int {
        let wasSatisfied = old?.isSatisfied ?? false
        // What is lost is explained by the way it went before, what is gained by the way it goes now.
        let ways = wasSatisfied == new.isSatisfied ? [old, new] : wasSatisfied ? [old] : [new]
        let egress = ways.flatMap { [$0?.ipv4.interface?.index, $0?.ipv6.interface?.index] }
        let weight = hint.weight(
            concernsEgress: hint.interface.map { egress.contains($0.index) } ?? false,
            concernsSource: { address in ways.contains { $0?.ipv4.source == address || $0?.ipv6.source == address } })
        // A hint that takes something away explains no gain, one that adds something no loss; of what merely changes another way
        // of not working, the latest explains.
        if !wasSatisfied && !new.isSatisfied { return hint.isRoute && !new.isRefused ? min(weight, 9) : min(weight, 10) }
        if wasSatisfied == new.isSatisfied { return weight }
        return hint.takesAway == wasSatisfied || hint.takesAway == nil ? weight : weight / 10
    }
}

extension Hint {
    /// Whether it takes something away or adds something; `nil` if that cannot be told.
    fileprivate var takesAway: Bool? {
        switch kind {
        case .linkRemoved: true
        case .linkAppeared: false
        case .link(let change): change.causeKind == .linkDown ? true : change.causeKind == .linkUp ? false : nil
        case .address(_, let change): change == .removed
        case .route(let change): change.isRemoval
        case .nexthop(_, let isRemoval): isRemoval
        case .rule, .setting, .overrun, .resumed, .host: nil
        }
    }

    fileprivate var isRoute: Bool { if case .route = kind { true } else { false } }

    /// How much a hint explains.
    ///
    /// A route that the kernel announces as gone with its link or address is explained by those; of what comes, the last piece
    /// explains, so they weigh the same.
    fileprivate func weight(concernsEgress: Bool, concernsSource: (IPAddress) -> Bool) -> Int {
        let near = concernsEgress ? 10 : 0
        switch kind {
        case .resumed: return 200
        case .linkRemoved: return concernsEgress ? 100 : 30
        case .linkAppeared: return 70 + near
        case .link(.nothingOfInterest): return 2
        case .link(let change):
            return change.causeKind == .linkDown
                ? (concernsEgress ? 95 : 30) : change.causeKind == .linkUp ? 70 + near : 10 + near * 5
        case .address(let address, .removed): return concernsSource(address.address) ? 90 : 12 + near * 4
        case .address(_, .renewed): return 3
        case .address: return 70 + near
        case .route(let change): return change.isRemoval ? 85 : 70 + near
        case .nexthop: return 65
        case .rule: return 64
        case .setting: return 40
        case .overrun: return 35
        case .host: return 20
        }
    }
}

extension NetworkPath {
    /// Whether a route or rule says no, so that routes explain a change of the reason; otherwise links and addresses do.
    fileprivate var isRefused: Bool { offlineReason.map { $0 >= .noRoute } ?? false }
}
