import Reachability

extension NetworkPath {
    /// The path in words: `via eth0, gateway 192.0.2.1, source 192.0.2.10, IPv4+IPv6`, or why there is none.
    ///
    /// Names are not escaped.
    var summary: String {
        switch status {
        case .unknown: return "not known"
        case .unsatisfied: return offlineReason?.description ?? "no path"
        case .satisfied: break
        }
        let family = ipv4.isSatisfied ? ipv4 : ipv6
        var parts: [String] = []
        if let name = interface?.name ?? family.interface?.name { parts.append("via \(name)") }
        if let gateway = family.gateway { parts.append("gateway \(gateway)") }
        if let source = family.source { parts.append("source \(source)") }
        let families = [ipv4.isSatisfied ? "IPv4" : nil, ipv6.isSatisfied ? "IPv6" : nil].compactMap(\.self)
        parts.append(families.joined(separator: "+"))
        // The families may part ways: then the other one deserves its own words.
        if ipv4.isSatisfied, ipv6.isSatisfied, let other = ipv6.interface, other.index != ipv4.interface?.index {
            parts.append("IPv6 via \(other.name)")
        }
        return parts.joined(separator: ", ")
    }
}
