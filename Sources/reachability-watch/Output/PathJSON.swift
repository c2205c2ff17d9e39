import Reachability

extension JSONValue {
    /// A path, with the keys that Documentation/json.md lists.
    static func path(_ path: NetworkPath) -> JSONValue {
        var members = [
            Member("status", .string(path.status.rawValue)),
            Member("reason", .optional(path.offlineReason?.rawValue)),
            Member("interface", .optional(path.interface?.name)),
            Member("ipv4", family(path.ipv4)),
            Member("ipv6", family(path.ipv6)),
        ]
        if let failure = path.nameLookupFailure { members.append(Member("nameLookup", .string(failure.rawValue))) }
        return .object(members)
    }

    private static func family(_ path: FamilyPath) -> JSONValue {
        var members = [Member("satisfied", .bool(path.isSatisfied))]
        func add(_ key: String, _ value: JSONValue?) {
            if let value { members.append(Member(key, value)) }
        }
        add("interface", path.interface.map { .string($0.name) })
        add("gateway", path.gateway.map { .string("\($0)") })
        add("source", path.source.map { .string("\($0)") })
        add("table", path.table.map { .integer($0) })
        add("metric", path.metric.map { .integer($0) })
        add("prefixLength", path.prefixLength.map { .integer($0) })
        add("reason", path.isSatisfied ? nil : path.reason.map { .string($0.rawValue) })
        return .object(members)
    }
}
