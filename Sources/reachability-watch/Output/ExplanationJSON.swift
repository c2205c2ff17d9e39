import Reachability

extension JSONValue {
    /// A line of `explain`, with the keys that Documentation/json.md lists.
    static func explanation(_ explanation: Explanation) -> JSONValue {
        let remedy = Remedy(explanation)
        return .object([
            Member("scope", .string(explanation.scope.description)),
            Member("path", path(explanation.path)),
            Member("interfaces", .array(explanation.interfaces.map { interface($0, explanation.layers[$0.index]) })),
            Member("lookups", .array(explanation.lookups.map { lookup($0, explanation) })),
            Member("missing", .optional(remedy?.missing)),
            Member("next", .optional(remedy?.command)),
        ])
    }

    private static func interface(_ interface: NetworkInterface, _ layer: OfflineReason?) -> JSONValue {
        .object([
            Member("index", .integer(interface.index)),
            Member("name", .string(interface.name)),
            Member("kind", .string(interface.kind.rawValue)),
            Member("up", .bool(interface.isUp)),
            Member("carrier", .bool(interface.hasCarrier)),
            Member("operationalState", .string("\(interface.operationalState)")),
            Member("carrierChanges", .integer(interface.carrierChanges)),
            Member("stopsAt", .optional(layer == .noRoute ? nil : layer?.rawValue)),
            Member("addresses", .array(interface.addresses.map(address))),
        ])
    }

    private static func address(_ address: NetworkInterface.Address) -> JSONValue {
        .object([
            Member("address", .string("\(address.address)")),
            Member("prefixLength", .integer(address.prefixLength)),
            Member("tentative", .bool(address.isTentative)),
            Member("optimistic", .bool(address.isOptimistic)),
            Member("duplicate", .bool(address.hasFailedDetection)),
        ])
    }

    private static func lookup(_ lookup: Explanation.Lookup, _ explanation: Explanation) -> JSONValue {
        var members = [Member("destination", .string("\(lookup.query.destination)"))]
        if let index = lookup.query.interface { members.append(Member("boundTo", name(index, explanation))) }
        if let mark = lookup.query.mark { members.append(Member("mark", .integer(mark))) }
        if let uid = lookup.query.uid { members.append(Member("uid", .integer(uid))) }
        switch lookup.query.source {
        case .unspecified: break
        case .address(let source): members.append(Member("from", .string("\(source)")))
        case .selected: members.append(Member("from", .string("selected")))
        }
        switch lookup.judgement {
        case .usable: members.append(Member("usable", .bool(true)))
        case .refused, .noWay: members.append(Member("usable", .bool(false)))
        // The next lookup, with a source, decides.
        case nil: members.append(Member("usable", .null))
        }
        members += answer(lookup, explanation)
        return .object(members)
    }

    private static func answer(_ lookup: Explanation.Lookup, _ explanation: Explanation) -> [Member] {
        switch lookup.verdict {
        case .refused(let errno):
            return [Member("error", .string(errorName(errno))), Member("errno", .integer(errno))]
        case .route(let route):
            var members = [Member("interface", name(route.interface, explanation))]
            if let gateway = route.gateway { members.append(Member("gateway", .string("\(gateway)"))) }
            if let source = route.source { members.append(Member("source", .string("\(source)"))) }
            members.append(Member("table", .integer(route.table)))
            if let name = RouteNames.table(route.table) { members.append(Member("tableName", .string(name))) }
            if case .route(let match) = lookup.match {
                if let metric = match.metric { members.append(Member("metric", .integer(metric))) }
                if let number = match.routingProtocol {
                    members.append(Member("protocol", .string(RouteNames.routingProtocol(number) ?? "\(number)")))
                }
                if let number = match.scope { members.append(Member("scope", .string(RouteNames.scope(number) ?? "\(number)"))) }
                if let length = match.prefixLength { members.append(Member("prefixLength", .integer(length))) }
            }
            members.append(Member("local", .bool(route.isLocal)))
            return members
        }
    }

    /// An interface's name, or `null` if it is gone.
    private static func name(_ index: UInt32, _ explanation: Explanation) -> JSONValue {
        .optional(explanation.interfaces.first { $0.index == index }?.name)
    }
}
