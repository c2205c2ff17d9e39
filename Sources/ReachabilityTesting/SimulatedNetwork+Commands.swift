public import Reachability

/// Changes in the spirit of ip(8).
///
/// Each is published when the call returns, as one batch. Each throws ``SimulationError`` if it cannot be made; then nothing
/// changes. The members of ``SimulatedKernel`` with the same names tell what the kernel announces.
extension SimulatedNetwork {
    /// Adds a link: ``SimulatedKernel/addLink(_:kind:isUp:hasCarrier:isPointToPoint:)``.
    @discardableResult
    public func addLink(
        _ name: String, kind: NetworkInterface.Kind = .wired, isUp: Bool = true, hasCarrier: Bool = true,
        isPointToPoint: Bool? = nil
    ) throws(SimulationError) -> UInt32 {
        try batch { kernel throws(SimulationError) in
            try kernel.addLink(name, kind: kind, isUp: isUp, hasCarrier: hasCarrier, isPointToPoint: isPointToPoint)
        }
    }

    /// Removes a link: ``SimulatedKernel/removeLink(_:)``.
    public func removeLink(_ name: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeLink(name) }
    }

    /// Sets a link up or down: ``SimulatedKernel/setUp(_:_:)``.
    public func setUp(_ name: String, _ isUp: Bool) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setUp(name, isUp) }
    }

    /// Gives or takes a link's carrier: ``SimulatedKernel/setCarrier(_:_:)``.
    public func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setCarrier(name, hasCarrier) }
    }

    /// Pulls a link's cable out.
    public func pull(_ name: String) throws(SimulationError) { try setCarrier(name, false) }

    /// Puts a link's cable in.
    public func plug(_ name: String) throws(SimulationError) { try setCarrier(name, true) }

    /// Sets a link's operational state: ``SimulatedKernel/setOperationalState(_:_:)``.
    public func setOperationalState(
        _ name: String, _ operationalState: NetworkInterface.OperationalState
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setOperationalState(name, operationalState) }
    }

    /// Gives a link another name: ``SimulatedKernel/rename(_:to:)``.
    public func rename(_ name: String, to newName: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.rename(name, to: newName) }
    }

    /// Changes a setting: ``SimulatedKernel/setSysctl(_:_:)``.
    public func setSysctl(_ key: String, _ value: Int) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setSysctl(key, value) }
    }

    /// Gives a link an address: ``SimulatedKernel/addAddress(_:_:isTentative:isOptimistic:skipsDetection:)``.
    public func addAddress(
        _ name: String, _ address: String, isTentative: Bool = false, isOptimistic: Bool = false, skipsDetection: Bool = false
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addAddress(
                name, address, isTentative: isTentative, isOptimistic: isOptimistic, skipsDetection: skipsDetection)
        }
    }

    /// Takes an address from a link: ``SimulatedKernel/removeAddress(_:_:)``.
    public func removeAddress(_ name: String, _ address: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeAddress(name, address) }
    }

    /// Ends duplicate address detection: ``SimulatedKernel/finishDetection(of:on:hasFailed:)``.
    public func finishDetection(of address: String, on name: String, hasFailed: Bool = false) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.finishDetection(of: address, on: name, hasFailed: hasFailed) }
    }
}
