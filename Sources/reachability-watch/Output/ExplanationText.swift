import Reachability

/// Writes every step of a verdict for people.
struct ExplanationText {
    let explanation: Explanation
    let style: TextStyle

    /// The lines, without their ends.
    var lines: [String] {
        var lines = ["\(style.strong(escapedForTerminal(explanation.scope.description))): \(style.verdict(explanation.path))"]
        lines += section("interfaces", explanation.interfaces.map(interface), "none")
        lines += section("look-ups", explanation.lookups.map(lookup), "none: \(obstacleToAsking)")
        lines += section("families", [family("IPv4", explanation.path.ipv4), family("IPv6", explanation.path.ipv6)], "")
        if let remedy = Remedy(explanation) {
            lines += ["", "missing: \(escapedForTerminal(remedy.missing))", "next:    \(remedy.command)"]
        }
        return lines
    }

    /// The reason for which there was nothing to look up.
    private var obstacleToAsking: String {
        explanation.path.nameLookupFailure?.description ?? explanation.path.bindingProblem?.description
            ?? "there is no address to look up"
    }

    private func section(_ title: String, _ rows: [String], _ empty: String) -> [String] {
        ["", style.strong(title)] + (rows.isEmpty ? [empty] : rows).map { "  " + escapedForTerminal($0) }
    }

    private func interface(_ interface: NetworkInterface) -> String {
        let state = RouteNames.operationalState(interface.operationalState.rawValue) ?? "\(interface.operationalState)"
        var parts = [
            interface.kind.rawValue, interface.isUp ? "up" : "shut down", interface.hasCarrier ? "carrier" : "no carrier",
            "operational state \(state)",
        ]
        parts.append(
            interface.addresses.isEmpty ? "no addresses" : interface.addresses.map(Self.address).joined(separator: " "))
        let layer = explanation.layers[interface.index]
        let end = layer.map { $0 == .noRoute ? "" : " -- stops here: \($0)" } ?? ""
        return "\(interface.index) \(interface.name): \(parts.joined(separator: ", "))\(end)"
    }

    private static func address(_ address: NetworkInterface.Address) -> String {
        let text = "\(address.address)/\(address.prefixLength)"
        if address.hasFailedDetection { return "\(text) (duplicate)" }
        guard address.isTentative else { return text }
        return address.isOptimistic ? "\(text) (optimistic)" : "\(text) (tentative)"
    }

    private func lookup(_ lookup: Explanation.Lookup) -> String {
        let question = "\(lookup.query.destination)\(qualifiers(lookup.query))"
        switch lookup.verdict {
        case .refused(let errno):
            let reason = lookup.verdict.refusalReason.map { ": \($0)" } ?? ""
            let isLast = lookup.judgement != nil
            return "\(question) -> \(errorName(errno)) (\(errorText(errno)))\(reason)\(isLast ? "" : "; asked again with a source")"
        case .route(let route):
            var parts = [route.isLocal ? "local" : nil, "dev \(name(route.interface))"].compactMap(\.self)
            parts.append(route.gateway.map { "gateway \($0)" } ?? "on link")
            parts.append(route.source.map { "source \($0)" } ?? "no source")
            parts.append("table \(RouteNames.table(route.table) ?? "\(route.table)")")
            parts += match(lookup)
            return "\(question) -> \(parts.joined(separator: ", ")): \(judgement(lookup))"
        }
    }

    /// What the table's entry tells beyond the resolved route.
    private func match(_ lookup: Explanation.Lookup) -> [String] {
        guard case .route(let match) = lookup.match else { return [] }
        var parts = ["metric \(match.metric ?? 0)"]
        if let number = match.routingProtocol { parts.append("protocol \(RouteNames.routingProtocol(number) ?? "\(number)")") }
        if let number = match.scope { parts.append("scope \(RouteNames.scope(number) ?? "\(number)")") }
        if let length = match.prefixLength { parts.append("matched \(IPPrefix(lookup.query.destination, length: length))") }
        return parts
    }

    private func qualifiers(_ query: RouteQuery) -> String {
        var text = query.interface.map { " bound to \(name($0))" } ?? ""
        if let mark = query.mark { text += " mark \(mark)" }
        if let uid = query.uid { text += " uid \(uid)" }
        switch query.source {
        case .unspecified: break
        case .address(let source): text += " from \(source)"
        case .selected: text += " from the address that connect(2) selects"
        }
        return text
    }

    private func judgement(_ lookup: Explanation.Lookup) -> String {
        switch lookup.judgement {
        case .usable: "usable"
        case .refused(let reason): "not usable: \(reason)"
        case .noWay: "not usable: \(obstacle(lookup))"
        case nil: "asked again from that source"
        }
    }

    /// Why a route is of no use, when it is not the kernel that says so.
    private func obstacle(_ lookup: Explanation.Lookup) -> String {
        guard case .route(let route) = lookup.verdict else { return "refused" }
        guard let interface = explanation.interfaces.first(where: { $0.index == route.interface }) else {
            return "the interface is gone"
        }
        if interface.isLoopback, !route.isLocal { return "it leads to the loopback device" }
        return "without a route the kernel takes the destination to be on the link"
    }

    private func family(_ name: String, _ path: FamilyPath) -> String {
        if path.isSatisfied { return "\(name): satisfied" }
        return path.reason.map { "\(name): unsatisfied: \($0)" } ?? "\(name): not asked about"
    }

    private func name(_ index: UInt32) -> String {
        explanation.interfaces.first { $0.index == index }?.name ?? "interface \(index)"
    }
}
