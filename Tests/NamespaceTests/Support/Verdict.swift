import Reachability

/// What is said about a scope, in words that can be compared: by the monitor, or by who judges it.
struct Verdict: Hashable, Sendable, CustomStringConvertible {
    /// One family: where packets go, why none do, or neither if it is not asked about.
    struct Family: Hashable, Sendable {
        var way: String?
        var reason: String?
    }

    /// With the reason, unless satisfied.
    var status: String
    var ipv4: Family
    var ipv6: Family

    /// What listeners are told: families' own reasons are none of it.
    var told: String { "\(status), IPv4 \(ipv4.way ?? "-"), IPv6 \(ipv6.way ?? "-")" }

    var description: String {
        "\(status), IPv4 \(ipv4.way ?? ipv4.reason ?? "-"), IPv6 \(ipv6.way ?? ipv6.reason ?? "-")"
    }

    static func way(_ device: String, _ index: Int, _ gateway: String?, _ source: String) -> String {
        "dev \(device) #\(index) via \(gateway ?? "-") src \(source)"
    }
}

extension Verdict {
    /// The monitor's.
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
