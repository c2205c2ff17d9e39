internal import CNetlink
internal import Glibc

extension NetworkInterface {
    /// An interface without its addresses, from a link message.
    init(_ link: cnl_link) {
        let name = withUnsafeBytes(of: link.name) { $0.prefix { $0 != 0 } + [] }
        let kind = withUnsafeBytes(of: link.kind) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let text = InterfaceName.text(name)
        self.init(
            index: link.index, name: text, kind: Kind(link, kind, name: text), isUp: link.flags & CNL_LINK_UP != 0,
            hasCarrier: link.flags & CNL_LINK_LOWER_UP != 0,
            operationalState: OperationalState(rawValue: link.operational_state) ?? .unknown,
            carrierChanges: link.carrier_changes)
    }
}

extension NetworkInterface.Kind {
    private static let tunnels: Set<String> = [
        "tun", "wireguard", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "ip6tnl", "sit", "vti", "vti6", "xfrm", "ppp", "erspan",
        "geneve", "vxlan",
    ]

    init(_ link: cnl_link, _ kind: String, name: String) {
        self =
            switch (link.hardware_type, kind) {
            case (UInt16(CNL_HARDWARE_LOOPBACK), _): .loopback
            case (_, let kind) where Self.tunnels.contains(kind): .tunnel
            case (_, "wwan"): .cellular
            case (_, let kind) where !kind.isEmpty: .virtual
            case (UInt16(CNL_HARDWARE_ETHERNET), _): Self.isWireless(name) ? .wireless : .wired
            // Point-to-point hardware types without a kind are tunnels of old drivers (tun, PPP) or modems in raw IP mode.
            case (UInt16(CNL_HARDWARE_PPP), _), (UInt16(CNL_HARDWARE_NONE), _), (UInt16(CNL_HARDWARE_RAWIP), _): .tunnel
            default: .other
            }
    }

    /// Wi-Fi looks like Ethernet to rtnetlink; only sysfs tells (Documentation/ABI/testing/sysfs-class-net, phy80211).
    private static func isWireless(_ name: String) -> Bool { access("/sys/class/net/\(name)/phy80211", F_OK) == 0 }
}

/// Interface names as text: the kernel allows any byte but `/`, `:`, NUL and white space.
package enum InterfaceName {
    /// The name as a string; bytes that are not UTF-8, and backslashes, become `\xNN`, so that different names stay different.
    package static func text(_ bytes: some Collection<UInt8>) -> String {
        let backslash = UInt8(ascii: "\\")
        if !bytes.contains(backslash), let text = String(validating: bytes, as: UTF8.self) { return text }
        var text = ""
        var rest = Array(bytes)[...]
        while let first = rest.first {
            // The longest character that starts here: UTF-8 has at most four bytes (RFC 3629).
            let length = first == backslash ? nil : (1...4).first { String(validating: rest.prefix($0), as: UTF8.self) != nil }
            if let length, length <= rest.count {
                text += String(decoding: rest.prefix(length), as: UTF8.self)
                rest = rest.dropFirst(length)
            } else {
                let hex = String(first, radix: 16)
                text += "\\x" + (hex.count < 2 ? "0" : "") + hex
                rest = rest.dropFirst()
            }
        }
        return text
    }
}
