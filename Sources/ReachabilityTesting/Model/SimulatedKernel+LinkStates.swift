internal import Reachability

/// What follows when a link goes down, comes up or is found to work.
extension SimulatedKernel {
    mutating func takeDown(_ position: Int, keepsPermanent: Bool) {
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

    mutating func bringUp(_ position: Int) {
        links[position].interface.isUp = true
        setLowerUp(position, links[position].isPlugged)
        announceLink(position)
        addLoopbackAddress(position)
        for address in links[position].interface.addresses { connect(address, on: links[position].interface) }
        revive(.ipv4, on: links[position].interface.index)
        welcomeKeptAddresses(position)
        // The operational state follows the carrier, with an announcement of its own.
        let state = operationalState(of: links[position].interface)
        let hasChanged = links[position].interface.operationalState != state
        links[position].interface.operationalState = state
        makeReady(position) {
            if hasChanged { $0.announceLink(position) }
        }
    }

    /// Tells of the addresses that outlived the link being down, but for those that have to be detected again
    /// (fixup_permanent_addr(), net/ipv6/addrconf.c).
    private mutating func welcomeKeptAddresses(_ position: Int) {
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

    /// Gives or takes the carrier of a link that is up.
    mutating func changeCarrier(_ position: Int, _ hasCarrier: Bool) {
        setLowerUp(position, hasCarrier)
        links[position].interface.operationalState = operationalState(of: links[position].interface)
        // Routes on nexthop objects go before the link is announced, all others stay.
        if !hasCarrier { dropNexthops(on: links[position].interface.index) }
        for family in IPAddress.Family.allCases { shareOut(family, on: links[position].interface.index) }
        makeReady(position) { $0.announceLink(position) }
    }

    /// Lets IPv6 begin on a link that was set up, as soon as it works (addrconf_notify(), net/ipv6/addrconf.c).
    ///
    /// The link's own announcement comes before those of addresses that are ready at once.
    mutating func makeReady(_ position: Int, announcing: (inout SimulatedKernel) -> Void = { _ in }) {
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

    /// Gives a working link an address made of its hardware address (EUI-64, RFC 4291 appendix A), unless it has one.
    ///
    /// The route to the prefix is announced at once, the address when its detection is over.
    mutating func addLinkLocalAddress(_ position: Int, announcing: (inout SimulatedKernel) -> Void = { _ in }) {
        let interface = links[position].interface
        // The hardware address of a link of the model is 02:00:00 and the last three bytes of its index.
        let index = UInt128(interface.index)
        let identifier = (index >> 16 & 0xff) << 40 | 0xff << 32 | 0xfe << 24 | index & 0xffff
        let address = IPAddress(family: .ipv6, value: 0xfe80 << 112 | identifier)
        guard settings.makesLinkLocalAddresses, !interface.isLoopback, interface.kind != .tunnel,
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

    /// Takes a link's IPv6 addresses, announcing each, but for those that `keep_addr_on_down` lets stay.
    mutating func dropAddresses6(_ position: Int, keepsPermanent: Bool) {
        let link = links[position]
        stopDetection(on: link.interface.index)
        links[position].interface.addresses = []
        for var held in link.interface.addresses {
            let isKept = keepsPermanent && settings.keepsAddressesOnDown && !held.address.isLinkLocal && !held.address.isLoopback
            guard held.address.family == .ipv4 || isKept else {
                announce(.addressRemoved(held, interface: link.interface.index))
                continue
            }
            // It will have to be detected again.
            let isDetected = held.address.family == .ipv6 && detectionTime != nil && !link.undetected.contains(held.address)
            if isDetected { held.isTentative = true }
            if held.address.family == .ipv6 { links[position].kept.insert(held.address) }
            links[position].interface.addresses.append(held)
        }
    }

    func operationalState(of interface: NetworkInterface) -> NetworkInterface.OperationalState {
        guard interface.isUp, interface.hasCarrier else { return .down }
        // Tunnels and the loopback device never say.
        return interface.kind == .tunnel || interface.isLoopback ? .unknown : .up
    }

    private mutating func setLowerUp(_ position: Int, _ hasCarrier: Bool) {
        guard links[position].interface.hasCarrier != hasCarrier else { return }
        links[position].interface.hasCarrier = hasCarrier
        if !links[position].interface.isLoopback { links[position].interface.carrierChanges &+= 1 }
    }
}
