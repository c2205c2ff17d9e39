package import Reachability

/// The missing layer, and a command for the next step.
package struct Remedy: Hashable {
    /// The missing thing.
    package let missing: String
    /// A command to try; changes something only where that is easy to undo.
    package let command: String

    /// Returns the remedy for an unsatisfied scope, or for one with a next hop that fails; `nil` for any other.
    package init?(_ explanation: Explanation) {
        guard let reason = explanation.path.offlineReason else {
            guard let words = Self.words(mending: explanation.failingNextHops, explanation) else { return nil }
            (missing, command) = words
            return
        }
        let question = Question(explanation, reason)
        let spares = explanation.lookups.filter(\.isSpare)
        switch explanation.culprit {
        case .interface(let dead, .noCarrier) where !spares.isEmpty:
            missing = "carrier on \(dead.name), whose route precedes the working one\(Self.through(spares, explanation))"
            // Lookups skip such routes then (fib_table_lookup, net/ipv4/fib_trie.c; find_match, net/ipv6/route.c).
            command = "sysctl " + spares.map { Self.ignoringDeadRoutes($0.query.destination.family) }.joined(separator: " ")
        case .interface(let interface, let layer):
            (missing, command) = Self.words(layer, interface, explanation, question)
        case .gone(let name):
            (missing, command) = ("\(name), which led there: it is gone", "ip link show")
        case .oneOf(let stops) where reason < .noRoute && !stops.isEmpty:
            missing = "an interface that leads there: \(stops.facts())"
            command = "ip link show; ip \(question.family) route show table all"
        case .oneOf(let stops) where !stops.isEmpty:
            let (words, next) = Self.words(reason, nil, explanation, question)
            (missing, command) = ("\(words); \(stops.facts())", "ip link show; \(next)")
        case .oneOf, nil:
            (missing, command) = Self.words(reason, nil, explanation, question)
        }
    }

    /// Returns the missing parts of next hops that fail, with a command; `nil` if none fails.
    private static func words(
        mending hops: [FailingNextHop], _ explanation: Explanation
    ) -> (missing: String, command: String)? {
        guard !hops.isEmpty else { return nil }
        var (lacks, families, settings, others): ([String], [String], [String], [String]) = ([], [], [], [])
        func add(_ text: String, to list: inout [String]) {
            if !list.contains(text) { list.append(text) }
        }
        for hop in hops {
            let name = hop.interface.name
            let device = canBeTyped(name) ? " dev \(name)" : ""
            let hasCarrier = explanation.interfaces.first { $0.index == hop.interface.index }?.hasCarrier ?? true
            add(hop.family == .ipv6 ? "IPv6" : "IPv4", to: &families)
            switch hop.reason {
            case .noCarrier where !hasCarrier:
                add("carrier on \(name)", to: &lacks)
                // Then only a change of a next hop moves the shares (rebalance, fib_sync_up, net/ipv4/fib_semantics.c).
                if hop.isSkipped {
                    add("ip -details link show\(device)", to: &others)
                } else {
                    add(ignoringDeadRoutes(hop.family), to: &settings)
                }
            case let reason?:
                add("another state of \(name), which \(reason.predicate)", to: &lacks)
                add("ip -details link show\(device)", to: &others)
            case nil:
                add("an answer of gateway \(hop.gateway.map { "\($0)" } ?? "") on \(name)", to: &lacks)
                // IPv6 heeds it always (rt6_check_neigh, net/ipv6/route.c).
                if hop.family == .ipv4 {
                    add("net.ipv4.fib_multipath_use_neigh=1", to: &settings)
                } else {
                    add("ip -6 neighbour show\(device)", to: &others)
                }
            }
        }
        let setting = settings.isEmpty ? [] : ["sysctl " + settings.joined(separator: " ")]
        return (
            "\(lacks.joined(separator: ", ")): a part of the \(families.joined(separator: " and ")) connections goes there",
            (setting + others).joined(separator: "; ")
        )
    }

    /// True if the words name what stops, so that they say more than the reason of a verdict.
    package static func namesCulprit(of explanation: Explanation) -> Bool {
        guard let reason = explanation.path.offlineReason else { return true }
        switch explanation.culprit {
        case .interface, .gone: return true
        case .oneOf(let stops): return reason < .noRoute && !stops.isEmpty
        case nil: return explanation.path.obstacle == nil && explanation.leadsToLoopback
        }
    }

    /// Returns the missing layer, of an interface if one is known, with a command.
    private static func words(
        _ layer: OfflineReason, _ interface: NetworkInterface?, _ explanation: Explanation, _ question: Question
    ) -> (missing: String, command: String) {
        let device = interface.map { canBeTyped($0.name) ? " dev \($0.name)" : "" } ?? ""
        let of = interface.map { " of \($0.name)" } ?? ""
        let below = explanation.path.obstacle?.egress.map { ", below \($0.name)" } ?? ""
        let on = interface.map { " on \($0.name)\(below)" } ?? ""
        switch layer {
        case .noInterface:
            let missing =
                switch explanation.path.obstacle {
                case .missing(let name): "an interface named \(name)"
                case .loopback(let name): "another interface: \(name) is the loopback interface and reaches no other host"
                default: explanation.path.obstacle?.description ?? "a network interface"
                }
            return (missing, "ip link show")
        case .adminDown:
            return (
                "an interface that is set up\(interface.map { ": \($0.name)\(below) is shut down" } ?? "")",
                device.isEmpty ? "ip link show" : "ip link set\(device) up"
            )
        case .noCarrier:
            // Only tun and tap devices lose their carrier, with the program that opened them (drivers/net/tun.c).
            let missing =
                interface?.kind == .tunnel
                ? "the program that holds\(interface.map { " \($0.name)" } ?? " the tunnel"): it has ended"
                : "carrier\(on): plug in the cable, or join a wireless network"
            return (missing, "ip -details link show\(device)")
        case .dormant:
            return (
                "the release\(of): it waits for 802.1X, a bond or the device below it", "ip -details link show\(device)"
            )
        case .noAddress:
            return (
                missingAddress(on, interface, question),
                "ip\(question.ownFamily.map { " \($0)" } ?? "") address show\(device)"
            )
        case .addressTentative:
            return ("the end of duplicate address detection\(on): it takes about a second", "ip -6 address show\(device)")
        case .unresolved:
            return lookingUp(explanation.scope.host, explanation.path.nameLookupFailure)
        case .unreachable, .prohibited, .blackhole:
            return (
                "a way around the \(routeType(layer)) route or rule",
                "ip \(question.family) route show table all type \(routeType(layer)); ip \(question.family) rule show"
                    + question.routeGet
            )
        default:
            let missing =
                explanation.leadsToLoopback
                ? "a route to another machine: this one leads to the loopback interface"
                : layer == .noRoute ? "a route that the rules select, such as a default route" : layer.description
            return (
                missing,
                "ip \(question.family) route show table all\(question.device); ip \(question.family) rule show"
                    + question.routeGet
            )
        }
    }

    /// Returns the interfaces of working routes: ` through wlan0`.
    private static func through(_ spares: [Explanation.Lookup], _ explanation: Explanation) -> String {
        let indices = spares.compactMap(\.query.interface)
        let names = explanation.interfaces.filter { indices.contains($0.index) }.map(\.name)
        return " through \(names.joined(separator: " and "))"
    }

    /// Returns the setting that makes lookups of a family skip routes without carrier.
    private static func ignoringDeadRoutes(_ family: IPAddress.Family) -> String {
        "net.\(family == .ipv6 ? "ipv6" : "ipv4").conf.all.ignore_routes_with_linkdown=1"
    }

    /// Returns the missing address, by what stands in its place.
    private static func missingAddress(_ on: String, _ interface: NetworkInterface?, _ question: Question) -> String {
        let duplicates = interface?.addresses.filter(\.hasFailedDetection).map { "\($0.address)" } ?? []
        if !duplicates.isEmpty {
            return "another address\(on): another machine has \(duplicates.joined(separator: " and ")), too"
        }
        // disable_ipv6, and an MTU below 1280, remove even the address of the link (net/ipv6/addrconf.c).
        let lacksIPv6 = interface?.addresses.contains { $0.address.family == .ipv6 } == false
        let isOff = "disable_ipv6 is set, or the MTU is below 1280"
        switch question.ownFamily {
        case nil where lacksIPv6: return "an address\(on): it has none of IPv4, and IPv6 is off (\(isOff))"
        case option(.ipv6)? where lacksIPv6: return "IPv6\(on): \(isOff)"
        default: break
        }
        if question.family == option(.ipv4) { return "an address\(on): is a DHCP client running?" }
        return "an address\(on): does a router announce one?"
    }

    /// The option of ip(8) for a family.
    private static func option(_ family: IPAddress.Family) -> String { family == .ipv6 ? "-6" : "-4" }

    /// Returns the missing part of a name lookup, and a command that repeats it with getaddrinfo(3).
    private static func lookingUp(_ host: String?, _ failure: NameLookupFailure?) -> (missing: String, command: String) {
        let name = host ?? "the host"
        let lookUp = host.map { canBeTyped($0) ? "getent ahosts \($0)" : "getent ahosts" } ?? "getent ahosts"
        let servers = "cat /etc/resolv.conf; \(lookUp)"
        switch failure {
        case .notFound: return ("an address of \(name): the name does not exist; check its spelling", lookUp)
        case .noAnswer: return ("a name server that answers: no answer about \(name)", servers)
        case .refused: return ("a name server that knows \(name): the server refuses to answer", servers)
        case .notAsked: return ("an address of \(name): it was not looked up yet", lookUp)
        default: return ("an address of \(name): the name does not exist, or no name server answers", lookUp)
        }
    }

    /// Returns `true` for a name without a special meaning to shells and ip(8).
    fileprivate static func canBeTyped(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.first != UInt8(ascii: "-")
            && name.utf8.allSatisfy { harmlessBytes.contains($0) }
    }

    private static let harmlessBytes = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@".utf8)

    private static func routeType(_ reason: OfflineReason) -> String {
        switch reason {
        case .unreachable: "unreachable"
        case .prohibited: "prohibit"
        default: "blackhole"
        }
    }
}

