internal import Reachability

extension SimulatedKernel {
    mutating func addAddress(_ address: NetworkInterface.Address, to name: String) throws(SimulationError) -> [NetworkEvent] {
        let position = try position(name)
        guard
            !links[position].addresses.contains(where: { $0.address == address.address && $0.prefixLength == address.prefixLength })
        else { throw SimulationError("\(name) has \(address.address)/\(address.prefixLength) already") }
        links[position].addresses.append(address)
        let index = links[position].index
        // The route of the prefix is announced before the address (captured traffic of kernel 6.18).
        return (links[position].isUp ? addConnectedRoute(address, index) : []) + [.address(address, interface: index)]
    }

    /// Removes an address.
    ///
    /// The last IPv4 address of a link takes all its IPv4 routes along, unannounced but for the prefix's own (fib_disable_ip,
    /// net/ipv4/fib_frontend.c).
    mutating func removeAddress(_ address: NetworkInterface.Address, from name: String) throws(SimulationError) -> [NetworkEvent] {
        let position = try position(name)
        let index = links[position].index
        guard
            let held = links[position].addresses.firstIndex(where: {
                $0.address == address.address && $0.prefixLength == address.prefixLength
            })
        else { throw SimulationError("\(name) has no address \(address.address)/\(address.prefixLength)") }
        links[position].addresses.remove(at: held)
        let family = address.address.family
        let prefix = IPPrefix(address.address, length: address.prefixLength)
        var events: [NetworkEvent] = [.addressRemoved(address, interface: index)]
        let isShared = links[position].addresses.contains {
            $0.address.family == family && IPPrefix($0.address, length: $0.prefixLength) == prefix
        }
        if !isShared { events += removeRoutes { $0.isConnected && $0.interface == index && $0.destination == prefix } }
        events += removeRoutes { $0.source == address.address }
        if family == .ipv4, !links[position].addresses.contains(where: { $0.address.family == .ipv4 }) {
            routes.removeAll { $0.interface == index && $0.destination.address.family == .ipv4 }
        }
        return events
    }

    /// Ends the detection of duplicates: the address becomes usable, or is a duplicate.
    mutating func finishDetection(
        of address: NetworkInterface.Address, on name: String, isDuplicate: Bool
    ) throws(SimulationError) -> [NetworkEvent] {
        let position = try position(name)
        guard let held = links[position].addresses.firstIndex(where: { $0.address == address.address }) else {
            throw SimulationError("\(name) has no address \(address.address)")
        }
        links[position].addresses[held].isTentative = isDuplicate
        links[position].addresses[held].hasFailedDetection = isDuplicate
        return [.address(links[position].addresses[held], interface: links[position].index)]
    }

    mutating func addConnectedRoute(_ address: NetworkInterface.Address, _ index: UInt32) -> [NetworkEvent] {
        let prefix = IPPrefix(address.address, length: address.prefixLength)
        guard address.prefixLength < address.address.family.bitWidth,
            !routes.contains(where: { $0.isConnected && $0.interface == index && $0.destination == prefix })
        else { return [] }
        let isIPv4 = address.address.family == .ipv4
        routes.append(
            Route(
                destination: prefix, interface: index, metric: isIPv4 ? 0 : 256, kind: .unicast,
                source: isIPv4 ? address.address : nil,
                isConnected: true))
        return [.route(RouteChange(prefix, interface: index))]
    }
}
