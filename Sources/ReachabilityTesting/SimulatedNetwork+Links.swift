public import Reachability

extension SimulatedNetwork {
    /// Adds an interface and returns its index; by default a cable that is up and plugged in.
    @discardableResult
    public func addLink(
        _ name: String, kind: NetworkInterface.Kind = .wired, isUp: Bool = true, hasCarrier: Bool = true
    ) throws(SimulationError) -> UInt32 {
        try change { kernel throws(SimulationError) in try kernel.addLink(name, kind, isUp: isUp, hasCarrier: hasCarrier) }
    }

    /// Removes an interface with its addresses and routes; its IPv4 routes go unannounced.
    public func removeLink(_ name: String) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.removeLink(name)) }
    }

    /// Renames an interface; its index stays.
    public func rename(_ name: String, to newName: String) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.rename(name, to: newName)) }
    }

    /// Sets an interface up or down.
    ///
    /// Down, its IPv4 routes vanish unannounced and its IPv6 addresses and routes with messages; up, only the routes of its
    /// addresses come back.
    public func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.setUp(name, isUp)) }
    }

    /// Sets an interface's operational state (RFC 2863), as 802.1X or a bond would.
    public func setOperationalState(_ name: String, _ state: NetworkInterface.OperationalState) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.setOperationalState(name, state)) }
    }

    /// Pulls the cable of an interface: one link message, and its routes stay.
    public func pull(_ name: String) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.setCarrier(name, false)) }
    }

    /// Plugs the cable of an interface back.
    public func plug(_ name: String) throws(SimulationError) {
        try change { kernel throws(SimulationError) in ((), try kernel.setCarrier(name, true)) }
    }
}
