/// A destination: the internet, an address or a host, with the properties of the caller's sockets.
public struct Scope: Hashable, Sendable, CustomStringConvertible {
    package enum Destination: Hashable, Sendable {
        case internet
        case address(IPAddress)
        case host(String)
    }

    /// The transport protocol of the caller's sockets, by its number (IANA protocol numbers).
    public struct Transport: RawRepresentable, Hashable, Sendable {
        /// The protocol's number.
        public let rawValue: UInt8
        /// Makes a transport from its protocol number; lookups understand TCP, UDP and ICMP (RTA_IP_PROTO, rtnetlink(7)).
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// TCP.
        public static let tcp = Transport(rawValue: 6)
        /// UDP.
        public static let udp = Transport(rawValue: 17)
    }

    package let destination: Destination

    /// The firewall mark of the caller's sockets (SO_MARK, socket(7)), as policy rules may select by it.
    public var mark: UInt32?
    /// The owner of the caller's sockets, for policy rules with `uidrange`; by default this process's user.
    public var uid: UInt32?
    /// The interface that the caller's sockets are bound to (SO_BINDTODEVICE, socket(7)), by name.
    ///
    /// Only routes through that interface are used. Without a route the kernel assumes that the destination of a bound IPv4 socket
    /// is on the link; that satisfies the scope only on a point-to-point interface. While no interface has the name, the scope is
    /// unsatisfied with `noInterface`.
    public var interface: String?
    /// The transport protocol of the caller's sockets, as policy rules may select by it (`ipproto`, ip-rule(8)).
    public var transport: Transport = .tcp
    /// The destination port of the caller's sockets, as policy rules may select by it (`dport`, ip-rule(8)).
    public var port: UInt16?

    private init(_ destination: Destination) { self.destination = destination }

    /// The name of the host; `nil` for other destinations.
    package var host: String? {
        if case .host(let name) = destination { name } else { nil }
    }

    /// The internet: all representative addresses of at least one family (see ``ReachabilityMonitor/Configuration``).
    public static let internet = Scope(.internet)

    /// One address.
    ///
    /// An IPv4-mapped IPv6 address means its IPv4 address.
    public static func address(_ address: IPAddress) -> Scope { Scope(.address(address.unmapped)) }

    /// A host, by a name that the system can look up (getaddrinfo(3)): reachable if any of its addresses is.
    ///
    /// The name is looked up away from the thread that listens to the kernel; looking up may send packets to a name server. It is
    /// looked up again when the machine's way to the internet changes, 100 ms after a change of /etc/resolv.conf, /etc/hosts or
    /// /etc/nsswitch.conf, and every ``ReachabilityMonitor/Configuration/hostRefreshInterval``; after a failure with pauses of 1 s
    /// up to 15 s. There is at most one lookup a second. While it has no address the scope is unsatisfied: with
    /// ``OfflineReason/unresolved``, or with what is missing for any network. When a name server does not answer, the addresses
    /// known before go on to count. The first verdict waits a second for the first answer. A text that is an address means that
    /// address; letters are compared without their case.
    public static func host(_ name: String) -> Scope {
        IPAddress(name).map(Scope.address) ?? Scope(.host(name.lowercased()))
    }

    /// Hashes the destination and the properties that are set: the hash lies on the way from an event to its verdict.
    public func hash(into hasher: inout Hasher) {
        switch destination {
        case .internet: hasher.combine(0 as UInt8)
        case .address(let address): hasher.combine(address)
        case .host(let name): hasher.combine(name)
        }
        if let mark { hasher.combine(mark) }
        if let uid { hasher.combine(uid) }
        if let interface { hasher.combine(interface) }
        if let port { hasher.combine(port) }
    }

    /// The destination in words, followed by the properties that are set.
    public var description: String {
        var text: String
        switch destination {
        case .internet: text = "internet"
        case .address(let address): text = "\(address)"
        case .host(let name): text = name
        }
        if let interface { text += "%\(interface)" }
        if let mark { text += " mark 0x\(String(mark, radix: 16))" }
        if let uid { text += " uid \(uid)" }
        switch transport {
        case .tcp: if let port { text += " port \(port)" }
        case .udp: text += " udp" + (port.map { " port \($0)" } ?? "")
        default: text += " protocol \(transport.rawValue)" + (port.map { " port \($0)" } ?? "")
        }
        return text
    }
}
