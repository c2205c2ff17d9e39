public import Reachability

extension SimulatedKernel {
    /// A policy rule, as of ip-rule(8): which look-ups it is for, and what becomes of them.
    public struct Rule: Hashable, Sendable {
        /// What a rule does with the look-ups that it is for.
        public enum Action: Hashable, Sendable {
            /// Searches a table; the next rule is asked if nothing is found there.
            case lookup(table: UInt32)
            /// Refuses with ENETUNREACH, unlike the route of this type.
            case unreachable
            /// Refuses with EACCES.
            case prohibit
            /// Refuses with EINVAL.
            case blackhole
        }

        /// The family of the look-ups.
        public var family: IPAddress.Family
        /// Its place: the rule with the least number is asked first.
        public var priority: UInt32
        /// Where packets must come from.
        ///
        /// A lookup without a source counts as one from 0.0.0.0 over IPv4; over IPv6 only a prefix of length 0 fits it.
        public var source: IPPrefix?
        /// Where packets must go.
        public var destination: IPPrefix?
        /// The firewall mark that the socket must have.
        public var mark: UInt32?
        /// The users that the socket must belong to.
        public var uids: ClosedRange<UInt32>?
        /// The transport protocol that packets must have (`ipproto`).
        public var transport: Scope.Transport?
        /// The ports that packets must go to (`dport`); a lookup without a port fits none.
        public var ports: ClosedRange<UInt16>?
        /// What it does.
        public var action: Action

        /// Makes a rule, by default one for all look-ups of IPv4.
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

        /// What the kernel begins with: the local table, main, and for IPv4 the table that is named default.
        static let initial: [Rule] = [
            Rule(priority: 0, .lookup(table: localTable)), Rule(priority: 0, family: .ipv6, .lookup(table: localTable)),
            Rule(priority: 32_766, .lookup(table: Route.mainTable)),
            Rule(priority: 32_766, family: .ipv6, .lookup(table: Route.mainTable)),
            Rule(priority: 32_767, .lookup(table: 253)),
        ]

        /// Whether the kernel takes another rule for the same as this one: prefixes that the other one lacks do not count
        /// (fib4_rule_compare(), net/ipv4/fib_rules.c, and its like for IPv6).
        func forestalls(_ other: Rule) -> Bool {
            func isSame(_ own: IPPrefix?, _ other: IPPrefix?) -> Bool { (other?.length ?? 0) == 0 || own == other }
            return family == other.family && priority == other.priority && mark == other.mark && uids == other.uids
                && transport == other.transport && ports == other.ports && action == other.action && isSame(source, other.source)
                && isSame(destination, other.destination)
        }

        /// Whether the rule is for a look-up (fib_rule_match(), net/core/fib_rules.c).
        func isFor(_ query: RouteQuery, uid: UInt32) -> Bool {
            guard family == query.destination.family else { return false }
            if let source, source.length > 0 {
                // IPv4 compares with 0.0.0.0, IPv6 only a source that there is (fib6_rule_match, net/ipv6/fib6_rules.c).
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

    /// Adds a policy rule, like `ip rule add`: after those of the same priority.
    ///
    /// One that differs from a present one only in having no prefix is refused, as by the kernel.
    ///
    /// It is announced; nothing else is, whatever becomes unreachable.
    public mutating func addRule(_ rule: Rule) throws(SimulationError) {
        let operation = "addRule(priority: \(rule.priority))"
        for prefix in [rule.source, rule.destination] {
            guard prefix.map({ $0.address.family == rule.family }) ?? true else {
                throw SimulationError(operation, "its prefixes must be of the rule's family (EINVAL)")
            }
        }
        guard !rules.contains(where: { $0.forestalls(rule) }) else {
            throw SimulationError(operation, "there is the same one already, or one that differs in prefixes alone (EEXIST)")
        }
        let place = rules.firstIndex { $0.priority > rule.priority } ?? rules.endIndex
        rules.insert(rule, at: place)
        announce(.rule(isRemoval: false))
    }

    /// Removes the first policy rule of a priority, like `ip rule del`.
    ///
    /// It is announced; nothing else is.
    public mutating func removeRule(priority: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        guard let place = rules.firstIndex(where: { $0.priority == priority && $0.family == family }) else {
            throw SimulationError("removeRule(priority: \(priority))", "there is no such rule (ENOENT)")
        }
        rules.remove(at: place)
        announce(.rule(isRemoval: true))
    }
}
