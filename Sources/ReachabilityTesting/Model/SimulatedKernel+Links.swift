internal import Reachability

extension SimulatedKernel {
    mutating func addLink(
        _ name: String, _ kind: NetworkInterface.Kind, isUp: Bool, hasCarrier: Bool
    ) throws(SimulationError) -> (UInt32, [NetworkEvent]) {
        guard !links.contains(where: { $0.name == name }) else { throw SimulationError("an interface named \(name) exists") }
        var link = NetworkInterface(index: makeIndex(), name: name, kind: kind, isUp: isUp, hasCarrier: hasCarrier && isUp)
        link.operationalState = Self.state(of: link)
        links.append(link)
        pluggedIn[link.index] = hasCarrier
        return (link.index, [.link(link)])
    }

    mutating func removeLink(_ name: String) throws(SimulationError) -> [NetworkEvent] {
        let link = links[try position(name)]
        // The kernel shuts a device down before it unregisters it; its IPv4 addresses go with events, its IPv4 routes without.
        var events = try setUp(name, false)
        let position = try position(name)
        events += links[position].addresses.map { .addressRemoved($0, interface: link.index) }
        links.remove(at: position)
        routes.removeAll { $0.interface == link.index }
        pluggedIn[link.index] = nil
        return events + [.linkRemoved(index: link.index)]
    }

    mutating func rename(_ name: String, to newName: String) throws(SimulationError) -> [NetworkEvent] {
        guard !links.contains(where: { $0.name == newName }) else { throw SimulationError("an interface named \(newName) exists") }
        let position = try position(name)
        links[position].name = newName
        return [.link(links[position])]
    }

    /// Sets a link up or down.
    ///
    /// Down: IPv4 routes vanish without a message ("the lack of notification in these cases is deliberate", kernel commit
    /// 4b2b606075e5), IPv6 routes and addresses with one each. Up: only the routes of the addresses come back.
    mutating func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) -> [NetworkEvent] {
        let position = try position(name)
        guard links[position].isUp != isUp else { return [] }
        let index = links[position].index
        let hadCarrier = links[position].hasCarrier
        links[position].isUp = isUp
        links[position].hasCarrier = isUp && pluggedIn[index] ?? true
        if links[position].hasCarrier != hadCarrier { links[position].carrierChanges &+= 1 }
        links[position].operationalState = Self.state(of: links[position])
        var events: [NetworkEvent] = [.link(links[position])]
        if isUp {
            for address in links[position].addresses { events += addConnectedRoute(address, index) }
        } else {
            events += removeRoutes { $0.interface == index && $0.destination.address.family == .ipv6 }
            routes.removeAll { $0.interface == index }
            let lost = links[position].addresses.filter { $0.address.family == .ipv6 && !$0.address.isLoopback }
            links[position].addresses.removeAll { lost.contains($0) }
            events += lost.map { .addressRemoved($0, interface: index) }
        }
        return events
    }

    /// Carrier comes or goes: one link message, and the routes stay.
    mutating func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) -> [NetworkEvent] {
        let position = try position(name)
        pluggedIn[links[position].index] = hasCarrier
        guard links[position].isUp, links[position].hasCarrier != hasCarrier else { return [] }
        links[position].hasCarrier = hasCarrier
        links[position].carrierChanges &+= 1
        links[position].operationalState = Self.state(of: links[position])
        return [.link(links[position])]
    }

    mutating func setOperationalState(_ name: String, _ state: NetworkInterface.OperationalState) throws(SimulationError)
        -> [NetworkEvent]
    {
        let position = try position(name)
        links[position].operationalState = state
        return [.link(links[position])]
    }

    private static func state(of link: NetworkInterface) -> NetworkInterface.OperationalState {
        if link.kind == .tunnel || link.kind == .loopback { return .unknown }
        return link.isUp && link.hasCarrier ? .up : .down
    }
}
