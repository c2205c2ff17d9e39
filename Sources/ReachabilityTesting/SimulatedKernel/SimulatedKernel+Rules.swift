public import Reachability

extension SimulatedKernel {
    /// A policy rule (ip-rule(8)).
    public struct Rule: Hashable, Sendable {
        /// The action of a rule.
        public enum Action: Hashable, Sendable {
            /// Searches a table; continues with the next rule if no route is found.
            case lookup(table: UInt32)
            /// Refuses with ENETUNREACH, unlike a route of this type.
            case unreachable
            /// Refuses with EACCES.
            case prohibit
            /// Refuses with EINVAL.
            case blackhole
        }

        /// The family of the lookups.
        public var family: IPAddress.Family
        /// The priority: the rule with the least number is asked first.
        public var priority: UInt32
        /// The prefix of the source address.
        ///
        /// An IPv4 lookup without a source matches as 0.0.0.0; an IPv6 one matches only a prefix of length 0.
        public var source: IPPrefix?
        /// The prefix of the destination.
        public var destination: IPPrefix?
        /// The firewall mark of the socket.
        public var mark: UInt32?
        /// The users of the socket.
        public var uids: ClosedRange<UInt32>?
        /// The transport protocol (`ipproto`).
        public var transport: Scope.Transport?
        /// The destination ports (`dport`); a lookup without a port does not match.
        public var ports: ClosedRange<UInt16>?
        /// True for a rule that applies to all lookups that the fields above do not match (`not`).
        public var isInverted = false
        /// The prefix length up to which found routes are passed over (`suppress_prefixlength`); 0 passes over default routes.
        public var suppressedLength: Int?
        /// The action.
        public var action: Action

        /// Makes a rule, by default one for all IPv4 lookups.
        public init(
            priority: UInt32, family: IPAddress.Family = .ipv4, from source: IPPrefix? = nil, to destination: IPPrefix? = nil,
            mark: UInt32? = nil, uids: ClosedRange<UInt32>? = nil, transport: Scope.Transport? = nil,
            ports: ClosedRange<UInt16>? = nil, _ action: Action
        ) {
            self.family = family
            self.priority = priority
            self.source = source
            self.destination = destination
            self.mark = mark
            self.uids = uids
            self.transport = transport
            self.ports = ports
            self.action = action
        }

        /// The number of the local table (RT_TABLE_LOCAL).
        static let localTable: UInt32 = 255

        /// The kernel's first rules: the local table, the main table, and for IPv4 the table named default.
        static let initial: [Rule] = [
            Rule(priority: 0, .lookup(table: localTable)), Rule(priority: 0, family: .ipv6, .lookup(table: localTable)),
            Rule(priority: 32_766, .lookup(table: Route.mainTable)),
            Rule(priority: 32_766, family: .ipv6, .lookup(table: Route.mainTable)),
            Rule(priority: 32_767, .lookup(table: 253)),
        ]

        /// Returns `true` if the kernel treats the other rule as a duplicate: it ignores prefixes that the other rule lacks
        /// (fib4_rule_compare(), net/ipv4/fib_rules.c, and the same for IPv6), and `not` (rule_exists(), net/core/fib_rules.c).
        func rejects(_ other: Rule) -> Bool {
            func isSame(_ own: IPPrefix?, _ other: IPPrefix?) -> Bool { (other?.length ?? 0) == 0 || own == other }
            return family == other.family && priority == other.priority && mark == other.mark && uids == other.uids
                && transport == other.transport && ports == other.ports && action == other.action
                && suppressedLength == other.suppressedLength && isSame(source, other.source)
                && isSame(destination, other.destination)
        }

        /// Returns `true` if the rule applies to a lookup (fib_rule_match(), net/core/fib_rules.c).
        func matches(_ query: RouteQuery, uid: UInt32) -> Bool {
            family == query.destination.family && selects(query, uid: uid) != isInverted
        }

        private func selects(_ query: RouteQuery, uid: UInt32) -> Bool {
            if let source, source.length > 0 {
                // IPv4 compares 0.0.0.0 if there is no source; IPv6 then does not match (fib6_rule_match,
                // net/ipv6/fib6_rules.c).
                guard let from = query.namedSource ?? (family == .ipv4 ? IPAddress(family: family, value: 0) : nil) else {
                    return false
                }
                if !source.contains(from) { return false }
            }
            if let destination, !destination.contains(query.destination) { return false }
            if let mark, mark != query.mark ?? 0 { return false }
            if let transport, transport != query.transport { return false }
            if let ports, !ports.contains(query.port ?? 0) { return false }
            return uids?.contains(query.uid ?? uid) ?? true
        }
    }

    /// Adds a policy rule after those of the same priority, like `ip rule add`.
    ///
    /// Refuses a rule that differs from an existing one only in lacking a prefix, as the kernel does. Announces the rule and
    /// nothing else, whatever becomes unreachable.
    public mutating func addRule(_ rule: Rule) throws(SimulationError) {
        let operation = "addRule(priority: \(rule.priority))"
        for prefix in [rule.source, rule.destination] {
            guard prefix.map({ $0.address.family == rule.family }) ?? true else {
                throw SimulationError(operation, "the prefixes must be of the rule's family (EINVAL)")
            }
        }
        guard !rules.contains(where: { $0.rejects(rule) }) else {
            throw SimulationError(operation, "an equal rule exists, or one that differs only in its prefixes (EEXIST)")
        }
        let place = rules.firstIndex { $0.priority > rule.priority } ?? rules.endIndex
        rules.insert(rule, at: place)
        announce(.rule(isRemoval: false))
    }

    /// Removes the first policy rule of a priority and announces only that, like `ip rule del`.
    public mutating func removeRule(priority: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        guard let place = rules.firstIndex(where: { $0.priority == priority && $0.family == family }) else {
            throw SimulationError("removeRule(priority: \(priority))", "no such rule exists (ENOENT)")
        }
        rules.remove(at: place)
        announce(.rule(isRemoval: true))
    }
}
