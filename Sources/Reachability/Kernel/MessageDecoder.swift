internal import CNetlink
internal import Glibc

/// Decodes netlink messages into events.
enum MessageDecoder {
    /// Calls `body` with each message of a datagram, and with the datagram's first byte.
    static func forEach(in datagram: UnsafeRawBufferPointer, _ body: (cnl_message, UnsafeRawPointer) -> Void) {
        guard let base = datagram.baseAddress else { return }
        var offset = 0
        var message = cnl_message()
        while cnl_decode(base, datagram.count, &offset, &message) { body(message, base) }
    }

    /// Returns the event in a message; `nil` if it does not concern reachability.
    ///
    /// - Parameters:
    ///   - datagram: the first byte of the message's datagram.
    ///   - devices: the hardware types of the machine that sent it; `nil` if that is another machine.
    static func event(
        _ message: cnl_message, of datagram: UnsafeRawPointer, devices: DeviceTypes? = .shared
    ) -> NetworkEvent? {
        switch message.kind {
        case CNL_LINK: .link(NetworkInterface(message.link, of: datagram, devices: devices))
        case CNL_LINK_GONE: .linkRemoved(index: message.link.index)
        case CNL_ADDRESS:
            NetworkInterface.Address(message.address).map { .address($0, interface: message.address.interface) }
        case CNL_ADDRESS_GONE:
            NetworkInterface.Address(message.address).map { .addressRemoved($0, interface: message.address.interface) }
        case CNL_ROUTE, CNL_ROUTE_GONE: change(message.route, isRemoval: message.kind == CNL_ROUTE_GONE).map { .route($0) }
        case CNL_RULE, CNL_RULE_GONE: .rule(isRemoval: message.kind == CNL_RULE_GONE)
        case CNL_NEXTHOP, CNL_NEXTHOP_GONE: .nexthop(id: message.identifier, isRemoval: message.kind == CNL_NEXTHOP_GONE)
        case CNL_NEIGHBOUR: neighbour(message.neighbour)
        // NETCONFA_IFINDEX_ALL and _DEFAULT are -1 and -2 (linux/netconf.h).
        case CNL_NETCONF: .netconf(interface: message.identifier > .max - 2 ? nil : message.identifier)
        case CNL_OVERRUN: .overrun
        default: nil
        }
    }

    private static func neighbour(_ neighbour: cnl_neighbour) -> NetworkEvent? {
        guard let address = IPAddress(neighbour.address) else { return nil }
        return switch UInt32(neighbour.state) {
        case CNL_NEIGHBOUR_REACHABLE: .neighbour(address, interface: neighbour.interface, answers: true)
        case CNL_NEIGHBOUR_FAILED: .neighbour(address, interface: neighbour.interface, answers: false)
        default: nil
        }
    }

    private static func change(_ route: cnl_route, isRemoval: Bool) -> RouteChange? {
        guard let family = IPAddress.Family(kernel: route.family) else { return nil }
        let destination = IPAddress(route.destination).map { IPPrefix($0, length: Int(route.destination_length)) } ?? .all(family)
        return RouteChange(
            destination, gateway: IPAddress(route.gateway), interface: route.interface == 0 ? nil : route.interface,
            isRemoval: isRemoval)
    }
}

extension NetworkInterface {
    /// Creates an interface without addresses from a link message.
    ///
    /// - Parameters:
    ///   - datagram: the first byte of the message's datagram; `nil` without netlink.
    ///   - devices: the hardware types of the machine that sent it; `nil` if that is another machine.
    init(_ link: cnl_link, of datagram: UnsafeRawPointer? = nil, devices: DeviceTypes? = .shared) {
        let name = withUnsafeBytes(of: link.name) { $0.prefix { $0 != 0 } + [] }
        let kind = withUnsafeBytes(of: link.kind) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let address = withUnsafeBytes(of: link.hardware_address) { $0.prefix(Int(link.hardware_address_length)) + [] }
        let device = DeviceTypes.Device(index: link.index, name: name, hardwareAddress: address)
        self.init(
            index: link.index, name: InterfaceName.text(name),
            kind: Kind(kind: kind, hardwareType: UInt32(link.hardware_type), device, devices), isUp: link.flags & CNL_LINK_UP != 0,
            hasCarrier: link.flags & CNL_LINK_LOWER_UP != 0,
            isPointToPoint: link.flags & CNL_LINK_POINT_TO_POINT != 0,
            operationalState: OperationalState(rawValue: link.operational_state) ?? .unknown,
            carrierChanges: link.carrier_changes)
        master = link.master == 0 ? nil : link.master
        linkKind = kind
        underlay = Underlay(link, kind)
        if operationalState == .dormant && !isHeldDormant(link) { operationalState = .unknown }
        if let datagram, link.names_length != 0 { alternativeNames = Self.alternativeNames(of: link, datagram) }
    }

