internal import Reachability

extension SimulatedKernel {
    /// Adds `eth0` with addresses and default routes, and forgets the announcements.
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