extension Remedy {
    /// The scope as arguments of ip(8).
    private struct Question {
        /// The option for the failing family.
        let family: String
        /// The option for the scope's own family; `nil` if it has none.
        let ownFamily: String?
        /// The arguments that restrict a list to the scope's interface.
        let device: String
        /// The command that repeats the lookup with the scope's mark and user, after a semicolon: rules may select by these.
        let routeGet: String

        init(_ explanation: Explanation, _ reason: OfflineReason) {
            let scope = explanation.scope
            let own: IPAddress.Family? = if case .address(let address) = scope.destination { address.family } else { nil }
            let failing = own ?? explanation.path.failingFamily(reason)
            family = Remedy.option(failing)
            ownFamily = own.map(Remedy.option)
            let name = scope.interface.flatMap { Remedy.canBeTyped($0) ? $0 : nil }
            device = name.map { " dev \($0)" } ?? ""
            let lookup =
                explanation.decisiveFailure(over: failing) ?? explanation.lookups.first { $0.query.destination.family == failing }
            let destination = lookup?.query.destination
            guard let destination, scope.mark != nil || scope.uid != nil else {
                routeGet = ""
                return
            }
            var words = "; ip \(family) route get \(destination)"
            if let name { words += " oif \(name)" }
            if let mark = scope.mark { words += " mark 0x\(hexadecimal(mark, digits: 1))" }
            if let uid = scope.uid { words += " uid \(uid)" }
            routeGet = words
        }
    }
}

extension Explanation {
    /// The interface to mend; `nil` if none is missing.
    package var culprit: Culprit? {
        // An interface cannot mend a route that leads nowhere.
        leadsToLoopback ? nil : Culprit(of: path, scope, to: lookups.map(\.query.destination), lostEgress, interfaces)
    }

    /// True if the route that decided leads to the loopback interface, although the destination is another machine.
    package var leadsToLoopback: Bool {
        guard let reason = path.offlineReason, case .route(let route) = decisiveFailure(over: path.failingFamily(reason))?.verdict
        else { return false }
        return !route.isLocal && interfaces.contains { $0.index == route.interface && $0.isLoopback }
    }

    /// Returns the lookup whose answer is the reason of a family.
    package func decisiveFailure(over family: IPAddress.Family) -> Explanation.Lookup? {
        lookups.first { lookup in
            guard lookup.isDecisive, lookup.query.destination.family == family else { return false }
            if case .usable = lookup.judgement { return false }
            return true
        }
    }
}
