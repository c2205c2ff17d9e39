public import Reachability

extension SimulatedKernel {
    /// Adds a link, like `ip link add`.
    ///
    /// It is announced.
    ///
    /// - Parameters:
    ///   - name: 1 to 15 bytes, as the kernel wants it (net/core/dev.c, dev_valid_name).
    ///   - kind: What sort of device it is.
    ///   - isUp: Whether it is set up at once.
    ///   - hasCarrier: Whether the cable is in.
    ///   - isPointToPoint: Whether it has one other end (IFF_POINTOPOINT, netdevice(7)); by default true for tunnels.
    /// - Returns: The link's index, never used before.
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
        links.append(Link(interface: interface, isPlugged: hasCarrier, isIPv6Disabled: settings.disablesIPv6))
        makeReady(links.count - 1) { $0.announceLink($0.links.count - 1) }
        return interface.index
    }

    /// Removes a link, like `ip link del`.
    ///
    /// Announced are the link going down with all that belongs to that, its IPv4 addresses and itself; its IPv4 routes are not.
    public mutating func removeLink(_ name: String) throws(SimulationError) {
        let operation = "removeLink(\"\(name)\")"
        let position = try position(of: name, for: operation)
        let interface = links[position].interface
        guard !interface.isLoopback else { throw SimulationError(operation, "the kernel does not let go of its loopback device") }
        if interface.isUp { takeDown(position, keepsPermanent: false) }
        dropNexthops(on: interface.index)
        dropRoutes4(on: interface.index, isRemoved: true)
        for address in links[position].interface.addresses { drop(address, at: position) }
        dropLegs6(on: interface.index)
        links.remove(at: position)
        announce(.linkRemoved(index: interface.index))
    }

    /// Sets a link up or down, like `ip link set … up`.
    ///
    /// Down: the link is announced; its IPv6 routes and addresses go with an announcement each, its IPv4 routes without any,
    /// its IPv4 addresses stay ("The lack of notification in these cases is deliberate", Linux commit 4b2b606075e5). A multipath
    /// route goes on with its other next hops, in silence. Up: the link and the routes to its own prefixes come back with
    /// announcements, next hops of multipath routes in silence; routes through gateways do not come back.
    public mutating func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) {
        let position = try position(of: name, for: "setUp(\"\(name)\", \(isUp))")
        guard links[position].interface.isUp != isUp else { return }
        if isUp { bringUp(position) } else { takeDown(position, keepsPermanent: true) }
    }

    /// Puts the cable in or pulls it out.
    ///
    /// Only the link is announced. Its routes stay and look-ups still find them, unless `ignore_routes_with_linkdown` is set;
    /// nexthop objects and the routes through them go, IPv6's with an announcement before the link's, and do not come back with
    /// the carrier. While the link is down nobody notices.
    public mutating func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) {
        let position = try position(of: name, for: "setCarrier(\"\(name)\", \(hasCarrier))")
        guard links[position].isPlugged != hasCarrier else { return }
        links[position].isPlugged = hasCarrier
        guard links[position].interface.isUp else { return }
        changeCarrier(position, hasCarrier)
    }

    /// Pulls a link's cable out.
    public mutating func pull(_ name: String) throws(SimulationError) { try setCarrier(name, false) }

    /// Puts a link's cable in.
    public mutating func plug(_ name: String) throws(SimulationError) { try setCarrier(name, true) }

    /// Sets what the driver or a supplicant says of a link (RFC 2863), until the link or its carrier changes.
    ///
    /// It is announced.
    public mutating func setOperationalState(
        _ name: String, _ state: NetworkInterface.OperationalState
    ) throws(SimulationError) {
        let position = try position(of: name, for: "setOperationalState(\"\(name)\", .\(state))")
        guard links[position].interface.operationalState != state else { return }
        links[position].interface.operationalState = state
        makeReady(position) { $0.announceLink(position) }
    }

    /// Gives a link another name, up or not.
    ///
    /// Announced, and with it, again, its IPv4 addresses.
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
            throw SimulationError(operation, "there is a link named '\(name)' already (EEXIST)")
        }
    }
}
