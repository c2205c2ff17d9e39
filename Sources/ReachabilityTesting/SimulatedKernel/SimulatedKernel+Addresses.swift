internal import Reachability

extension SimulatedKernel {
    /// Adds an address to a link, like `ip address add`.
    ///
    /// Announces the address and, if the link is up, the route to its prefix: after an IPv4 address, before an IPv6 address.
    ///
    /// - Parameters:
    ///   - name: The link.
    ///   - text: An address with a prefix length, such as `192.0.2.10/24`; by default the full length.
    ///   - isTentative: `true` while duplicate address detection (RFC 4862 §5.4) is in progress; see
    ///     ``finishDetection(of:on:hasFailed:)``. An IPv6 address is always tentative at first if a ``detectionTime`` is set or
    ///     the link is down.
    ///   - isOptimistic: `true` if the address is usable while it is tentative (RFC 4429).
    ///   - skipsDetection: `true` to skip detection in any case, like `nodad`.
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
            throw SimulationError(operation, "duplicate address detection is for IPv6 only: omit isTentative and isOptimistic")
        }
        guard address.family == .ipv4 || !links[position].isIPv6Disabled else {
            throw SimulationError(operation, "IPv6 is disabled on \(name) (EACCES)")
        }
        var entry = NetworkInterface.Address(address, prefixLength: length, isTentative: isTentative, isOptimistic: isOptimistic)
        if address.family == .ipv6 {
            let isDetected = detectionTime.map { $0 > .zero } ?? false
            if isDetected || !links[position].interface.isUp { entry.isTentative = true }
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

    /// Removes an address from a link, like `ip address del`.
    ///
    /// Announces the address, the route to its prefix and the IPv4 routes that prefer it as their source; IPv6 routes lose that
    /// preference silently. IPv4 addresses that were added later in the same prefix are removed too (`promote_secondaries` is
    /// 0). With the link's last IPv4 address, all its other IPv4 routes are removed without an announcement.
    ///
    /// - Parameters:
    ///   - name: The link.
    ///   - text: The address; a prefix length must match, if given.
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

    /// Adds the route to an address's prefix, unless it exists.
    mutating func connect(_ address: NetworkInterface.Address, on interface: NetworkInterface) {
        guard interface.isUp, !interface.isLoopback, let route = Route(connecting: address, on: interface.index) else { return }
        guard !routes.contains(where: { $0.isConnected && $0.destination == route.destination && $0.interface == route.interface })
        else { return }
        routes.append(route)
        announce(.route(change(of: route, isRemoval: false)))
    }

    /// Removes an address and everything that depends on it.
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
        // The kernel searches only the main table for routes that prefer it (fib_sync_down_addr(), net/ipv4/fib_semantics.c).
        if !links.contains(where: { $0.holds(entry.address) }) {
            removeRoutes { $0.source == entry.address && !$0.isConnected && $0.table == Route.mainTable }
        }
        if !interface.addresses.contains(where: { $0.address.family == .ipv4 }) { dropRoutes4(on: interface.index) }
    }

    private mutating func removeRoutes(where matches: (Route) -> Bool) {
        for route in routes where matches(route) { announce(.route(change(of: route, isRemoval: true))) }
        routes.removeAll(where: matches)
    }

    private func find(
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

/// The IPv6 addresses that the kernel adds, keeps and removes itself as links come and go.
extension SimulatedKernel {
    /// Adds a link-local address made from the hardware address (EUI-64, RFC 4291 appendix A) to a ready link, unless it
    /// exists.
    ///
    /// The route to the prefix is announced at once, the address after its detection.
    mutating func addLinkLocalAddress(_ position: Int, announcing: (inout SimulatedKernel) -> Void = { _ in }) {
        let interface = links[position].interface
        // The hardware address of a link of the model is 02:00:00 and the last three bytes of its index.
        let index = UInt128(interface.index)
        let identifier = (index >> 16 & 0xff) << 40 | 0xff << 32 | 0xfe << 24 | index & 0xffff
        let address = IPAddress(family: .ipv6, value: 0xfe80 << 112 | identifier)
        guard sysctls.makesLinkLocalAddresses, !interface.isLoopback, interface.kind != .tunnel,
            !interface.addresses.contains(where: { $0.address == address })
        else {
            announcing(&self)
            return
        }
        let entry = NetworkInterface.Address(address, prefixLength: 64, isTentative: detectionTime != nil)
        connect(entry, on: interface)
        announcing(&self)
        links[position].interface.addresses.append(entry)
        guard detectionTime != nil else {
            announce(.address(entry, interface: interface.index))
            return
        }
        startDetections(position)
    }

    mutating func addLoopbackAddress(_ position: Int) {
        let interface = links[position].interface
        guard interface.isLoopback, !links[position].isIPv6Disabled,
            !interface.addresses.contains(where: { $0.address == Self.loopbackAddress6.address })
        else { return }
        links[position].interface.addresses.append(Self.loopbackAddress6)
        announce(.address(Self.loopbackAddress6, interface: Self.loopbackIndex))
    }

    /// Removes and announces a link's IPv6 addresses, except for addresses that `keep_addr_on_down` keeps.
    mutating func dropAddresses6(_ position: Int, keepsPermanent: Bool) {
        let link = links[position]
        stopDetection(on: link.interface.index)
        links[position].interface.addresses = []
        for var held in link.interface.addresses {
            let isKept = keepsPermanent && sysctls.keepsAddressesOnDown && !held.address.isLinkLocal && !held.address.isLoopback
            guard held.address.family == .ipv4 || isKept else {
                announce(.addressRemoved(held, interface: link.interface.index))
                continue
            }
            // The address is detected again when the link comes up.
            let isDetected = held.address.family == .ipv6 && detectionTime != nil && !link.undetected.contains(held.address)
            if isDetected { held.isTentative = true }
            if held.address.family == .ipv6 { links[position].kept.insert(held.address) }
            links[position].interface.addresses.append(held)
        }
    }

    /// Announces the kept addresses, except for addresses that are detected again (fixup_permanent_addr(),
    /// net/ipv6/addrconf.c).
    mutating func announceKeptAddresses(_ position: Int) {
        let link = links[position]
        links[position].kept = []
        for place in link.interface.addresses.indices {
            let address = link.interface.addresses[place].address
            let isDetected = detectionTime.map { $0 > .zero } ?? false && !link.undetected.contains(address)
            guard link.kept.contains(address), !isDetected else { continue }
            links[position].interface.addresses[place].isTentative = false
            announce(.address(links[position].interface.addresses[place], interface: link.interface.index))
        }
    }
}

/// Duplicate address detection over time (RFC 4862 §5.4; net/ipv6/addrconf.c, addrconf_dad_work()).
extension SimulatedKernel {
    /// A detection in progress.
    struct Detection: Hashable, Sendable {
        var address: IPAddress
        var interface: UInt32
        var end: Duration
    }

    /// The time of the model's next own change; `nil` if there is none.
    public var nextDeadline: Duration? { detections.map(\.end).min() }

    /// Advances the time: detections that are due succeed, in the order of their deadlines, and are announced.
    ///
    /// A ``SimulatedNetwork`` calls it with the time of its clock. Time does not go backwards.
    public mutating func advance(to time: Duration) {
        while let next = detections.min(by: { $0.end < $1.end }), next.end <= time {
            now = max(now, next.end)
            detections.removeAll { $0 == next }
            guard let position = links.firstIndex(where: { $0.interface.index == next.interface }) else { continue }
            finishDetection(of: next.address, at: position, hasFailed: false)
        }
        now = max(now, time)
    }

    /// Adopts the time of a clock; detections in progress keep their remaining time.
    mutating func adopt(_ time: Duration) {
        let shift = time.saturatingSubtract(now)
        for place in detections.indices { detections[place].end = detections[place].end.saturatingAdd(shift) }
        now = time
    }

    /// Finishes the duplicate address detection of a tentative address and announces it.
    ///
    /// - Parameters:
    ///   - text: The address.
    ///   - name: The link.
    ///   - hasFailed: `true` if the address is a duplicate: it stays tentative and is never usable.
    public mutating func finishDetection(
        of text: String, on name: String, hasFailed: Bool = false
    ) throws(SimulationError) {
        let operation = "finishDetection(of: \"\(text)\", on: \"\(name)\")"
        let position = try position(of: name, for: operation)
        let entry = try find(try parseAddress(text, for: operation).address, at: position, for: operation)
        guard entry.isTentative, !entry.hasFailedDetection else {
            throw SimulationError(operation, "it is not tentative: add it with isTentative: true, or set detectionTime before")
        }
        guard links[position].interface.isUp else {
            throw SimulationError(operation, "nothing is detected while \(name) is down: set it up first")
        }
        finishDetection(of: entry.address, at: position, hasFailed: hasFailed)
    }

    /// Starts the detection of all tentative addresses of a ready link.
    mutating func startDetections(_ position: Int) {
        guard let detectionTime, links[position].isReady else { return }
        let interface = links[position].interface
        for held in interface.addresses where held.isTentative && !held.hasFailedDetection {
            guard !detections.contains(where: { $0.address == held.address && $0.interface == interface.index }) else { continue }
            if detectionTime <= .zero {
                finishDetection(of: held.address, at: position, hasFailed: false)
            } else {
                detections.append(
                    Detection(address: held.address, interface: interface.index, end: now.saturatingAdd(detectionTime)))
            }
        }
    }

    private mutating func stopDetection(of address: IPAddress? = nil, on interface: UInt32) {
        detections.removeAll { $0.interface == interface && (address == nil || $0.address == address) }
    }

    private mutating func finishDetection(of address: IPAddress, at position: Int, hasFailed: Bool) {
        let interface = links[position].interface
        stopDetection(of: address, on: interface.index)
        guard let place = interface.addresses.firstIndex(where: { $0.address == address }) else { return }
        // A failed address stays tentative (net/ipv6/addrconf.c, addrconf_dad_stop()).
        links[position].interface.addresses[place].isTentative = hasFailed
        links[position].interface.addresses[place].isOptimistic = false
        links[position].interface.addresses[place].hasFailedDetection = hasFailed
        announce(.address(links[position].interface.addresses[place], interface: interface.index))
    }
}

extension NetworkInterface.Address {
    /// Returns `true` if the other address has the same prefix.
    fileprivate func hasPrefix(of other: NetworkInterface.Address) -> Bool {
        prefixLength == other.prefixLength && IPPrefix(address, length: prefixLength).contains(other.address)
    }
}
