import Reachability

extension JSONValue {
    /// A line of `watch`, with the keys that Documentation/json.md lists.
    static func transition(_ transition: Transition, of scope: Scope) -> JSONValue {
        var members = [
            Member("event", .string(transition.isBaseline ? "baseline" : "transition")),
            Member("sequence", .integer(transition.sequence)),
            Member("epoch", .integer(transition.epoch)),
            Member("time", .optional(transition.wallTime == .zero ? nil : CalendarTime(transition.wallTime).rfc3339)),
            Member("scope", .string(scope.description)),
            Member("kinds", .array(transition.kinds.names.map(JSONValue.string))),
            Member("path", path(transition.current)),
        ]
        if let previous = transition.previous {
            members.append(Member("previous", path(previous)))
        }
        // A baseline is explained if nothing is known.
        if !transition.isBaseline || transition.cause.kind != .started {
            members.append(Member("cause", cause(transition.cause)))
        }
        members.append(Member("at", .seconds(transition.at.sinceBoot)))
        members.append(Member("flapPenalty", .double(transition.flapPenalty)))
        return .object(members)
    }

    /// A line of `status`.
    static func status(_ path: NetworkPath, of scope: Scope) -> JSONValue {
        .object([Member("scope", .string(scope.description)), Member("path", self.path(path))])
    }

    /// A line of `replay` about a file that holds events alone.
    static func event(_ cause: Cause, at wallTime: Duration) -> JSONValue {
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
