internal import Reachability

extension SimulatedNetwork {
    /// Gives an interface an address such as `192.0.2.10/24`, and the route of its prefix.
    ///
    /// - Parameter isTentative: whether duplicate address detection is still to be finished (RFC 4862 §5.4).
    public func addAddress(_ address: String, to name: String, isTentative: Bool = false) throws(SimulationError) {
        try change { kernel throws(SimulationError) in
            var address = try SimulatedKernel.address(address)
            address.isTentative = isTentative
            return ((), try kernel.addAddress(address, to: name))
        }
    }

    /// Takes an address from an interface.
    ///
    /// The last IPv4 address takes all IPv4 routes of the interface along, unannounced.
    public func removeAddress(_ address: String, from name: String) throws(SimulationError) {
        try change { kernel throws(SimulationError) in
            ((), try kernel.removeAddress(try SimulatedKernel.address(address), from: name))
        }
    }

    /// Ends duplicate address detection: the address becomes usable, or turns out to be a duplicate.
    public func finishDetection(of address: String, on name: String, isDuplicate: Bool = false) throws(SimulationError) {
        try change { kernel throws(SimulationError) in
            ((), try kernel.finishDetection(of: try SimulatedKernel.address(address), on: name, isDuplicate: isDuplicate))
        }
    }

    /// Adds a route.
    ///
    /// - Parameters:
    ///   - destination: `default` for IPv4, `default6` for IPv6, or a prefix such as `10.0.0.0/8`.
    ///   - gateway: the next hop, of either family; none for a destination on the link.
    ///   - name: the interface; none for a route that refuses.
    ///   - metric: the lower, the better.
    ///   - kind: what it does with packets.
    ///   - source: the preferred source address.
    public func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32 = 0, kind: RouteKind = .unicast,
        source: String? = nil
    ) throws(SimulationError) {
        try setRoute(destination, gateway, name, metric, kind, source, replacing: false)
    }

    /// Replaces the route to a destination with the same metric, or adds one: one message, and none for the old route.
    public func replaceRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32 = 0, kind: RouteKind = .unicast,
        source: String? = nil
    ) throws(SimulationError) {
        try setRoute(destination, gateway, name, metric, kind, source, replacing: true)
    }

    /// Removes a route; without a metric the oldest one to that destination.
    public func removeRoute(to destination: String, metric: UInt32? = nil) throws(SimulationError) {
        try change { kernel throws(SimulationError) in
            ((), try kernel.removeRoute(try SimulatedKernel.prefix(destination), metric: metric))
        }
    }

    private func setRoute(
        _ destination: String, _ gateway: String?, _ name: String?, _ metric: UInt32, _ kind: RouteKind, _ source: String?,
        replacing: Bool
    ) throws(SimulationError) {
        try change { kernel throws(SimulationError) in
            guard kind != .unicast || name != nil else { throw SimulationError("a route to \(destination) needs an interface") }
            var index: UInt32?
            if let name { index = kernel.links[try kernel.position(name)].index }
            var hop: IPAddress?
            if let gateway { hop = try SimulatedKernel.address(gateway).address }
            var from: IPAddress?
            if let source { from = try SimulatedKernel.address(source).address }
            let route = SimulatedKernel.Route(
                destination: try SimulatedKernel.prefix(destination), gateway: hop, interface: index, metric: metric, kind: kind,
                source: from)
            return ((), try kernel.addRoute(route, replacing: replacing))
        }
    }
}
