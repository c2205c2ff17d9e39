internal import CNetlink

/// Reads the messages of datagrams.
enum MessageDecoder {
    /// Calls `body` with each message of a datagram.
    static func forEach(in datagram: UnsafeRawBufferPointer, _ body: (cnl_message) -> Void) {
        guard let base = datagram.baseAddress else { return }
        var offset = 0
        var message = cnl_message()
        while cnl_decode(base, datagram.count, &offset, &message) { body(message) }
    }

    /// What a message announces; `nil` if nothing that concerns reachability.
    ///
    /// - Parameter devices: What is known about the hardware of the machine that sent it; `nil` if it is not this machine.
    static func event(_ message: cnl_message, devices: DeviceTypes? = .shared) -> NetworkEvent? {
        switch message.kind {
        case CNL_LINK: .link(NetworkInterface(message.link, devices: devices))
        case CNL_LINK_GONE: .linkRemoved(index: message.link.index)
        case CNL_ADDRESS: address(message.address).map { .address($0, interface: message.address.interface) }
        case CNL_ADDRESS_GONE: address(message.address).map { .addressRemoved($0, interface: message.address.interface) }
        case CNL_ROUTE, CNL_ROUTE_GONE: change(message.route, isRemoval: message.kind == CNL_ROUTE_GONE).map { .route($0) }
        case CNL_RULE, CNL_RULE_GONE: .rule(isRemoval: message.kind == CNL_RULE_GONE)
        case CNL_NEXTHOP, CNL_NEXTHOP_GONE: .nexthop(id: message.identifier, isRemoval: message.kind == CNL_NEXTHOP_GONE)
        // NETCONFA_IFINDEX_ALL and _DEFAULT are -1 and -2 (linux/netconf.h).
        case CNL_NETCONF: .netconf(interface: message.identifier > .max - 2 ? nil : message.identifier)
        case CNL_OVERRUN: .overrun
        default: nil
        }
    }

    static func address(_ address: cnl_interface_address) -> NetworkInterface.Address? {
        guard let ip = IPAddress(address.local) else { return nil }
        return NetworkInterface.Address(
            ip, prefixLength: Int(address.prefix_length), isTentative: address.flags & CNL_ADDRESS_TENTATIVE != 0,
            isOptimistic: address.flags & CNL_ADDRESS_OPTIMISTIC != 0,
            hasFailedDetection: address.flags & CNL_ADDRESS_DADFAILED != 0)
    }

    private static func change(_ route: cnl_route, isRemoval: Bool) -> RouteChange? {
        guard let family = IPAddress.Family(kernel: route.family) else { return nil }
        let destination = IPAddress(route.destination).map { IPPrefix($0, length: Int(route.destination_length)) } ?? .all(family)
        return RouteChange(
            destination, gateway: IPAddress(route.gateway), interface: route.interface == 0 ? nil : route.interface,
            isRemoval: isRemoval)
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
