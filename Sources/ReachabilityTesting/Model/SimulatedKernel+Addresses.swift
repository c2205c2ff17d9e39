internal import Reachability

extension SimulatedKernel {
    /// Gives a link an address, like `ip address add`.
    ///
    /// Announced are the address and, if the link is up, the route to its prefix: for IPv4 after it, for IPv6 before it.
    ///
    /// - Parameters:
    ///   - name: The link.
    ///   - text: An address with the length of its prefix, such as `192.0.2.10/24`; without one, the address alone.
    ///   - isTentative: Whether duplicate address detection (RFC 4862 §5.4) is still going on; see
    ///     ``finishDetection(of:on:hasFailed:)``. With a ``detectionTime`` it goes on anyway. While the link is down it cannot end,
    ///     so that an IPv6 address is tentative anyway.
    ///   - isOptimistic: Whether it can be used while it is tentative (RFC 4429).
    ///   - skipsDetection: Whether there is no detection whatever else is said, as with `nodad`.
    public mutating func addAddress(
        _ name: String, _ text: String, isTentative: Bool = false, isOptimistic: Bool = false, skipsDetection: Bool = false
    ) throws(SimulationError) {
        let operation = "addAddress(\"\(name)\", \"\(text)\")"
        let position = try position(of: name, for: operation)
        let (address, length) = try parseAddress(text, for: operation)
        guard !links[position].interface.addresses.contains(where: { $0.address == address }) else {
            throw SimulationError(operation, "\(name) has this address already (EEXIST)")
        }
        guard address.family == .ipv6 || !(isTentative || isOptimistic) else {
            throw SimulationError(operation, "duplicate address detection is for IPv6 only: leave out isTentative and isOptimistic")
        }
        guard address.family == .ipv4 || !links[position].isIPv6Disabled else {
            throw SimulationError(operation, "IPv6 is disabled on \(name) (EACCES)")
        }
        var entry = NetworkInterface.Address(address, prefixLength: length, isTentative: isTentative, isOptimistic: isOptimistic)
        if address.family == .ipv6 {
            let isAwaited = detectionTime.map { $0 > .zero } ?? false
            if isAwaited || !links[position].interface.isUp { entry.isTentative = true }
            if skipsDetection { entry.isTentative = false }
            links[position].undetected.remove(address)
            if skipsDetection { links[position].undetected.insert(address) }
        }
        links[position].interface.addresses.append(entry)
        let interface = links[position].interface
        if address.family == .ipv6 { connect(entry, on: interface) }
        announce(.address(entry, interface: interface.index))
        if address.family == .ipv4 {
            connect(entry, on: interface)
            if interface.isUp { revive(.ipv4, on: interface.index) }
        }
        startDetections(position)
    }

    /// Takes an address from a link, like `ip address del`.
    ///
    /// Announced are the address, the route to its prefix and the IPv4 routes that prefer it as their source; IPv6 routes
    /// forget that preference in silence. IPv4 addresses that were added later in the same prefix go with it
    /// (`promote_secondaries` is 0). If it was the link's last IPv4 address, all of the link's other IPv4 routes go without any
    /// announcement.
    ///
    /// A prefix length is checked if given.
    public mutating func removeAddress(_ name: String, _ text: String) throws(SimulationError) {
        let operation = "removeAddress(\"\(name)\", \"\(text)\")"
        let position = try position(of: name, for: operation)
        let (address, length) = try parseAddress(text, for: operation)
        let entry = try find(address, at: position, for: operation)
        guard !text.utf8.contains(UInt8(ascii: "/")) || entry.prefixLength == length else {
            throw SimulationError(operation, "\(name) has it as \(address)/\(entry.prefixLength)")
        }
        let addresses = links[position].interface.addresses
        if address.family == .ipv4, addresses.first(where: { $0.hasPrefix(of: entry) }) == entry {
            for secondary in addresses where secondary != entry && secondary.hasPrefix(of: entry) { drop(secondary, at: position) }
        }
        drop(entry, at: position)
    }

    /// Adds the route to an address's prefix, unless it is there.
    mutating func connect(_ address: NetworkInterface.Address, on interface: NetworkInterface) {
        guard interface.isUp, !interface.isLoopback, let route = Route(connecting: address, on: interface.index) else { return }
        guard !routes.contains(where: { $0.isConnected && $0.destination == route.destination && $0.interface == route.interface })
        else { return }
        routes.append(route)
        announce(.route(change(of: route, isRemoval: false)))
    }

    /// Takes an address and what depends on it.
    mutating func drop(_ entry: NetworkInterface.Address, at position: Int) {
        links[position].interface.addresses.removeAll { $0 == entry }
        links[position].kept.remove(entry.address)
        let interface = links[position].interface
        announce(.addressRemoved(entry, interface: interface.index))
        if !interface.addresses.contains(where: { $0.hasPrefix(of: entry) }) {
            let prefix = IPPrefix(entry.address, length: entry.prefixLength)
            removeRoutes { $0.isConnected && $0.destination == prefix && $0.interface == interface.index }
        }
        stopDetection(of: entry.address, on: interface.index)
        guard entry.address.family == .ipv4 else {
            if !links.contains(where: { $0.holds(entry.address) }) {
                for place in routes.indices where routes[place].source == entry.address { routes[place].source = nil }
            }
            return
        }
        // Only the main table is searched for what prefers it (fib_sync_down_addr(), net/ipv4/fib_semantics.c).
        if !links.contains(where: { $0.holds(entry.address) }) {
            removeRoutes { $0.source == entry.address && !$0.isConnected && $0.table == Route.mainTable }
        }
        if !interface.addresses.contains(where: { $0.address.family == .ipv4 }) { dropRoutes4(on: interface.index) }
    }

    private mutating func removeRoutes(where matches: (Route) -> Bool) {
        for route in routes where matches(route) { announce(.route(change(of: route, isRemoval: true))) }
        routes.removeAll(where: matches)
    }

    func find(
        _ address: IPAddress, at position: Int, for operation: String
    ) throws(SimulationError) -> NetworkInterface.Address {
        let interface = links[position].interface
        guard let entry = interface.addresses.first(where: { $0.address == address }) else {
            let held = interface.addresses.map { "\($0.address)/\($0.prefixLength)" }.joined(separator: ", ")
            throw SimulationError(operation, "\(interface.name) has no such address (EADDRNOTAVAIL); it has: \(held)")
        }
        return entry
    }
}

extension NetworkInterface.Address {
    /// Whether the other address has the same prefix.
    fileprivate func hasPrefix(of other: NetworkInterface.Address) -> Bool {
        prefixLength == other.prefixLength && IPPrefix(address, length: prefixLength).contains(other.address)
    }
}
