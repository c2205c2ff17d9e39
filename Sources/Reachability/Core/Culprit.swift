/// The interface to mend where a path is unsatisfied, as far as there is evidence for one.
///
/// Pure.
package enum Culprit: Hashable, Sendable {
    /// This one stops at a layer: the deciding lookup chose it, the scope is bound to it, packets left through it before, or it
    /// alone is connected or configured.
    case interface(NetworkInterface, OfflineReason)
    /// Packets left through the interface of this name before, and it is gone.
    case gone(String)
    /// Nothing tells which of these was to be used; each stops at a layer.
    case oneOf([Stop])

    /// An interface with its missing layer.
    package struct Stop: Hashable, Sendable {
        package var interface: NetworkInterface
        package var layer: OfflineReason
    }

    /// Returns the culprit of a path; `nil` if no interface is missing.
    ///
    /// - Parameters:
    ///   - destinations: the scope's addresses.
    ///   - lost: the interface that packets left through until the last loss.
    package init?(
        of path: NetworkPath, _ scope: Scope, to destinations: [IPAddress], _ lost: NetworkInterface.Identity?,
        _ interfaces: [NetworkInterface]
    ) {
        guard let reason = path.offlineReason, reason <= .noRoute else { return nil }
        if let obstacle = path.obstacle {
            guard let culprit = obstacle.culprit else { return nil }
            if let known = interfaces.first(where: { $0.index == culprit.index }) {
                self = .interface(known, reason)
            } else {
                self = .gone(culprit.name)
            }
            return
        }
        let family = path.failingFamily(reason)
        if let index = path[family].refusedInterface, let chosen = interfaces.first(where: { $0.index == index }) {
            self = .interface(chosen, reason)
            return
        }
        let destination = destinations.first { $0.family == family }
        let stops = interfaces.filter { !$0.isLoopback }.map { interface in
            Stop(interface: interface, layer: PathEvaluator.layer(of: interface, for: destination))
        }
        // A port is judged by its master.
        let candidates = stops.filter { $0.layer < .noRoute && !$0.interface.leaves($0.layer, to: interfaces) }
        if let name = scope.interface {
            guard let bound = stops.first(where: { $0.interface.hasName(name) }), bound.layer < .noRoute else { return nil }
            self = .interface(bound.interface, bound.layer)
            return
        }
        if let lost {
            // A device that was plugged in again has another index.
            let known = stops.first { $0.interface.index == lost.index } ?? stops.first { $0.interface.name == lost.name }
            guard let known else {
                // Another one that is connected may have taken its place.
                if stops.contains(where: \.interface.hasCarrier) {
                    self.init(guessingFrom: candidates, reason)
                } else {
                    self = .gone(lost.name)
                }
                return
            }
            if candidates.contains(known) {
                self = .interface(known.interface, known.layer)
                return
            }
        }
        self.init(guessingFrom: candidates, reason)
    }

    /// Returns the only interface for which something says that it was to be used: it is connected, or has an address.
    private init(guessingFrom stops: [Stop], _ reason: OfflineReason) {
        guard reason < .noRoute else {
            // Another interface works, and may be the one that lacks the route.
            self = .oneOf(stops.filter(\.interface.kind.isHardware))
            return
        }
        let pool = Self.hardware(of: stops)
        let evident = pool.filter { $0.interface.hasCarrier || $0.interface.isConfigured }
        self = evident.count == 1 ? .interface(evident[0].interface, evident[0].layer) : .oneOf(pool)
    }

    /// Returns the hardware among interfaces, or all if there is none: the bridge of a container engine needs an uplink, too.
    private static func hardware(of stops: [Stop]) -> [Stop] {
        let hardware = stops.filter(\.interface.kind.isHardware)
        return hardware.isEmpty ? stops : hardware
    }
}

extension [Culprit.Stop] {
    /// Returns the states of the interfaces: `wan0 is shut down, eth1 has no carrier`; empty if there is none.
    ///
    /// - Parameter name: Returns the text of a name.
    package func facts(_ name: (String) -> String = { $0 }) -> String {
        let most = 3
        var facts = prefix(most).map { $0.layer.sentence(about: name($0.interface.name)) }
        if count > most { facts.append("\(count - most) more stop, too") }
        return facts.joined(separator: ", ")
    }
}

extension NetworkInterface {
    /// Returns true if a missing layer is its master's to have: a port of a bridge, bond or VRF needs no address of its own.
    package func leaves(_ layer: OfflineReason, to interfaces: [NetworkInterface]) -> Bool {
        guard layer == .noAddress || layer == .addressTentative, let master else { return false }
        return interfaces.contains { $0.index == master }
    }

    /// True if it has an address beyond its link, which IPv4 keeps while it is down (devinet.c, inetdev_event).
    fileprivate var isConfigured: Bool { addresses.contains { !$0.address.isLinkLocal && !$0.address.isLoopback } }
}

extension NetworkPath {
    /// Returns the family whose reason became the path's.
    package func failingFamily(_ reason: OfflineReason) -> IPAddress.Family { ipv4.reason == reason ? .ipv4 : .ipv6 }
}

extension OfflineReason {
    /// Returns the missing layer of an interface as a sentence.
    package func sentence(about name: String) -> String {
        switch self {
        case .noInterface: "there is no interface"
        case .noRoute: "no route leads there"
        case .addressTentative: "\(name)'s address is still being checked for duplicates"
        case ..<OfflineReason.noRoute: "\(name) \(predicate)"
        default: description
        }
    }
}