    /// Returns false if a dormant link passes packets, as a wire does whose link mode is dormant, and as any link does whose state
    /// is left from an earlier mode (rfc2863_policy, net/core/link_watch.c): the kernel's sending does not ask for the state.
    ///
    /// A wireless driver passes packets when its program says that the link may (docs/networking/operstates.rst).
    private func isHeldDormant(_ link: cnl_link) -> Bool {
        // It takes the state over from below (netif_stacked_transfer_operstate, net/core/dev.c), where it is judged.
        if case .device = underlay { return false }
        if link.flags & CNL_LINK_DORMANT != 0 { return true }
        return UInt32(link.link_mode) != CNL_LINK_MODE_DEFAULT && (kind == .wireless || kind == .other)
    }

    private static func alternativeNames(of link: cnl_link, _ datagram: UnsafeRawPointer) -> [String] {
        var names: [String] = []
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(CNL_LONG_NAME_SIZE)) { buffer in
            guard let name = buffer.baseAddress else { return }
            var position: UInt32 = 0
            withUnsafePointer(to: link) { link in
                while cnl_next_name(datagram, link, &position, name) {
                    names.append(InterfaceName.text(UnsafeRawBufferPointer(buffer).prefix { $0 != 0 } + []))
                }
            }
        }
        return names
    }
}

extension NetworkInterface.Underlay {
    /// The kinds of tunnels whose remote only their program or their configuration knows.
    private static let silentTunnels: Set<String> = ["wireguard", "amneziawg", "ovpn", "tun", "xfrm"]
    /// The kinds that send through the device of IFLA_LINK; their own carrier does not always follow it.
    private static let stackedKinds: Set<String> = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"]

    fileprivate init(_ link: cnl_link, _ kind: String) {
        self = .none
        if kind.isEmpty { return }
        if let remote = IPAddress(link.tunnel.remote), !remote.isMulticast {
            self = .remote(
                .init(
                    address: remote, source: IPAddress(link.tunnel.local),
                    interface: link.tunnel.interface == 0 ? nil : link.tunnel.interface,
                    mark: link.tunnel.mark == 0 ? nil : link.tunnel.mark, typeOfService: link.tunnel.type_of_service,
                    transport: Scope.Transport(rawValue: link.tunnel.protocol)))
        } else if Self.stackedKinds.contains(kind), link.lower != 0 {
            self = .device(link.lower)
        } else if Self.silentTunnels.contains(kind), UInt32(link.hardware_type) != CNL_HARDWARE_ETHERNET {
            // A tap is a wire of a virtual machine or container, not a tunnel.
            self = .ground
        }
    }
}

extension NetworkInterface.Address {
    /// Creates an address from an address message; `nil` without a family.
    init?(_ address: cnl_interface_address) {
        guard let ip = IPAddress(address.local) else { return nil }
        self.init(
            ip, prefixLength: Int(address.prefix_length), isTentative: address.flags & CNL_ADDRESS_TENTATIVE != 0,
            isOptimistic: address.flags & CNL_ADDRESS_OPTIMISTIC != 0,
            hasFailedDetection: address.flags & CNL_ADDRESS_DADFAILED != 0)
    }
}

extension RouteQuery {
    /// The query as the C layer takes it.
    var request: cnl_route_query {
        var request = cnl_route_query()
        request.destination = cnl_address(destination)
        request.interface = interface ?? 0
        request.has_mark = mark != nil
        request.mark = mark ?? 0
        request.has_uid = uid != nil
        request.uid = uid ?? 0
        request.fib_match = fibMatch
        if case .address(let address) = source { request.source = cnl_address(address) }
        // Lookups reject any other protocol (rtm_getroute_parse_ip_proto, net/ipv4/fib_frontend.c).
        if [.tcp, .udp, .icmp, .icmpv6].contains(transport) { request.transport = transport.rawValue }
        request.port = port ?? 0
        request.type_of_service = typeOfService
        return request
    }
}

