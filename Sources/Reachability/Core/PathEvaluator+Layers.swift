extension PathEvaluator {
    /// Why there is no usable route: the layer at which the interface that got furthest stops.
    package func missingLayer(_ destination: IPAddress?, _ scope: Scope, _ table: InterfaceTable) -> OfflineReason {
        table.all
            .filter { !$0.isLoopback && (scope.interface == nil || $0.name == scope.interface) }
            .map { layer(of: $0, for: destination) }
            .max() ?? .noInterface
    }

    /// The layer that one interface lacks; `noRoute` if it lacks none.
    package func layer(of interface: NetworkInterface, for destination: IPAddress?) -> OfflineReason {
        guard interface.isUp else { return .adminDown }
        guard interface.hasCarrier else { return .noCarrier }
        guard interface.isUsable else { return .dormant }
        let addresses = interface.addresses.filter { held in
            guard let destination else { return true }
            return held.address.family == destination.family && !held.address.isLoopback
                && (!held.address.isLinkLocal || destination.hasLinkScope)
        }
        if addresses.contains(where: \.isReady) { return .noRoute }
        return addresses.contains { $0.isTentative && !$0.hasFailedDetection } ? .addressTentative : .noAddress
    }
}
