import Foundation
import Glibc
import Reachability

/// An independent verdict about a scope from the documented rules: connect(2) accepts a socket of the scope, and its source and
/// interface are usable; otherwise the missing layer.
///
/// Shares no code and no method with the monitor's verdict, so that they share no mistakes.
struct PathOracle {
    /// The groups that stand for the internet.
    static let internet = [
        ["198.41.0.4", "193.0.14.129", "192.5.5.241"], ["1.1.1.1", "64.6.64.6", "45.90.28.0"],
        ["2001:503:ba3e::2:30", "2001:7fd::1"], ["2801:1b8:10::b", "2001:500:2f::f"],
    ]

    /// A scope and the groups of its destinations: one family is enough.
    ///
    /// A family needs one member of each of its groups.
    struct CheckedScope: Hashable, Sendable {
        var scope: Scope
        var groups: [[String]]

        var targets: [SocketTarget] { groups.joined().map { SocketTarget($0, as: scope) } }
        var name: String { scope.description }

        init(_ scope: Scope) {
            self.scope = scope
            switch scope.destination {
            case .internet: groups = PathOracle.internet
            case .address(let address): groups = [[address.description]]
            case .host: groups = []
            }
        }
    }

    /// The offline reasons; later ones take precedence.
    private static let order = [
        "noInterface", "adminDown", "noCarrier", "dormant", "noAddress", "addressTentative", "noRoute", "unreachable", "prohibited",
        "blackhole", "unresolved",
    ]

    /// The reason why a family does not work: from a lookup, or inferred from the interfaces.
    private struct Lack: Hashable {
        var reason: String
        var isInferred: Bool
    }

    private struct Family: Hashable {
        var verdict: Verdict.Family
        var lack: Lack?
    }

    let view: KernelView