extension Scope.Transport {
    fileprivate static let icmp = Scope.Transport(rawValue: UInt8(IPPROTO_ICMP))
    fileprivate static let icmpv6 = Scope.Transport(rawValue: UInt8(IPPROTO_ICMPV6))
}

extension RouteVerdict {
    /// Creates the verdict of a lookup from its answer.
    ///
    /// A refusing type means the errno that a sender gets (fib_props, net/ipv4/fib_semantics.c). Metric, prefix length, protocol
    /// and scope belong to the table's entry, which only the answer to a `fibMatch` query holds. The kernel does not repeat the
    /// query's source (rt_fill_info, net/ipv4/route.c).
    ///
    /// - Parameter buffer: the bytes that the answer was decoded from.
    init(_ route: cnl_route, to query: RouteQuery, _ buffer: UnsafeRawPointer) {
        switch UInt32(route.type) {
        case CNL_ROUTE_BLACKHOLE: self = .refused(errno: EINVAL)
        case CNL_ROUTE_UNREACHABLE: self = .refused(errno: EHOSTUNREACH)
        case CNL_ROUTE_PROHIBIT: self = .refused(errno: EACCES)
        case CNL_ROUTE_THROW: self = .refused(errno: ENETUNREACH)
        // TCP connects to one host only; a datagram socket needs SO_BROADCAST (tcp_v4_connect, __ip4_datagram_connect, net/ipv4).
        case CNL_ROUTE_BROADCAST where query.transport != .tcp: self = .refused(errno: EACCES)
        case CNL_ROUTE_BROADCAST: self = .refused(errno: ENETUNREACH)
        case CNL_ROUTE_MULTICAST where query.transport == .tcp: self = .refused(errno: ENETUNREACH)
        default:
            let isMatch = query.fibMatch
            var source = IPAddress(route.source)
            if !isMatch, case .address(let address) = query.source { source = address }
            var result = Route(
                interface: route.interface, gateway: IPAddress(route.gateway), source: source,
                table: route.table, metric: isMatch ? route.metric : nil,
                prefixLength: isMatch ? Int(route.destination_length) : nil,
                isLocal: [CNL_ROUTE_LOCAL, CNL_ROUTE_ANYCAST].contains(UInt32(route.type)),
                routingProtocol: isMatch ? route.protocol : nil, scope: isMatch ? route.scope : nil)
            if isMatch {
                // Hundredths of a second (USER_HZ).
                result.lifetime = route.expires == 0 ? nil : .milliseconds(10 * Int64(route.expires))
                result.nextHops = Self.nextHops(of: route, buffer)
            }
            self = .route(result)
        }
    }

    private static func nextHops(of route: cnl_route, _ buffer: UnsafeRawPointer) -> [Route.NextHop] {
        var hops: [Route.NextHop] = []
        var position: UInt32 = 0
        var hop = cnl_hop()
        withUnsafePointer(to: route) { route in
            while cnl_next_hop(buffer, route, &position, &hop) {
                hops.append(
                    Route.NextHop(
                        interface: hop.interface, gateway: IPAddress(hop.gateway), isDead: hop.flags & CNL_NEXT_HOP_DEAD != 0))
            }
        }
        // A list of one is no choice.
        return hops.count > 1 ? hops : []
    }
}

extension IPAddress {
    init?(_ address: cnl_address) {
        guard let family = Family(kernel: address.family) else { return nil }
        self = withUnsafeBytes(of: address.bytes) { bytes in
            let value =
                family == .ipv4
                ? UInt128(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
                : UInt128(bigEndian: bytes.loadUnaligned(as: UInt128.self))
            return IPAddress(family: family, value: value)
        }
    }
}

extension cnl_address {
    init(_ address: IPAddress) {
        self.init()
        family = address.family.kernel
        withUnsafeMutableBytes(of: &bytes) { bytes in
            switch address.family {
            case .ipv4: bytes.storeBytes(of: UInt32(truncatingIfNeeded: address.value).bigEndian, as: UInt32.self)
            case .ipv6: bytes.storeBytes(of: address.value.bigEndian, as: UInt128.self)
            }
        }
    }
}
