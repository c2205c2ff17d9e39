internal import Reachability

extension SimulatedKernel {
    /// The sysctls of the whole machine (Documentation/networking/ip-sysctl.rst).
    struct Settings: Hashable, Sendable {
        var ignoresIPv4LinkDown = false
        var ignoresIPv6LinkDown = false
        var isNexthopCompatible = true
        var skipsNotifyOnDeviceDown = false
        var keepsAddressesOnDown = false
        /// Whether new links begin with IPv6 disabled.
        var disablesIPv6 = false
        /// The mode of the model; the kernel's default is to make them.
        var makesLinkLocalAddresses = false
    }

    private static let keys = [
        "net.ipv4.conf.all.ignore_routes_with_linkdown", "net.ipv6.conf.all.ignore_routes_with_linkdown",
        "net.ipv4.nexthop_compat_mode", "net.ipv6.route.skip_notify_on_dev_down", "net.ipv6.conf.all.keep_addr_on_down",
        "net.ipv6.conf.all.addr_gen_mode", "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.LINK.disable_ipv6",
    ]

    /// Changes a setting that can change a verdict, like `sysctl -w`.
    ///
    /// - `net.ipv4.conf.all.ignore_routes_with_linkdown` and its like for IPv6: look-ups pass over routes whose link has no
    ///   carrier. Announced as a setting of all interfaces, and for IPv6 of each.
    /// - `net.ipv4.nexthop_compat_mode`: with 0, routes are not announced when the nexthop object changes that they lead through.
    /// - `net.ipv6.route.skip_notify_on_dev_down`: with 1, IPv6 routes go as silently as those of IPv4 when their link goes down.
    /// - `net.ipv6.conf.all.keep_addr_on_down`: with 1, IPv6 addresses stay while their link is down, all but link-local ones,
    ///   and are announced again when it comes up.
    /// - `net.ipv6.conf.all.addr_gen_mode`: with 0, as on a real machine, links in working order have a link-local address; with
    ///   1, as in a new model, only what they were given.
    /// - `net.ipv6.conf.all.disable_ipv6`, also for new links, or that of a link: with 1, IPv6 routes and addresses go with an
    ///   announcement each, but none of the link; with 0 none of them comes back. Routes that refuse are the loopback device's.
    ///
    /// What else follows is announced as by itself; most settings are not announced.
    public mutating func setSysctl(_ key: String, _ value: Int) throws(SimulationError) {
        let operation = "setSysctl(\"\(key)\", \(value))"
        let isOn = value != 0
        switch key {
        case "net.ipv4.conf.all.ignore_routes_with_linkdown":
            guard settings.ignoresIPv4LinkDown != isOn else { return }
            settings.ignoresIPv4LinkDown = isOn
            announce(.netconf(interface: nil))
        case "net.ipv6.conf.all.ignore_routes_with_linkdown":
            guard settings.ignoresIPv6LinkDown != isOn else { return }
            settings.ignoresIPv6LinkDown = isOn
            announce(.netconf(interface: nil))
            for link in links { announce(.netconf(interface: link.interface.index)) }
        case "net.ipv4.nexthop_compat_mode": settings.isNexthopCompatible = isOn
        case "net.ipv6.route.skip_notify_on_dev_down": settings.skipsNotifyOnDeviceDown = isOn
        case "net.ipv6.conf.all.keep_addr_on_down": settings.keepsAddressesOnDown = isOn
        case "net.ipv6.conf.all.addr_gen_mode":
            settings.makesLinkLocalAddresses = !isOn
            for position in links.indices where links[position].isReady { addLinkLocalAddress(position) }
        case "net.ipv6.conf.all.disable_ipv6":
            settings.disablesIPv6 = isOn
            for position in links.indices { setIPv6Disabled(position, isOn) }
        default:
            let parts = ("net.ipv6.conf.", ".disable_ipv6")
            guard key.hasPrefix(parts.0), key.hasSuffix(parts.1), key.utf8.count > parts.0.utf8.count + parts.1.utf8.count else {
                throw SimulationError(operation, "only these are modelled: \(Self.keys.joined(separator: ", "))")
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
            makeReady(position)
        }
    }
}
