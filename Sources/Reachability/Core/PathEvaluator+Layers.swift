extension PathEvaluator {
    /// Why there is no usable route: the layer at which the interface that got furthest stops.
    package func missingLayer(_ destination: IPAddress?, _ scope: Scope, _ table: InterfaceTable) -> OfflineReason {
        var furthest = OfflineReason.noInterface
        for interface in table.all where !interface.isLoopback && (scope.interface == nil || interface.name == scope.interface) {
            furthest = max(furthest, layer(of: interface, for: destination))
        }
        return furthest
    }

    /// The layer that one interface lacks; `noRoute` if it lacks none.
    package func layer(of interface: NetworkInterface, for destination: IPAddress?) -> OfflineReason {
        guard interface.isUp else { return .adminDown }
        guard interface.hasCarrier else { return .noCarrier }
        guard interface.isUsable else { return .dormant }
        var layer = OfflineReason.noAddress
        for held in interface.addresses where held.canReach(destination) {
            if held.isReady { return .noRoute }
            if held.isTentative && !held.hasFailedDetection { layer = .addressTentative }
        }
        return layer
    }
}

extension NetworkInterface.Address {
    /// If true, packets to a destination may come from an address of this kind; `nil` stands for any destination.
    fileprivate func canReach(_ destination: IPAddress?) -> Bool {
        guard let destination else { return true }
        return address.family == destination.family && !address.isLoopback && (!address.isLinkLocal || destination.hasLinkScope)
    }
}
