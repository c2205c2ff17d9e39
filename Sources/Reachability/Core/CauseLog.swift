/// The events since the last quiet moment, to find the one that explains a change.
package struct CauseLog: Equatable, Sendable {
    /// The number of events that are kept: enough to explain a change.
    package static let capacity = 64

    private var events: [InterpretedEvent] = []

    package init() {}

    package var isEmpty: Bool { events.isEmpty }

    package mutating func append(_ event: InterpretedEvent) {
        if events.count == Self.capacity { events.removeFirst() }
        events.append(event)
    }

    package mutating func removeAll() {
        events.removeAll(keepingCapacity: true)
    }

    /// Removes the events whose changes an evaluation has seen: later changes have other causes.
    package mutating func removeSeen() {
        events.removeAll { !$0.mayPrecedeItsChange }
    }

    /// Returns the best explanation of a change of a path; the latest one of equals.
    ///
    /// - Parameter host: the name of the scope's host; answers about others explain nothing.
    package func best(from old: NetworkPath?, to new: NetworkPath, host: String? = nil) -> Cause? {
        // The common case.
        if events.count == 1, events[0].host == nil { return events[0].cause }
        let change = PathChange(from: old, to: new)
        var (best, bestScore) = (Int?.none, 0)
        for index in events.indices {
            if let name = events[index].host, name != host { continue }
            let score = change.score(events[index])
            if score >= bestScore { (best, bestScore) = (index, score) }
        }
        return best.map { events[$0].cause }
    }
}

/// The change of a path, reduced to the data that events are scored by.
private struct PathChange {
    /// The way of packets.
    private struct Way {
        var ipv4: UInt32?
        var ipv6: UInt32?
        var ipv4Source: IPAddress?
        var ipv6Source: IPAddress?

        init(_ path: NetworkPath?) {
            guard let path else { return }
            (ipv4, ipv6) = (path.ipv4.interface?.index, path.ipv6.interface?.index)
            (ipv4Source, ipv6Source) = (path.ipv4.source, path.ipv6.source)
        }

        func leaves(through index: UInt32) -> Bool { ipv4 == index || ipv6 == index }
        func comes(from address: IPAddress) -> Bool { ipv4Source == address || ipv6Source == address }
    }

    private let wasSatisfied: Bool
    private let isSatisfied: Bool
    private let isRefused: Bool
    /// True if only the name has got, or lost, its addresses.
    private let isOfName: Bool
    /// True if the path or one of its families was lost, false if one was gained; `nil` for neither and for both.
    private let isLoss: Bool?
    // The way before explains a loss, the way now a gain.
    private let before: Way
    private let after: Way

    init(from old: NetworkPath?, to new: NetworkPath) {
        wasSatisfied = old?.isSatisfied ?? false
        isSatisfied = new.isSatisfied
        isRefused = new.isRefused
        isOfName = (old?.offlineReason == .unresolved && new.isSatisfied) || (wasSatisfied && new.offlineReason == .unresolved)
        let families = IPAddress.Family.allCases.map { (before: old?.supports($0) ?? false, after: new.supports($0)) }
        let (hasLost, hasGained) = (families.contains { $0.before && !$0.after }, families.contains { !$0.before && $0.after })
        isLoss =
            wasSatisfied != isSatisfied ? wasSatisfied : hasLost != hasGained ? hasLost : nil
        before = Way(wasSatisfied || !isSatisfied ? old : nil)
        after = Way(isSatisfied || !wasSatisfied ? new : nil)
    }

    func score(_ event: InterpretedEvent) -> Int {
        if isOfName && event.host != nil { return .max }
        let weight = event.weight(
            concernsEgress: event.interface.map { before.leaves(through: $0.index) || after.leaves(through: $0.index) } ?? false,
            concernsSource: { before.comes(from: $0) || after.comes(from: $0) })
        // A removal explains no gain, and an addition no loss. Between two unsatisfied paths the latest event explains.
        if !wasSatisfied && !isSatisfied { return event.isRoute && !isRefused ? min(weight, 9) : min(weight, 10) }
        guard let isLoss, let takesAway = event.takesAway else { return weight }
        return takesAway == isLoss ? weight : weight / 10
    }
}

extension InterpretedEvent {
    /// True for a removal, false for an addition; `nil` if neither is known.
    fileprivate var takesAway: Bool? {
        switch kind {
        case .linkRemoved: true
        case .linkAppeared: false
        case .link(let change): change.causeKind == .linkDown ? true : change.causeKind == .linkUp ? false : nil
        case .address(let address, .madeReady): !address.isReady
        case .address(_, let change): change == .removed
        case .route(let change): change.isRemoval
        case .routeExpired: true
        case .nexthop(_, let isRemoval): isRemoval
        case .neighbour(_, let answers): !answers
        case .rule, .netconf, .overrun, .resumed, .host: nil
        }
    }

    /// The name of a host that was looked up.
    fileprivate var host: String? { if case .host(let name, _, _) = kind { name } else { nil } }

    fileprivate var isRoute: Bool { if case .route = kind { true } else { false } }

    /// Returns the weight of an event as an explanation.
    ///
    /// Links and addresses outweigh the routes that are removed with them. Additions weigh the same, because the last one
    /// completes the path.
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
        // Its removal follows.
        case .routeExpired: return 86
        case .nexthop: return 65
        case .rule: return 64
        case .netconf: return 40
        case .neighbour: return 66
        case .overrun: return 35
        case .host: return 20
        }
    }
}

extension NetworkPath {
    /// True if a route or rule refuses, so that routes explain a change of the reason; otherwise links and addresses do.
    fileprivate var isRefused: Bool { offlineReason.map { $0 >= .noRoute } ?? false }
}
