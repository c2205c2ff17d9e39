public import Reachability

/// A small model of the Linux kernel's links, addresses, routes and announcements: the state of a ``SimulatedNetwork``.
///
/// It follows Linux 6.18, whose announcements do not describe all changes of the routes: see ``setUp(_:_:)``,
/// ``removeAddress(_:_:)`` and ``removeNexthop(_:)``. It begins with a loopback device, `lo`, alone. A change that is not
/// possible throws and changes nothing.
///
/// Not modelled: neighbours, router advertisements, VRFs, the weights of multipath next hops, rules that match an incoming
/// interface or a source port, appended routes, and replaced nexthop groups. Sysctls have the kernel's defaults
/// (docs/networking/ip-sysctl.rst) with one exception: links get no link-local addresses until ``setSysctl(_:_:)``
/// enables them.
public struct SimulatedKernel: Sendable {
    struct Link: Hashable, Sendable {
        /// The link as a dump shows it.
        ///
        /// Its carrier flag is set only while it is up, like IFF_LOWER_UP.
        var interface: NetworkInterface
        /// True while the cable is in, even if the link is down.
        var isPlugged: Bool
        /// True once IPv6 has started on the link since it was last set up (IF_READY, net/ipv6/addrconf.c).
        var isReady = false
        /// The sysctl `disable_ipv6` of the link.
        var isIPv6Disabled = false
        /// The addresses without duplicate address detection (IFA_F_NODAD).
        var undetected: Set<IPAddress> = []
        /// The addresses that were kept while the link is down.
        var kept: Set<IPAddress> = []
    }

    static let loopbackIndex: UInt32 = 1

    /// The links in the order of their indices.
    var links: [Link]
    private(set) var events: [NetworkEvent] = []
    var nextIndex: UInt32 = 2
    var sysctls = Sysctls()
    /// The detections in progress.
    var detections: [Detection] = []

    /// The routes of all tables but local, in the order in which they were added.
    public internal(set) var routes: [Route] = []

    /// The policy rules, in the order in which lookups ask them.
    public internal(set) var rules: [Rule] = Rule.initial

    /// The nexthop objects, in the order of their IDs.
    public internal(set) var nexthops: [NexthopObject] = []

    /// The duration of duplicate address detection (RFC 4862 §5.4): one to two seconds on a real machine.
    ///
    /// By default `nil`: new addresses are ready at once, and tentative ones stay tentative until
    /// ``finishDetection(of:on:hasFailed:)``. Zero behaves like `accept_dad=0`.
    public var detectionTime: Duration?

    /// The user of the asking sockets, unless a lookup names another one.
    public var uid: UInt32 = 0

    /// The time of the model; in a ``SimulatedNetwork``, the time of its clock.
    public internal(set) var now: Duration = .zero

    /// Makes a kernel whose only link is the loopback device with 127.0.0.1/8 and ::1/128.
    public init() {
        let addresses = [
            NetworkInterface.Address(IPAddress(family: .ipv4, value: 0x7f00_0001), prefixLength: 8), Self.loopbackAddress6,
        ]
        // The loopback driver does not set the operational state.
        let loopback = NetworkInterface(
            index: Self.loopbackIndex, name: "lo", kind: .loopback, operationalState: .unknown, addresses: addresses)
        links = [Link(interface: loopback, isPlugged: true, isReady: true)]
    }

    static let loopbackAddress6 = NetworkInterface.Address(IPAddress(family: .ipv6, value: 1), prefixLength: 128)

    /// The links with their addresses, as a dump shows them, in the order of their indices.
    public var interfaces: [NetworkInterface] { links.map(\.interface) }

    /// Removes and returns the announced events.
    public mutating func takeEvents() -> [NetworkEvent] {
        defer { events = [] }
        return events
    }

    mutating func announce(_ event: NetworkEvent) { events.append(event) }

    mutating func announceLink(_ position: Int) {
        var interface = links[position].interface
        interface.addresses = []
        announce(.link(interface))
    }

