import Glibc
package import Reachability

/// The facts of a transition that hooks get: the word of their only argument, and variables of their environment.
package struct HookFacts: Hashable, Sendable {
    /// The present status: `online`, `offline` or `unknown`.
    package let status: String
    /// The values of the variables by name, without the prefix; names without a value are absent.
    package let values: [String: [UInt8]]

    /// The prefix of the variables' names.
    package static let prefix = "REACHABILITY_"

    /// The names of all variables, without the prefix.
    package static let names = [
        "EVENT", "STATUS", "PREVIOUS_STATUS", "SCOPE", "REASON", "KINDS", "INTERFACE", "GATEWAY", "SOURCE", "CAUSE", "CAUSE_KIND",
        "SEQUENCE", "EPOCH", "TIME", "DURATION", "HOOK",
    ]

    /// Creates the facts of a transition.
    ///
    /// Names are bytes as the kernel has them, so that a hook can pass them on; the cause is a sentence for people, and escaped.
    ///
    /// - Parameter elapsed: The time since the status changed before this transition; `nil` for a baseline.
    package init(_ transition: Transition, of scope: Scope, elapsed: Duration?) {
        let path = transition.current
        let family = path.ipv4.isSatisfied ? path.ipv4 : path.ipv6
        // As in JSON, a baseline has a cause only if nothing is known.
        let cause = transition.isBaseline && transition.cause.kind == .started ? nil : transition.cause
        let kinds = transition.kinds.names.joined(separator: " ")
        let texts: [String: String?] = [
            "EVENT": transition.isBaseline ? "baseline" : "transition", "STATUS": path.status.word,
            "PREVIOUS_STATUS": transition.previous?.status.word, "REASON": path.offlineReason?.rawValue,
            "KINDS": kinds.isEmpty ? nil : kinds, "GATEWAY": path.isSatisfied ? family.gateway.map { "\($0)" } : nil,
            "SOURCE": path.isSatisfied ? family.source.map { "\($0)" } : nil,
            "CAUSE": cause.map { ForeignText($0.detail).terminal }, "CAUSE_KIND": cause?.kind.rawValue,
            "SEQUENCE": "\(transition.sequence)", "EPOCH": "\(transition.epoch)",
            "TIME": transition.wallTime == .zero ? nil : CalendarTime(transition.wallTime).rfc3339,
            "DURATION": elapsed.map { "\(JSONValue.seconds($0))" },
        ]
        var values = texts.compactMapValues { $0.map { Array($0.utf8) } }
        values["SCOPE"] = ForeignText(name: scope.description).environmentValue
        values["INTERFACE"] = path.interface.map { ForeignText(name: $0.name).environmentValue }
        (status, self.values) = (path.status.word, values)
    }

    /// Returns an environment: the inherited one with these variables, and without those that have no value.
    ///
    /// - Parameters:
    ///   - inherited: The variables of this program, as `NAME=VALUE`.
    ///   - hook: The path of a hook of a directory.
    package func environment(inherited: [[UInt8]], hook: [UInt8]? = nil) -> [[UInt8]] {
        var values = values
        values["HOOK"] = hook
        let names = Set(Self.names.map { Array("\(Self.prefix)\($0)".utf8) })
        let kept = inherited.filter { !names.contains(Array($0.prefix { $0 != UInt8(ascii: "=") })) }
        return kept
            + Self.names.compactMap { name in values[name].map { Array("\(Self.prefix)\(name)=".utf8) + $0 } }
    }
}

extension NetworkPath.Status {
    /// The status in a word: `online`, `offline` or `unknown`.
    package var word: String {
        switch self {
        case .satisfied: "online"
        case .unsatisfied: "offline"
        case .unknown: "unknown"
        }
    }
}
