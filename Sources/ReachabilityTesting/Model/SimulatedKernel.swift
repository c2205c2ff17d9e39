public import Reachability

/// A small model of the Linux kernel's links, addresses, routes and announcements: the state behind a ``SimulatedNetwork``.
///
/// It keeps to what was observed on Linux 6.18, where the announcements are not a faithful picture of the routes: see
/// ``setUp(_:_:)``, ``removeAddress(_:_:)`` and ``removeNexthop(_:)``. It begins with a loopback device, `lo`, alone. Changes
/// that cannot be made throw, and leave it as it was.
///
/// Not modelled: neighbours, routers' advertisements, VRFs, the weights of multipath next hops, rules that look at an incoming
/// interface or a source port, routes that are appended, and nexthop groups that are replaced. Sysctls have the kernel's defaults
/// (Documentation/networking/ip-sysctl.rst) but for one: links get no link-local addresses of their own until
/// ``setSysctl(_:_:)`` says so.
public struct SimulatedKernel: Sendable {
    struct Link: Hashable, Sendable {
        /// As it is dumped.
        ///
        /// Its carrier flag is set only while it is up, like IFF_LOWER_UP.
        var interface: NetworkInterface
        /// Whether the cable is in, up or not.
        var isPlugged: Bool
        /// Whether IPv6 found it in working order since it was last set up (IF_READY, net/ipv6/addrconf.c).
        var isReady = false
        /// Whether `disable_ipv6` is set.
        var isIPv6Disabled = false
        /// The addresses that were added without duplicate address detection (IFA_F_NODAD).
        var undetected: Set<IPAddress> = []
        /// The addresses that outlived the link being down, while it is.
        var kept: Set<IPAddress> = []
    }

    static let loopbackIndex: UInt32 = 1

    /// In the order of their indices.
    var links: [Link]
    private(set) var events: [NetworkEvent] = []
    var nextIndex: UInt32 = 2
    var settings = Settings()
    /// The detections that are going on.
    var detections: [Detection] = []

    /// The routes of all tables but local, in the order in which they were added.
    public internal(set) var routes: [Route] = []

    /// The policy rules, in the order in which they are asked.
    public internal(set) var rules: [Rule] = Rule.initial

    /// The nexthop objects, in the order of their numbers.
    public internal(set) var nexthops: [Nexthop] = []

    /// How long duplicate address detection takes (RFC 4862 §5.4), some one to two seconds on a real machine.
    ///
    /// `nil`, as in the beginning: new addresses can be used at once, and those that are tentative stay so until
    /// ``finishDetection(of:on:hasFailed:)``. Zero is what `accept_dad=0` does.
    public var detectionTime: Duration?

    /// The user whose sockets ask, unless a look-up names another one.
    public var uid: UInt32 = 0

    /// The time that has passed for the model; in a ``SimulatedNetwork`` its clock's.
    public internal(set) var now: Duration = .zero

    /// Makes a kernel whose only link is the loopback device with 127.0.0.1/8 and ::1/128.
    public init() {
        let addresses = [
            NetworkInterface.Address(IPAddress(family: .ipv4, value: 0x7f00_0001), prefixLength: 8), Self.loopbackAddress6,
        ]
        // The loopback driver leaves the operational state alone: unknown.
        let loopback = NetworkInterface(
            index: Self.loopbackIndex, name: "lo", kind: .loopback, operationalState: .unknown, addresses: addresses)
        links = [Link(interface: loopback, isPlugged: true, isReady: true)]
    }

    static let loopbackAddress6 = NetworkInterface.Address(IPAddress(family: .ipv6, value: 1), prefixLength: 128)

    /// The links with their addresses, in the order of their indices: what a dump says.
    public var interfaces: [NetworkInterface] { links.map(\.interface) }

    /// Takes what the kernel announced since the last call.
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

    /// The position of the link with a name.
    func position(of name: String, for operation: String) throws(SimulationError) -> Int {
        guard let position = links.firstIndex(where: { $0.interface.name == name }) else {
            let names = links.map { "'\($0.interface.name)'" }.joined(separator: ", ")
            throw SimulationError(operation, "there is no link named '\(name)'; there are \(names)")
        }
        return position
    }

    func link(at index: UInt32) -> Link? { links.first { $0.interface.index == index } }
}
