package import Reachability

/// A JSON value (RFC 8259) that keeps the order of its members.
package enum JSONValue: Hashable {
    case null
    case bool(Bool)
    /// A number in JSON notation.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// A key with its value.
    package struct Member: Hashable {
        package var key: String
        package var value: JSONValue

        package init(_ key: String, _ value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    /// Returns a whole number.
    package static func integer(_ value: some BinaryInteger) -> JSONValue { .number("\(value)") }

    /// Returns a number, or `null` for NaN and infinities, which JSON lacks.
    package static func double(_ value: Double) -> JSONValue { value.isFinite ? .number("\(value)") : .null }

    /// Returns a duration in seconds, exact to the nanosecond.
    package static func seconds(_ duration: Duration) -> JSONValue {
        let (seconds, attoseconds) = duration.components
        let nanoseconds = abs(attoseconds / 1_000_000_000)
        let sign = seconds < 0 || attoseconds < 0 ? "-" : ""
        return .number("\(sign)\(seconds.magnitude).\(zeroPadded(nanoseconds, 9))")
    }

    /// Returns a string, or `null`.
    package static func optional(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }
}

extension JSONValue: CustomStringConvertible {
    /// The value on one line, without white space.
    package var description: String {
        var text = ""
        // A transition takes some 800 bytes.
        text.reserveCapacity(1024)
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .number(let value): text += value
        case .string(let value): ForeignText(value).writeJSON(to: &text)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                ForeignText(member.key).writeJSON(to: &text)
                text += ":"
                member.value.write(to: &text)
            }
            text += "}"
        }
    }
}

extension JSONValue {
    /// Returns a line of `explain`, with the keys of docs/json.md.
    package static func explanation(_ explanation: Explanation) -> JSONValue {
        let remedy = Remedy(explanation)
        return .object([
            Member("scope", .string(explanation.scope.description)),
            Member("path", path(explanation.path)),
            Member("interfaces", .array(explanation.interfaces.map { interface($0, explanation.layers[$0.index]) })),
            Member("lookups", .array(explanation.lookups.map { lookup($0, explanation) })),
            Member("missing", .optional(remedy?.missing)),
            Member("next", .optional(remedy?.command)),
            Member(
                "notChecked",
                .array(
                    explanation.caveats.map {
                        .object([Member("kind", .string($0.kind.rawValue)), Member("detail", .string($0.detail))])
                    })),
        ])
    }

    private static func interface(_ interface: NetworkInterface, _ layer: OfflineReason?) -> JSONValue {
        .object([
            Member("index", .integer(interface.index)),
            Member("name", .string(interface.name)),
            Member("altNames", .array(interface.alternativeNames.map(JSONValue.string))),
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
        if !lookup.notAsked.isEmpty {
            members.append(Member("notAsked", .array(lookup.notAsked.map { .string("\($0)") })))
        }
        members += answer(lookup, explanation)
        if !lookup.failingHops.isEmpty { members.append(Member("failingHops", .array(lookup.failingHops.map(failingHop)))) }
        return .object(members)
    }

    private static func failingHop(_ hop: FailingNextHop) -> JSONValue {
        var members = [Member("interface", .string(hop.interface.name))]
        if let gateway = hop.gateway { members.append(Member("gateway", .string("\(gateway)"))) }
        members.append(Member("reason", .optional(hop.reason?.rawValue)))
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

    /// Returns an interface's name, or `null` if it is gone.
    private static func name(_ index: UInt32, _ explanation: Explanation) -> JSONValue {
        .optional(explanation.interfaces.first { $0.index == index }?.name)
    }
}

extension JSONValue {
    /// Returns a line of `watch`, with the keys of docs/json.md.
    ///
    /// - Parameter isContinued: True for a baseline that repeats the state of the lines before it.
    package static func transition(_ transition: Transition, of scope: Scope, isContinued: Bool = false) -> JSONValue {
        var members = [
            Member("event", .string(transition.isBaseline ? "baseline" : "transition")),
            Member("sequence", .integer(transition.sequence)),
            Member("epoch", .integer(transition.epoch)),
            Member("time", time(transition.wallTime)),
            Member("scope", .string(scope.description)),
            Member("kinds", .array(transition.kinds.names.map(JSONValue.string))),
            Member("path", path(transition.current)),
        ]
        if let previous = transition.previous {
            members.append(Member("previous", path(previous)))
        }
        // A baseline has a cause only if nothing is known.
        if !transition.isBaseline || transition.cause.kind != .started {
            members.append(Member("cause", cause(transition.cause)))
        }
        members.append(Member("at", .seconds(transition.at.sinceBoot)))
        members.append(Member("flapPenalty", .double(transition.flapPenalty)))
        if !transition.isBaseline { members.append(Member("losses", .integer(transition.losses))) }
        if isContinued { members.append(Member("continued", .bool(true))) }
        return .object(members)
    }

    /// Returns a line of a log that is about the watch itself: `alive` or `end`.
    package static func watch(_ event: String, _ moment: Moment) -> JSONValue {
        .object([
            Member("event", .string(event)), Member("time", time(moment.wallTime)), Member("at", .seconds(moment.at.sinceBoot)),
        ])
    }

    /// Returns a time of day; `null` for the one of a monitor that ended before its first event.
    private static func time(_ wallTime: Duration) -> JSONValue {
        .optional(wallTime == .zero ? nil : CalendarTime(wallTime).rfc3339)
    }

    /// Returns a line of `status`.
    package static func status(_ path: NetworkPath, of scope: Scope) -> JSONValue {
        .object([Member("scope", .string(scope.description)), Member("path", self.path(path))])
    }

    /// Returns a line of `replay` for a file that holds events alone.
    package static func event(_ cause: Cause, at wallTime: Duration) -> JSONValue {
        .object([
            Member("event", .string("hint")), Member("time", .string(CalendarTime(wallTime).rfc3339)),
            Member("cause", self.cause(cause)),
        ])
    }

    private static func cause(_ cause: Cause) -> JSONValue {
        var members = [Member("kind", .string(cause.kind.rawValue)), Member("detail", .string(cause.detail))]
        if let interface = cause.interface { members.append(Member("interface", .string(interface.name))) }
        return .object(members)
    }
}

extension JSONValue {
    /// Returns a path, with the keys of docs/json.md.
    package static func path(_ path: NetworkPath) -> JSONValue {
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
        add("partial", path.partialReason.map { .string($0.rawValue) })
        add("source", path.source.map { .string("\($0)") })
        add("table", path.table.map { .integer($0) })
        add("metric", path.metric.map { .integer($0) })
        add("prefixLength", path.prefixLength.map { .integer($0) })
        add("reason", path.isSatisfied ? nil : path.reason.map { .string($0.rawValue) })
        return .object(members)
    }
}