    /// Returns the position of the link with a name.
    func position(of name: String, for operation: String) throws(SimulationError) -> Int {
        guard let position = links.firstIndex(where: { $0.interface.name == name }) else {
            let names = links.map { "'\($0.interface.name)'" }.joined(separator: ", ")
            throw SimulationError(operation, "there is no link named '\(name)'; there are \(names)")
        }
        return position
    }

    func link(at index: UInt32) -> Link? { links.first { $0.interface.index == index } }
}

extension SimulatedKernel {
    /// Adds `eth0` with addresses and default routes, without events.
    mutating func connectCable(hasIPv6: Bool) {
        var interface = NetworkInterface(index: nextIndex, name: "eth0")
        nextIndex += 1
        // 192.0.2.10 and 192.0.2.1, of TEST-NET-1 (RFC 5737).
        interface.addresses = [.init(IPAddress(family: .ipv4, value: 0xc000_020a), prefixLength: 24)]
        var gateways = [IPAddress(family: .ipv4, value: 0xc000_0201)]
        if hasIPv6 {
            // fe80::10, 2001:db8::10 (RFC 3849) and fe80::1.
            interface.addresses.append(.init(IPAddress(family: .ipv6, value: 0xfe80 << 112 | 0x10), prefixLength: 64))
            interface.addresses.append(.init(IPAddress(family: .ipv6, value: 0x2001_0db8 << 96 | 0x10), prefixLength: 64))
            gateways.append(IPAddress(family: .ipv6, value: 0xfe80 << 112 | 0x1))
        }
        links.append(Link(interface: interface, isPlugged: true, isReady: true))
        for address in interface.addresses { connect(address, on: interface) }
        for gateway in gateways {
            routes.append(
                Route(
                    destination: .all(gateway.family), type: .unicast, nextHops: [.init(gateway, interface.index)],
                    metric: gateway.family == .ipv4 ? 0 : 1024))
        }
        _ = takeEvents()
    }
}

extension SimulatedKernel {
    /// Parses `address` or `address/length`.
    func parseAddress(_ text: String, for operation: String) throws(SimulationError) -> (address: IPAddress, length: Int) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = parts.first.flatMap({ IPAddress(String($0)) }) else {
            throw SimulationError(operation, "'\(text)' is not an address such as 192.0.2.10/24 or 2001:db8::10/64")
        }
        guard parts.count == 2 else { return (address, address.family.bitWidth) }
        guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let length = Int(parts[1]),
            length <= address.family.bitWidth
        else {
            throw SimulationError(operation, "the prefix length '\(parts[1])' is not a number from 0 to \(address.family.bitWidth)")
        }
        return (address, length)
    }

    /// Parses an address and ignores a prefix length; `nil` stays `nil`.
    func parseHost(_ text: String?, for operation: String) throws(SimulationError) -> IPAddress? {
        guard let text else { return nil }
        return try parseAddress(text, for: operation).address
    }

    /// Parses `default` or a prefix.
    func parsePrefix(
        _ text: String, family: IPAddress.Family, for operation: String
    ) throws(SimulationError) -> IPPrefix {
        if text == "default" { return .all(family) }
        let (address, length) = try parseAddress(text, for: operation)
        let prefix = IPPrefix(address, length: length)
        guard prefix.address == address else {
            throw SimulationError(operation, "'\(text)' has bits beyond its length; the prefix is \(prefix) (EINVAL)")
        }
        return prefix
    }
}

/// The error of a change that is not possible, such as an address on an unknown link.
///
/// The change was not made.
public struct SimulationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The operation, such as `addAddress("eth0", "192.0.2.10/24")`.
    public var operation: String
    /// The reason, and often a way out.
    public var message: String

    /// Makes an error.
    public init(_ operation: String, _ message: String) {
        self.operation = operation
        self.message = message
    }

    /// The operation and the reason.
    public var description: String { "\(operation): \(message)" }
}
