import CommandKit
import Reachability

/// The verdict of `explain` as a chain: each link needs the one before it, and the first broken one is the reason.
///
/// Pure.
struct EvidenceChain: Hashable {
    /// The links, in the order in which a packet needs them.
    enum Link: String, CaseIterable {
        case interface, carrier, address, name, route, nextHop
    }

    /// The finding about a link.
    enum State: String {
        case holds, broken
        /// An earlier link is broken, or nothing is known.
        case unknown
    }

    /// A link with its finding.
    struct Step: Hashable {
        var link: Link
        var state: State
        /// The evidence; empty if there is none.
        ///
        /// Names in it are as the kernel has them.
        var detail: String
    }

    let steps: [Step]

    /// Creates the chain of an explanation.
    init(_ explanation: Explanation) {
        let path = explanation.path
        let links = Link.allCases.filter { $0 != .name || explanation.scope.host != nil }
        let broken = path.status == .unsatisfied ? path.offlineReason.map(Self.link) : nil
        let interface = Self.interface(of: explanation)
        steps = links.map { link in
            guard path.status != .unknown else { return Step(link: link, state: .unknown, detail: "") }
            let (place, end) = (Self.position(link), broken.map(Self.position) ?? .max)
            if place == end { return Step(link: link, state: .broken, detail: path.summary) }
            guard place < end else { return Step(link: link, state: .unknown, detail: "") }
            return Step(link: link, state: .holds, detail: Self.detail(of: link, interface, explanation))
        }
    }

    /// The steps as JSON, with the keys of docs/json.md.
    var json: JSONValue {
        .array(
            steps.map { step in
                .object([
                    .init("link", .string(step.link.rawValue)), .init("state", .string(step.state.rawValue)),
                    .init("detail", .string(step.detail)),
                ])
            })
    }

    private static func position(_ link: Link) -> Int { Link.allCases.firstIndex(of: link) ?? .max }

    /// Returns the link whose break is a reason.
    private static func link(_ reason: OfflineReason) -> Link {
        switch reason {
        case .noInterface, .adminDown: .interface
        case .noCarrier, .dormant: .carrier
        case .noAddress, .addressTentative: .address
        case .unresolved: .name
        default: .route
        }
    }

    /// Returns the interface that the verdict is about.
    private static func interface(of explanation: Explanation) -> NetworkInterface? {
        let path = explanation.path
        if let own = path.interface { return explanation.interfaces.first { $0.index == own.index } ?? own }
        if case .interface(let interface, _) = explanation.culprit { return interface }
        // The lookups failed above the interfaces: the one that got furthest.
        return explanation.interfaces.filter { explanation.layers[$0.index] == .noRoute }.likeliest
    }

    private static func detail(of link: Link, _ interface: NetworkInterface?, _ explanation: Explanation) -> String {
        let path = explanation.path
        let family = path.ipv4.isSatisfied ? path.ipv4 : path.ipv6
        switch link {
        case .interface: return interface.map { "\($0.name), \($0.kind.rawValue), up" } ?? ""
        case .carrier:
            guard let interface else { return "" }
            let state = RouteNames.operationalState(interface.operationalState.rawValue) ?? "\(interface.operationalState)"
            return "carrier, operational state \(state)"
        case .address:
            let ready = interface?.addresses.filter(\.isReady) ?? []
            // Link-local ones lead nowhere else.
            let global = ready.filter { !$0.address.isLinkLocal }
            return summary(of: (global.isEmpty ? ready : global).map { "\($0.address)/\($0.prefixLength)" })
        case .name:
            return summary(of: Array(Set(explanation.lookups.map { "\($0.query.destination)" })).sorted())
        case .route:
            let version: IPAddress.Family = path.ipv4.isSatisfied ? .ipv4 : .ipv6
            let destination = explanation.lookups.first { $0.isDecisive && $0.query.destination.family == version }?.query
                .destination
            let prefix = destination.flatMap { destination in family.prefixLength.map { IPPrefix(destination, length: $0) } }
            let table = family.table.map { "table \(RouteNames.table($0) ?? "\($0)")" }
            return [prefix.map { "\($0)" }, table, family.metric.map { "metric \($0)" }].compactMap(\.self).joined(separator: ", ")
        case .nextHop:
            let hop = family.gateway.map { "gateway \($0)" } ?? "on the link"
            return [hop, family.source.map { "from \($0)" }].compactMap(\.self).joined(separator: ", ")
        }
    }

    private static func summary(of texts: [String]) -> String {
        let most = 3
        guard texts.count > most else { return texts.joined(separator: ", ") }
        return texts.prefix(most).joined(separator: ", ") + " and \(texts.count - most) more"
    }
}
