/// What is to be reached: the internet, or one address; asked as the caller's own sockets would be.
public struct Scope: Hashable, Sendable, CustomStringConvertible {
    package enum Destination: Hashable, Sendable {
        case internet
        case address(IPAddress)
    }

    package let destination: Destination

    /// The firewall mark that the caller's sockets carry (SO_MARK, socket(7)); policy rules may look at it.
    public var mark: UInt32?
    /// The user that the caller's sockets belong to, for policy rules with `uidrange`; by default this process's.
    public var uid: UInt32?
    /// The interface that the caller's sockets are bound to (SO_BINDTODEVICE, socket(7)), by name.
    ///
    /// Only routes through that interface count; that the kernel would look for a destination without a route on its link, as for
    /// any bound socket, does not.
    /// While no interface has the name the scope is unsatisfied with `noInterface`.
    public var interface: String?

    private init(_ destination: Destination) { self.destination = destination }

    /// The internet: every representative address of at least one family (see ``ReachabilityMonitor/Configuration``).
    public static let internet = Scope(.internet)

    /// One address.
    ///
    /// An IPv4-mapped IPv6 address means its IPv4 address.
    public static func address(_ address: IPAddress) -> Scope { Scope(.address(address.unmapped)) }

    /// `internet`, or the address; followed by what qualifies it.
    public var description: String {
        var text: String
        switch destination {
        case .internet: text = "internet"
        case .address(let address): text = "\(address)"
        }
        if let interface { text += "%\(interface)" }
        if let mark { text += " mark \(mark)" }
        if let uid { text += " uid \(uid)" }
        return text
    }
}
