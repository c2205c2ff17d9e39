public import Reachability

extension SimulatedKernel {
    /// Adds a link and announces it, like `ip link add`.
    ///
    /// - Parameters:
    ///   - name: The name, 1 to 15 bytes (net/core/dev.c, dev_valid_name).
    ///   - kind: The kind of device.
    ///   - isUp: `true` to set the link up at once.
    ///   - hasCarrier: `true` if the cable is in.
    ///   - isPointToPoint: `true` if the link has one peer (IFF_POINTOPOINT, netdevice(7)); by default `true` for tunnels.
    /// A tunnel stands on ground, as `ReachabilityMonitor.Configuration.tunnelsStandAlone` says, if it is point-to-point.
    ///
    /// - Returns: The index of the link. An index is never used again.
    @discardableResult
    public mutating func addLink(
        _ name: String, kind: NetworkInterface.Kind = .wired, isUp: Bool = true, hasCarrier: Bool = true,
        isPointToPoint: Bool? = nil
    ) throws(SimulationError) -> UInt32 {
        try checkName(name, for: "addLink(\"\(name)\")")
        defer { nextIndex += 1 }
        var interface = NetworkInterface(
            index: nextIndex, name: name, kind: kind, isUp: isUp, hasCarrier: isUp && hasCarrier,
            isPointToPoint: isPointToPoint ?? (kind == .tunnel))
        interface.operationalState = operationalState(of: interface)
        if kind == .tunnel, interface.isPointToPoint { interface.underlay = .ground }
        links.append(Link(interface: interface, isPlugged: hasCarrier, isIPv6Disabled: sysctls.disablesIPv6))
        startIPv6(links.count - 1) { $0.announceLink($0.links.count - 1) }
        return interface.index
    }

    /// Sets what a link is made of and stands on, and announces it.
    package mutating func setUnderlay(
        _ name: String, _ underlay: NetworkInterface.Underlay = .none, linkKind: String = "", master: String? = nil
    ) throws(SimulationError) {
        let operation = "setUnderlay(\"\(name)\")"
        let position = try position(of: name, for: operation)
        var index: UInt32?
        if let master { index = links[try self.position(of: master, for: operation)].interface.index }
        links[position].interface.underlay = underlay
        links[position].interface.linkKind = linkKind
        links[position].interface.master = index
        announceLink(position)
    }

    /// Removes a link, like `ip link del`.
    ///
    /// Announces the link going down with its effects, the IPv4 addresses and the removal; does not announce the IPv4 routes.
    public mutating func removeLink(_ name: String) throws(SimulationError) {
        let operation = "removeLink(\"\(name)\")"
        let position = try position(of: name, for: operation)
        let interface = links[position].interface
        guard !interface.isLoopback else { throw SimulationError(operation, "the loopback device cannot be removed") }
        if interface.isUp { takeDown(position, keepsPermanent: false) }
        dropNexthops(on: interface.index)
        dropRoutes4(on: interface.index, isRemoved: true)
        for address in links[position].interface.addresses { drop(address, at: position) }
        dropNextHops6(on: interface.index)
        links.remove(at: position)
        announce(.linkRemoved(index: interface.index))
    }