    /// Returns the current verdicts about a scope in a namespace.
    static func verdicts(on scope: Scope, in namespace: Namespace) async throws -> Set<Verdict> {
        var checked = CheckedScope(scope)
        if let host = scope.host {
            let found = try await Child.run(["getent", "ahosts", host], allowFailure: true).output
            let addresses = found.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) }
            let sorted = Set(addresses).sorted()
            checked.groups = [sorted.filter { !$0.contains(":") }, sorted.filter { $0.contains(":") }].filter { !$0.isEmpty }
        }
        return PathOracle(view: try await .taken(of: checked.targets, in: namespace)).verdicts(checked)
    }

    /// Returns the possible verdicts about a scope: one, unless the kernel's answers vary.
    func verdicts(_ checked: CheckedScope) -> Set<Verdict> {
        if checked.groups.isEmpty {
            let layer = missing(nil, checked.scope.interface)
            let reason = Self.rank(layer) < Self.rank("noRoute") ? layer : "unresolved"
            let family = Verdict.Family(reason: reason)
            return [Verdict(status: "unsatisfied \(reason)", ipv4: family, ipv6: family)]
        }
        let ipv4 = families(checked, checked.targets.filter { !$0.isIPv6 })
        let ipv6 = families(checked, checked.targets.filter(\.isIPv6))
        return Set(ipv4.flatMap { one in ipv6.map { Self.verdict(one, $0) } })
    }

    private static func rank(_ reason: String) -> Int { order.firstIndex(of: reason) ?? -1 }

    /// Returns the later reason; a lookup's takes precedence over an inferred one.
    private static func worst(_ lacks: [Lack]) -> Lack? {
        let evident = lacks.filter { !$0.isInferred }
        return (evident.isEmpty ? lacks : evident).max { rank($0.reason) < rank($1.reason) }
    }

    private static func verdict(_ ipv4: Family, _ ipv6: Family) -> Verdict {
        let isSatisfied = ipv4.verdict.way != nil || ipv6.verdict.way != nil
        let reason = worst([ipv4.lack, ipv6.lack].compactMap(\.self))?.reason ?? "-"
        return Verdict(status: isSatisfied ? "satisfied" : "unsatisfied \(reason)", ipv4: ipv4.verdict, ipv6: ipv6.verdict)
    }

    private func families(_ checked: CheckedScope, _ targets: [SocketTarget]) -> [Family] {
        guard !targets.isEmpty else { return [Family(verdict: Verdict.Family())] }
        var combinations: [[(SocketTarget, KernelView.Answer)]] = [[]]
        for target in targets {
            combinations = combinations.flatMap { start in (view.answers[target] ?? []).map { start + [(target, $0)] } }
        }
        return Array(Set(combinations.flatMap { families(checked, $0) }))
    }

    /// Returns a family's verdicts: the way of its first group with another machine, or what the first bad group lacks.
    ///
    /// There are several if a member has several ways.
    private func families(_ checked: CheckedScope, _ answers: [(target: SocketTarget, answer: KernelView.Answer)]) -> [Family] {
        var described: (texts: [String], isLocal: Bool)?
        for group in checked.groups {
            let members = answers.filter { group.contains($0.target.destination) }
            if members.isEmpty { continue }
            // The machine's own addresses do not stand for the internet unless there are no others.
            let remote = checked.scope.destination == .internet ? members.filter { !isLocal($0.answer) } : []
            let counted = remote.isEmpty ? members : remote
            let found = counted.lazy.map { ways(checked, $0.target, $0.answer) }.first { !$0.isEmpty }
            if let found {
                if described?.isLocal ?? true { described = (found, remote.isEmpty) }
            } else if case .failure(let lack) = outcome(counted[0].target, counted[0].answer) {
                return [Family(verdict: Verdict.Family(reason: lack.reason), lack: lack)]
            }
        }
        return (described?.texts ?? []).map { Family(verdict: Verdict.Family(way: $0)) }
    }

    /// Returns the ways of which one suffices: the kernel's choice, or else other next hops of the same route.
    ///
    /// A representative stands for many destinations, and each next hop has a share of these. For one destination the choice
    /// counts, and for a bound socket there is only one interface.
    private func ways(_ checked: CheckedScope, _ target: SocketTarget, _ answer: KernelView.Answer) -> [String] {
        if case .success(let way) = outcome(target, answer) { return [way] }
        guard checked.scope.destination == .internet, case .way = answer else { return [] }
        return (view.legs[target] ?? []).flatMap { leg in
            (view.answers[leg] ?? []).compactMap { if case .success(let way) = outcome(leg, $0) { way } else { nil } }
        }
    }

    private func isLocal(_ answer: KernelView.Answer) -> Bool {
        if case .way(let way) = answer { way.isLocal } else { false }
    }

    private enum Outcome {
        case success(String)
        case failure(Lack)
    }

    private func outcome(_ target: SocketTarget, _ answer: KernelView.Answer) -> Outcome {
        let missing = Lack(reason: missing(target, target.interface), isInferred: true)
        let way: KernelView.Way
        switch answer {
        case .refusal(EHOSTUNREACH): return .failure(Lack(reason: "unreachable", isInferred: false))
        case .refusal(EACCES): return .failure(Lack(reason: "prohibited", isInferred: false))
        case .refusal(EINVAL): return .failure(Lack(reason: "blackhole", isInferred: false))
        case .refusal(ENODEV): return .failure(Lack(reason: "noInterface", isInferred: false))
        case .refusal: return .failure(missing)
        case .way(let found): way = found
        }
        guard let link = view.links.first(where: { $0.ifname == way.device }) else { return .failure(missing) }
        if isLoopback(link) && !way.isLocal { return .failure(missing) }
        let layer = step(link, target)
        guard isWorking(link) else { return .failure(Lack(reason: layer, isInferred: false)) }
        if way.isGuess && link.flags?.contains("POINTOPOINT") != true { return .failure(missing) }
        guard let source = way.source, isGood(source, target, way) else {
            return .failure(Lack(reason: layer == "noRoute" ? "noAddress" : layer, isInferred: false))
        }
        return .success(Verdict.way(way.device, link.ifindex ?? 0, way.gateway, source))
    }

    private func isLoopback(_ link: KernelView.Link) -> Bool { link.flags?.contains("LOOPBACK") == true }

    private func isWorking(_ link: KernelView.Link) -> Bool {
        let flags = link.flags ?? []
        return flags.contains("UP") && flags.contains("LOWER_UP") && !Self.stoppingStates.contains(link.operstate ?? "NOTPRESENT")
    }

    /// The states in which an interface with a carrier passes no packets.
    private static let stoppingStates = ["DORMANT", "TESTING", "NOTPRESENT"]

    private func isGood(_ source: String, _ target: SocketTarget, _ way: KernelView.Way) -> Bool {
        // connect(2) has bound the socket to it; over IPv6 that may have been the address of another moment.
        let isHeld = !target.isIPv6 || view.links.flatMap { $0.addresses ?? [] }.contains { $0.local == source && $0.isReady }
        if source == "0.0.0.0" { return false }
        if source == "::1" || source.hasPrefix("127.") { return way.isLocal }
        if way.isLocal { return isHeld || source == target.destination }
        if target.hasLinkScope { return isHeld }
        return isHeld && !source.hasPrefix("fe80:") && !(source.hasPrefix("169.254.") && way.gateway == nil)
    }

    /// Returns the layer at which the interface that got furthest stops.
    private func missing(_ target: SocketTarget?, _ bound: String?) -> String {
        let steps = view.links.filter { !isLoopback($0) && (bound.map($0.has) ?? true) }.map { step($0, target) }
        return Self.order.last { steps.contains($0) } ?? "noInterface"
    }

    /// Returns the layer at which one interface stops.
    private func step(_ link: KernelView.Link, _ target: SocketTarget?) -> String {
        let flags = link.flags ?? []
        if !flags.contains("UP") { return "adminDown" }
        if !flags.contains("LOWER_UP") { return "noCarrier" }
        if Self.stoppingStates.contains(link.operstate ?? "NOTPRESENT") { return "dormant" }
        let held = (link.addresses ?? []).filter { address in
            guard let target else { return true }
            let isLinkLocal = address.local?.hasPrefix("fe80:") == true || address.local?.hasPrefix("169.254.") == true
            return address.family == (target.isIPv6 ? "inet6" : "inet") && (!isLinkLocal || target.hasLinkScope)
                && address.local != "::1" && address.local?.hasPrefix("127.") != true
        }
        if held.contains(where: \.isReady) { return "noRoute" }
        return held.contains { $0.dadfailed != true } ? "addressTentative" : "noAddress"
    }
}

