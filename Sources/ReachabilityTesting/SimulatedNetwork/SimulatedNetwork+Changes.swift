public import Reachability
internal import Synchronization

/// Batches, lost events and failing requests.
extension SimulatedNetwork {
    /// Makes several changes and delivers their events as one batch; delivers nothing if no event was announced.
    ///
    /// - Parameters:
    ///   - hasMore: The batch's flag that more events wait to be read.
    ///   - changes: Changes a copy of the model. If another thread changes the network meanwhile, it is called again with a new
    ///     copy. If it throws, nothing changes.
    @discardableResult
    public func batch<Value, Failure: Error>(
        hasMore: Bool = false, _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { $0.isEmpty ? nil : .init(queued: $0, hasMore: hasMore) }
    }

    /// Makes changes and delivers no events, like a kernel that does not announce a change.
    ///
    /// Only an audit finds such changes.
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func changeSilently<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in nil }
    }

    /// Makes changes whose events are lost, and delivers `NetworkEvent.overrun` instead: the receive buffer was full (ENOBUFS,
    /// netlink(7)).
    ///
    /// - Parameter changes: As for ``batch(hasMore:_:)``.
    @discardableResult
    public func loseEvents<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try change(changes) { _ in .init(queued: [.overrun]) }
    }

    private func change<Value, Failure: Error>(
        _ changes: (inout SimulatedKernel) throws(Failure) -> Value,
        announcing makeBatch: ([NetworkEvent]) -> NetworkEventBatch?
    ) throws(Failure) -> Value {
        while true {
            var (kernel, revision) = state.withLock { ($0.kernel, $0.revision) }
            kernel.now = max(kernel.now, clock.now.offset)
            let value = try changes(&kernel)
            let batch = makeBatch(kernel.takeEvents())
            guard state.withLock({ $0.commit(kernel, since: revision, batch) }) else { continue }
            scheduleModel()
            if batch != nil { deliverAll() }
            return value
        }
    }

    /// Delivers events without a change.
    public func announce(_ events: NetworkEvent..., hasMore: Bool = false) {
        deliver(.init(queued: events, hasMore: hasMore))
    }

    /// Delivers a batch that counts datagrams from another sender than the kernel.
    public func announceSpoofed(_ count: Int) { deliver(.init(queued: [], spoofed: count)) }

    /// Delivers a batch that counts malformed messages.
    public func announceMalformed(_ count: Int) { deliver(.init(queued: [], malformed: count)) }

    /// Delivers a batch with the size of the receive buffer in bytes.
    public func announceReceiveBuffer(_ size: Int) { deliver(.init(queued: [], receiveBuffer: size)) }

    /// Suspends the machine for a while.
    ///
    /// The clock moves on in one step, `NetworkEvent.resumed(after:)` is delivered, and then overdue timers run.
    public func suspend(for duration: Duration) {
        state.withLock { $0.suspended = $0.suspended.saturatingAdd(max(duration, .zero)) }
        clock.jump(by: duration) { deliver(.init(queued: [.resumed(after: max(duration, .zero))])) }
    }

    /// Makes the next requests fail, as when the kernel is out of memory.
    ///
    /// A request is a call of ``interfaces()`` or of ``routes(to:)``; all queries of a call fail together.
    ///
    /// - Parameters:
    ///   - count: The number of requests; it replaces the number of an earlier call. Values below 1 end the failures.
    ///   - errno: The error number of the `ReachabilityError`, whose code is `requestFailed`.
    public func failNextRequests(_ count: Int, errno: Int32) {
        state.withLock { $0.failures = (count, errno) }
    }

    /// Interrupts the next dumps: ``interfaces()`` throws `ReachabilityError.Code.interrupted`, as when links or addresses change
    /// during a dump (NLM_F_DUMP_INTR, netlink(7)).
    ///
    /// - Parameter count: The number of dumps; it replaces the number of an earlier call. Values below 1 end the interruptions.
    public func interruptNextDumps(_ count: Int) {
        state.withLock { $0.interruptions = count }
    }

    /// Ends the run: ``run(deliver:)`` throws `error`, or returns if it is `nil`.
    ///
    /// If the network does not run, the next run ends in this way before its first batch.
    public func stop(throwing error: (any Error)? = nil) {
        let ending: Result<Void, any Error> = error.map { .failure($0) } ?? .success(())
        state.withLock { $0.stop(ending) }?.resume(with: ending)
    }
}

/// Single changes, named like the commands of ip(8).
///
/// Each is published as one batch when the call returns. An impossible change throws ``SimulationError`` and changes nothing. The
/// members of ``SimulatedKernel`` with the same names list the announcements.
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

    /// Plugs a link's cable in or pulls it out: ``SimulatedKernel/setCarrier(_:_:)``.
    public func setCarrier(_ name: String, _ hasCarrier: Bool) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setCarrier(name, hasCarrier) }
    }

    /// Pulls a link's cable out.
    public func pull(_ name: String) throws(SimulationError) { try setCarrier(name, false) }

    /// Plugs a link's cable in.
    public func plug(_ name: String) throws(SimulationError) { try setCarrier(name, true) }

    /// Sets a link's operational state: ``SimulatedKernel/setOperationalState(_:_:)``.
    public func setOperationalState(
        _ name: String, _ operationalState: NetworkInterface.OperationalState
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setOperationalState(name, operationalState) }
    }

    /// Renames a link: ``SimulatedKernel/rename(_:to:)``.
    public func rename(_ name: String, to newName: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.rename(name, to: newName) }
    }

    /// Sets a sysctl: ``SimulatedKernel/setSysctl(_:_:)``.
    public func setSysctl(_ key: String, _ value: Int) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.setSysctl(key, value) }
    }

    /// Adds an address to a link: ``SimulatedKernel/addAddress(_:_:isTentative:isOptimistic:skipsDetection:)``.
    public func addAddress(
        _ name: String, _ address: String, isTentative: Bool = false, isOptimistic: Bool = false, skipsDetection: Bool = false
    ) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in
            try kernel.addAddress(
                name, address, isTentative: isTentative, isOptimistic: isOptimistic, skipsDetection: skipsDetection)
        }
    }

    /// Removes an address from a link: ``SimulatedKernel/removeAddress(_:_:)``.
    public func removeAddress(_ name: String, _ address: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeAddress(name, address) }
    }

    /// Finishes duplicate address detection: ``SimulatedKernel/finishDetection(of:on:hasFailed:)``.
    public func finishDetection(of address: String, on name: String, hasFailed: Bool = false) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.finishDetection(of: address, on: name, hasFailed: hasFailed) }
    }

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

    /// Adds a nexthop object that refuses packets: ``SimulatedKernel/addBlackholeNexthop(_:family:)``.
    public func addBlackholeNexthop(_ id: UInt32, family: IPAddress.Family = .ipv4) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.addBlackholeNexthop(id, family: family) }
    }

    /// Replaces a nexthop object: ``SimulatedKernel/replaceNexthop(_:via:dev:)``.
    public func replaceNexthop(_ id: UInt32, via gateway: String? = nil, dev name: String) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthop(id, via: gateway, dev: name) }
    }

    /// Replaces a nexthop object by one that refuses packets: ``SimulatedKernel/replaceNexthopByBlackhole(_:)``.
    public func replaceNexthopByBlackhole(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.replaceNexthopByBlackhole(id) }
    }

    /// Removes a nexthop object: ``SimulatedKernel/removeNexthop(_:)``.
    public func removeNexthop(_ id: UInt32) throws(SimulationError) {
        try batch { kernel throws(SimulationError) in try kernel.removeNexthop(id) }
    }
}