    /// Sets a link up or down, like `ip link set … up`.
    ///
    /// Down: announces the link and each removed IPv6 route and address; removes IPv4 routes without an announcement and keeps
    /// IPv4 addresses ("The lack of notification in these cases is deliberate", Linux commit 4b2b606075e5). A multipath route
    /// silently continues with its other next hops. Up: restores the link and the routes to its own prefixes with
    /// announcements, and next hops of multipath routes silently. Routes through gateways do not come back.
    public mutating func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) {
        let position = try position(of: name, for: "setUp(\"\(name)\", \(isUp))")
        guard links[position].interface.isUp != isUp else { return }
        if isUp { bringUp(position) } else { takeDown(position, keepsPermanent: true) }
    }

    /// Plugs the cable in or pulls it out, and announces the link.
    ///
    /// Routes stay, and lookups still find them unless `ignore_routes_with_linkdown` is set. Nexthop objects and their routes
    /// are removed for good; their IPv6 routes are announced before the link. While the link is down nothing is announced.
    public mutating func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) {
        let position = try position(of: name, for: "setCarrier(\"\(name)\", \(hasCarrier))")
        guard links[position].isPlugged != hasCarrier else { return }
        links[position].isPlugged = hasCarrier
        guard links[position].interface.isUp else { return }
        changeCarrier(position, hasCarrier)
    }

    /// Pulls a link's cable out.
    public mutating func pull(_ name: String) throws(SimulationError) { try setCarrier(name, false) }

    /// Plugs a link's cable in.
    public mutating func plug(_ name: String) throws(SimulationError) { try setCarrier(name, true) }

    /// Sets the operational state (RFC 2863) of a link until the link or its carrier changes, and announces it.
    public mutating func setOperationalState(
        _ name: String, _ state: NetworkInterface.OperationalState
    ) throws(SimulationError) {
        let position = try position(of: name, for: "setOperationalState(\"\(name)\", .\(state))")
        guard links[position].interface.operationalState != state else { return }
        links[position].interface.operationalState = state
        startIPv6(position) { $0.announceLink(position) }
    }

    /// Renames a link, up or down; announces the link and its IPv4 addresses.
    public mutating func rename(_ name: String, to newName: String) throws(SimulationError) {
        let operation = "rename(\"\(name)\", to: \"\(newName)\")"
        let position = try position(of: name, for: operation)
        guard name != newName else { return }
        try checkName(newName, for: operation)
        links[position].interface.name = newName
        announceLink(position)
        let interface = links[position].interface
        for address in interface.addresses where address.address.family == .ipv4 {
            announce(.address(address, interface: interface.index))
        }
    }

    private func checkName(_ name: String, for operation: String) throws(SimulationError) {
        let bytes = Array(name.utf8)
        let isForbidden: (UInt8) -> Bool = { $0 == 0 || $0 == 0x20 || (9...13).contains($0) || $0 == 0x2f || $0 == 0x3a }
        guard (1...15).contains(bytes.count), name != ".", name != "..", !bytes.contains(where: isForbidden) else {
            throw SimulationError(operation, "a name has 1 to 15 bytes without '/', ':' and white space, and is not '.' or '..'")
        }
        guard !links.contains(where: { $0.interface.name == name }) else {
            throw SimulationError(operation, "a link named '\(name)' exists already (EEXIST)")
        }
    }
}

/// The effects of a link that goes down, comes up or becomes ready.
extension SimulatedKernel {
    private mutating func takeDown(_ position: Int, keepsPermanent: Bool) {
        links[position].interface.isUp = false
        setLowerUp(position, false)
        links[position].interface.operationalState = .down
        links[position].isReady = false
        announceLink(position)
        let index = links[position].interface.index
        dropNexthops(on: index)
        dropRoutes4(on: index)
        dropRoutes6(on: index)
        dropAddresses6(position, keepsPermanent: keepsPermanent)
    }

    private mutating func bringUp(_ position: Int) {
        links[position].interface.isUp = true
        setLowerUp(position, links[position].isPlugged)
        announceLink(position)
        addLoopbackAddress(position)
        for address in links[position].interface.addresses { connect(address, on: links[position].interface) }
        revive(.ipv4, on: links[position].interface.index)
        announceKeptAddresses(position)
        // The operational state follows the carrier with a separate announcement.
        let state = operationalState(of: links[position].interface)
        let hasChanged = links[position].interface.operationalState != state
        links[position].interface.operationalState = state
        startIPv6(position) {
            if hasChanged { $0.announceLink(position) }
        }
    }

    /// Changes the carrier of a link that is up.
    private mutating func changeCarrier(_ position: Int, _ hasCarrier: Bool) {
        setLowerUp(position, hasCarrier)
        links[position].interface.operationalState = operationalState(of: links[position].interface)
        // Routes through nexthop objects are removed before the link is announced; all others stay.
        if !hasCarrier { dropNexthops(on: links[position].interface.index) }
        for family in IPAddress.Family.allCases { rebalance(family, on: links[position].interface.index) }
        startIPv6(position) { $0.announceLink(position) }
    }

    /// Starts IPv6 on a link that was set up, as soon as the link is usable (addrconf_notify(), net/ipv6/addrconf.c).
    ///
    /// - Parameter announcing: Announces the link, before addresses that are ready at once.
    mutating func startIPv6(_ position: Int, announcing: (inout SimulatedKernel) -> Void = { _ in }) {
        let link = links[position]
        guard !link.isReady, !link.isIPv6Disabled, link.interface.isUsable else {
            announcing(&self)
            return
        }
        links[position].isReady = true
        revive(.ipv6, on: link.interface.index)
        addLinkLocalAddress(position, announcing: announcing)
        startDetections(position)
    }

    func operationalState(of interface: NetworkInterface) -> NetworkInterface.OperationalState {
        guard interface.isUp, interface.hasCarrier else { return .down }
        // Tunnels and the loopback device do not set it.
        return interface.kind == .tunnel || interface.isLoopback ? .unknown : .up
    }

    private mutating func setLowerUp(_ position: Int, _ hasCarrier: Bool) {
        guard links[position].interface.hasCarrier != hasCarrier else { return }
        links[position].interface.hasCarrier = hasCarrier
        if !links[position].interface.isLoopback { links[position].interface.carrierChanges &+= 1 }
    }
}
