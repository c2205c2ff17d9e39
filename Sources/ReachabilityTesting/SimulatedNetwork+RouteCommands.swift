public import Reachability

/// Changes of routes, rules and nexthop objects, in the spirit of ip(8).
///
/// Each is published when the call returns, as one batch; each throws ``SimulationError`` if it cannot be made.
extension SimulatedNetwork {
    /// Adds a route: ``SimulatedKernel/addRoute(to:via:dev:metric:type:source:table:from:)``.
    public func addRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: SimulatedKernel.RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(
                to: destination, via: gateway, dev: name, metric: metric, type: type, source: source, table: table,
                from: sources)
        }
    }

    /// Adds a multipath route: ``SimulatedKernel/addRoute(to:through:metric:table:)``.
    public func addRoute(
        to destination: String, through hops: [SimulatedKernel.Hop], metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(to: destination, through: hops, metric: metric, table: table)
        }
    }

    /// Adds a route through a nexthop object: ``SimulatedKernel/addRoute(to:nexthop:metric:table:)``.
    public func addRoute(
        to destination: String, nexthop id: UInt32, metric: UInt32? = nil, table: UInt32 = 254
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addRoute(to: destination, nexthop: id, metric: metric, table: table)
        }
    }

    /// Adds or replaces a route: ``SimulatedKernel/replaceRoute(to:via:dev:metric:type:source:table:from:)``.
    public func replaceRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil,
        type: SimulatedKernel.RouteType = .unicast, source: String? = nil, table: UInt32 = 254, from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.replaceRoute(
                to: destination, via: gateway, dev: name, metric: metric, type: type, source: source, table: table,
                from: sources)
        }
    }

    /// Removes a route: ``SimulatedKernel/removeRoute(to:via:dev:metric:table:from:)``.
    public func removeRoute(
        to destination: String, via gateway: String? = nil, dev name: String? = nil, metric: UInt32? = nil, table: UInt32 = 254,
        from sources: String? = nil
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.removeRoute(to: destination, via: gateway, dev: name, metric: metric, table: table, from: sources)
        }
    }

    /// Adds a policy rule: ``SimulatedKernel/addRule(_:)``.
    public func addRule(_ rule: SimulatedKernel.Rule) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addRule(rule) }
    }

    /// Removes a policy rule: ``SimulatedKernel/removeRule(priority:family:)``.
    public func removeRule(priority: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeRule(priority: priority, family: family) }
    }

    /// Adds a nexthop object: ``SimulatedKernel/addNexthop(_:via:dev:family:)``.
    public func addNexthop(
        _ id: UInt32, via gateway: String? = nil, dev name: String, family: IPAddress.Family = .ipv4
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addNexthop(id, via: gateway, dev: name, family: family) }
    }

    /// Adds a group of nexthop objects: ``SimulatedKernel/addNexthopGroup(_:of:)``.
    public func addNexthopGroup(_ id: UInt32, of members: [UInt32]) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addNexthopGroup(id, of: members) }
    }

    /// Adds a nexthop object that refuses: ``SimulatedKernel/addBlackholeNexthop(_:family:)``.
    public func addBlackholeNexthop(_ id: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addBlackholeNexthop(id, family: family) }
    }

    /// Replaces a nexthop object: ``SimulatedKernel/replaceNexthop(_:via:dev:)``.
    public func replaceNexthop(_ id: UInt32, via gateway: String? = nil, dev name: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthop(id, via: gateway, dev: name) }
    }

    /// Replaces a nexthop object by one that refuses: ``SimulatedKernel/replaceNexthopByBlackhole(_:)``.
    public func replaceNexthopByBlackhole(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthopByBlackhole(id) }
    }

    /// Removes a nexthop object: ``SimulatedKernel/removeNexthop(_:)``.
    public func removeNexthop(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeNexthop(id) }
    }
}
