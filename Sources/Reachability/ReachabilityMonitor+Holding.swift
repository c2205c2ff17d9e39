internal import Synchronization

/// Which addresses connections were made from, and whether this machine still has them.
extension ReachabilityMonitor {
    /// The condition of an address.
    struct Holding {
        var storage: ConditionStorage
        var state: Condition.State
        var isKnown: Bool
        var uses = 1
    }

    /// The source addresses of a watched scope as of its last evaluation, one for each family that is satisfied.
    ///
    /// A read of memory; empty for a scope that is not watched or not evaluated yet.
    package func sources(to scope: Scope) -> [IPAddress] {
        guard let path = guarded.withLock({ $0.core.path(scope) }) else { return [] }
        return IPAddress.Family.allCases.filter(path.supports).compactMap(path.source)
    }

    /// A condition that is satisfied while an interface has the address: connections from it may live.
    ///
    /// Renewing a lease or plugging in another cable changes nothing. It is finished when the monitor has ended. The address is
    /// watched as long as the condition or one of its streams is kept.
    package func condition(holding address: IPAddress) -> Condition {
        let storage = guarded.withLock { $0.retain(address) }
        guard let storage else {
            let finished = Condition.State(isFinished: true)
            return Condition("\(address)", ConditionStorage(finished, isReachability: true, isKnown: false))
        }
        return Condition("\(address)", storage, lifetime: WatchShare { self.release(address) })
    }

    fileprivate func release(_ address: IPAddress) {
        // Released outside the lock.
        _ = guarded.withLock { $0.release(address) }
    }
}

extension ReachabilityMonitor.Guarded {
    fileprivate mutating func retain(_ address: IPAddress) -> ConditionStorage? {
        guard phase != .ended else { return nil }
        if let holding = holdings[address] {
            holdings[address]?.uses += 1
            return holding.storage
        }
        let isHeld = core.table.holds(address)
        let state = Condition.State(isSatisfied: isHeld, epoch: isHeld ? 1 : 0)
        let storage = ConditionStorage(state, isReachability: true, isKnown: core.hasSnapshot)
        holdings[address] = ReachabilityMonitor.Holding(storage: storage, state: state, isKnown: core.hasSnapshot)
        core.held.insert(address)
        return storage
    }

    fileprivate mutating func release(_ address: IPAddress) -> ConditionStorage? {
        holdings[address]?.uses -= 1
        guard holdings[address]?.uses == 0 else { return nil }
        core.held.remove(address)
        return holdings.removeValue(forKey: address)?.storage
    }

    /// The conditions of addresses that came or went.
    mutating func holdingChanges() -> [ConditionChange] {
        // A table that is about to be read again may lack an address that the interface has twice.
        guard !holdings.isEmpty, core.hasSnapshot, !core.needsInterfaces else { return [] }
        var changes: [ConditionChange] = []
        for (address, holding) in holdings {
            let isHeld = core.table.holds(address)
            guard isHeld != holding.state.isSatisfied || !holding.isKnown else { continue }
            var state = holding.state
            if isHeld && !state.isSatisfied { state.epoch &+= 1 }
            state.isSatisfied = isHeld
            holdings[address]?.state = state
            holdings[address]?.isKnown = true
            changes.append(ConditionChange(storage: holding.storage, state: state))
        }
        return changes
    }
}
