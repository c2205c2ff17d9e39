import Reachability

/// What is missing, and what a person can do or look at next.
struct Remedy: Hashable {
    /// What is missing, in words.
    let missing: String
    /// A command to try; it changes something only where that is harmless to undo.
    let command: String

    /// The remedy for an unsatisfied scope; `nil` for a satisfied one.
    init?(_ explanation: Explanation) {
        guard let reason = explanation.path.offlineReason else { return nil }
        let family = explanation.familyToBlame(reason)
        let version = family == .ipv6 ? "-6" : "-4"
        let interface = explanation.interface(stoppingAt: reason)
        let device = interface.map { Self.canBeTyped($0.name) ? " dev \($0.name)" : "" } ?? ""
        let of = interface.map { " of \($0.name)" } ?? ""
        let on = interface.map { " on \($0.name)" } ?? ""
        switch reason {
        case .noInterface:
            missing = explanation.scope.interface.map { "an interface named \($0)" } ?? "a network interface"
            command = "ip link show"
        case .adminDown:
            missing = "an interface that is set up\(interface.map { ": \($0.name) is shut down" } ?? "")"
            command = device.isEmpty ? "ip link show" : "ip link set\(device) up"
        case .noCarrier:
            missing = "carrier\(on): plug in the cable, or join a wireless network"
            command = "ip -details link show\(device)"
        case .dormant:
            missing = "the release\(of): it waits for 802.1X, a bond's decision or the device below it"
            command = "ip -details link show\(device)"
        case .noAddress:
            missing = "an address\(on): is a DHCP client running?"
            command = "ip address show\(device)"
        case .addressTentative:
            missing = "the end of duplicate address detection\(on): it takes about a second"
            command = "ip -6 address show\(device)"
        case .noRoute:
            missing = "a route, such as a default route through a gateway"
            command = "ip \(version) route show table all"
        case .unreachable, .prohibited, .blackhole:
            missing = "a way around the \(Self.routeType(reason)) route or rule"
            command = "ip \(version) route show table all type \(Self.routeType(reason)); ip \(version) rule show"
        default:
            missing = reason.description
            command = "ip \(version) route show table all"
        }
    }

    /// Whether a name means itself in a shell, and to ip(8).
    private static func canBeTyped(_ name: String) -> Bool {
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

extension Explanation {
    /// The family whose reason became the path's.
    func familyToBlame(_ reason: OfflineReason) -> IPAddress.Family {
        path.ipv4.reason == reason ? .ipv4 : .ipv6
    }

    /// The interface that stops at a layer.
    func interface(stoppingAt reason: OfflineReason) -> NetworkInterface? {
        interfaces.filter { layers[$0.index] == reason && (scope.interface == nil || $0.name == scope.interface) }.likeliest
    }
}
