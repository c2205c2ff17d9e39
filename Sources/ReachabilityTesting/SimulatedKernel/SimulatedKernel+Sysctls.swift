internal import Reachability

extension SimulatedKernel {
    /// The sysctls of the machine (docs/networking/ip-sysctl.rst).
    struct Sysctls: Hashable, Sendable {
        var ignoresIPv4LinkDown = false
        var ignoresIPv6LinkDown = false
        var choosesIPv4ByPorts = false
        var choosesIPv6ByPorts = false
        var isNexthopCompatible = true
        var skipsNotifyOnDeviceDown = false
        var keepsAddressesOnDown = false
        /// True if new links start with IPv6 disabled.
        var disablesIPv6 = false
        /// True if links make link-local addresses: off in a new model, on by default in the kernel.
        var makesLinkLocalAddresses = false

        /// Returns `true` if lookups of the family ignore routes whose link has no carrier.
        func ignoresLinkDown(_ family: IPAddress.Family) -> Bool {
            family == .ipv4 ? ignoresIPv4LinkDown : ignoresIPv6LinkDown
        }

        /// Returns `true` if next hops of the family are chosen by ports, too.
        func choosesByPorts(_ family: IPAddress.Family) -> Bool { family == .ipv4 ? choosesIPv4ByPorts : choosesIPv6ByPorts }
    }

    private static let keys = [
        "net.ipv4.conf.all.ignore_routes_with_linkdown", "net.ipv6.conf.all.ignore_routes_with_linkdown",
        "net.ipv4.nexthop_compat_mode", "net.ipv6.route.skip_notify_on_dev_down", "net.ipv6.conf.all.keep_addr_on_down",
        "net.ipv4.fib_multipath_hash_policy", "net.ipv6.fib_multipath_hash_policy", "net.ipv6.conf.all.addr_gen_mode",
        "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.LINK.disable_ipv6",
    ]

    /// Sets a sysctl that can change a verdict, like `sysctl -w`.
    ///
    /// - `net.ipv4.conf.all.ignore_routes_with_linkdown` and the same for IPv6: lookups ignore routes whose link has no
    ///   carrier. Announced as netconf of all interfaces, for IPv6 also of each.
    /// - `net.ipv4.fib_multipath_hash_policy` and the same for IPv6: other than 0, the answer to a `fibMatch` query says that ports
    ///   decide, too; answers to lookups stay the same. Not announced.
    /// - `net.ipv4.nexthop_compat_mode`: with 0, changes of a nexthop object do not announce its routes.
    /// - `net.ipv6.route.skip_notify_on_dev_down`: with 1, IPv6 routes of a link that goes down are not announced, like IPv4
    ///   routes.
    /// - `net.ipv6.conf.all.keep_addr_on_down`: with 1, IPv6 addresses stay while their link is down, except for link-local
    ///   ones, and are announced again when it comes up.
    /// - `net.ipv6.conf.all.addr_gen_mode`: with 0, as on a real machine, ready links have a link-local address; with 1, as in
    ///   a new model, they have none of their own.
    /// - `net.ipv6.conf.all.disable_ipv6`, also for new links, or of one link: with 1, removes and announces IPv6 routes and
    ///   addresses, but not the link; with 0, none of them comes back. Refusing routes belong to the loopback device.
    ///
    /// The effects are announced as usual; most sysctls are not announced themselves.
    public mutating func setSysctl(_ key: String, _ value: Int) throws(SimulationError) {
        let operation = "setSysctl(\"\(key)\", \(value))"
        let isOn = value != 0
        switch key {
        case "net.ipv4.conf.all.ignore_routes_with_linkdown":
            guard sysctls.ignoresIPv4LinkDown != isOn else { return }
            sysctls.ignoresIPv4LinkDown = isOn
            announce(.netconf(interface: nil))
        case "net.ipv6.conf.all.ignore_routes_with_linkdown":
            guard sysctls.ignoresIPv6LinkDown != isOn else { return }
            sysctls.ignoresIPv6LinkDown = isOn
            announce(.netconf(interface: nil))
            for link in links { announce(.netconf(interface: link.interface.index)) }
        case "net.ipv4.fib_multipath_hash_policy": sysctls.choosesIPv4ByPorts = isOn
        case "net.ipv6.fib_multipath_hash_policy": sysctls.choosesIPv6ByPorts = isOn
        case "net.ipv4.nexthop_compat_mode": sysctls.isNexthopCompatible = isOn
        case "net.ipv6.route.skip_notify_on_dev_down": sysctls.skipsNotifyOnDeviceDown = isOn
        case "net.ipv6.conf.all.keep_addr_on_down": sysctls.keepsAddressesOnDown = isOn
        case "net.ipv6.conf.all.addr_gen_mode":
            sysctls.makesLinkLocalAddresses = !isOn
            for position in links.indices where links[position].isReady { addLinkLocalAddress(position) }
        case "net.ipv6.conf.all.disable_ipv6":
            sysctls.disablesIPv6 = isOn
            for position in links.indices { setIPv6Disabled(position, isOn) }
        default:
            let parts = ("net.ipv6.conf.", ".disable_ipv6")
            guard key.hasPrefix(parts.0), key.hasSuffix(parts.1), key.utf8.count > parts.0.utf8.count + parts.1.utf8.count else {
                throw SimulationError(operation, "only these sysctls are modelled: \(Self.keys.joined(separator: ", "))")
            }
            let name = String(key.dropFirst(parts.0.count).dropLast(parts.1.count))
            setIPv6Disabled(try position(of: name, for: operation), isOn)
        }
    }

    private mutating func setIPv6Disabled(_ position: Int, _ isDisabled: Bool) {
        guard links[position].isIPv6Disabled != isDisabled else { return }
        links[position].isIPv6Disabled = isDisabled
        if isDisabled {
            links[position].isReady = false
            dropRoutes6(on: links[position].interface.index)
            dropAddresses6(position, keepsPermanent: false)
        } else if links[position].interface.isUp {
            addLoopbackAddress(position)
            startIPv6(position)
        }
    }
}