/// A verdict about a scope as comparable text: the monitor's, or an independent one.
struct Verdict: Hashable, Sendable, CustomStringConvertible {
    /// One family: its way, its reason, or neither if the scope does not include it.
    struct Family: Hashable, Sendable {
        var way: String?
        var reason: String?
    }

    /// The status, with the reason unless satisfied.
    var status: String
    var ipv4: Family
    var ipv6: Family

    /// The published part: it excludes the families' reasons.
    var published: String { "\(status), IPv4 \(ipv4.way ?? "-"), IPv6 \(ipv6.way ?? "-")" }

    var description: String {
        "\(status), IPv4 \(ipv4.way ?? ipv4.reason ?? "-"), IPv6 \(ipv6.way ?? ipv6.reason ?? "-")"
    }

    static func way(_ device: String, _ index: Int, _ gateway: String?, _ source: String) -> String {
        "dev \(device) #\(index) via \(gateway ?? "-") src \(source)"
    }
}

extension Verdict {
    /// Creates the monitor's verdict.
    init(_ path: NetworkPath) {
        status = [path.status.rawValue, path.offlineReason?.rawValue].compactMap(\.self).joined(separator: " ")
        ipv4 = Family(path.ipv4)
        ipv6 = Family(path.ipv6)
    }
}

extension Verdict.Family {
    fileprivate init(_ path: FamilyPath) {
        reason = path.reason?.rawValue
        guard path.isSatisfied else { return }
        let index = path.interface.map { Int($0.index) }
        way = Verdict.way(path.interface?.name ?? "-", index ?? 0, path.gateway?.description, path.source?.description ?? "-")
    }
}
