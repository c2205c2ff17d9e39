public import Reachability
internal import Synchronization

/// Hosts and the name servers that know them.
extension SimulatedNetwork: HostResolving {
    /// How the name servers treat lookups.
    public enum NameServers: Hashable, Sendable {
        /// They answer with the addresses of ``SimulatedNetwork/setHost(_:to:)``, or that there is no such host.
        case answers
        /// They say nothing: a lookup fails with `NameLookupFailure.noAnswer` after ``SimulatedNetwork/nameServerTimeout``.
        case silent
        /// They refuse at once: `NameLookupFailure.refused`.
        case refuses
    }

    /// The time after which a lookup without an answer fails: two attempts of 5 s each (resolv.conf(5)).
    public static let nameServerTimeout = Duration.seconds(10)

    /// Sets the addresses of a host that name servers know from now on; without any, the host does not exist.
    ///
    /// A monitor learns them when it looks up the host the next time: at first, when the way to the internet changes, and at its
    /// intervals.
    ///
    /// - Throws: ``SimulationError`` if a text is no address.
    public func setHost(_ name: String, to addresses: String...) throws(SimulationError) {
        var parsed: [IPAddress] = []
        for text in addresses {
            guard let address = IPAddress(text) else {
                throw SimulationError("setHost(\"\(name)\", to: \"\(text)\")", "that is no address")
            }
            parsed.append(address)
        }
        state.withLock { $0.hosts[name.lowercased()] = parsed.isEmpty ? nil : parsed }
    }

    /// Sets how name servers treat lookups from now on.
    ///
    /// Lookups that wait for silent name servers get their answer at once when those answer or refuse.
    public func setNameServers(_ nameServers: NameServers) {
        let timers = state.withLock { state in
            state.nameServers = nameServers
            guard nameServers != .silent else { return [ManualClock.Timer]() }
            for host in state.unanswered.keys.sorted() { state.post(.init(events: [.host(host, state.answer(for: host))])) }
            defer { state.unanswered = [:] }
            return Array(state.unanswered.values)
        }
        for timer in timers { clock.cancel(timer) }
        if !timers.isEmpty { deliverAll() }
    }

    /// Looks up a host; the answer is an event, delivered after the present batch.
    ///
    /// Silent name servers leave it open until ``setNameServers(_:)`` or until ``nameServerTimeout`` has passed.
    public func resolve(_ host: String) {
        let isSilent = state.withLock { state in
            state.hostLookups += 1
            if state.nameServers == .silent { return true }
            state.post(.init(events: [.host(host, state.answer(for: host))]))
            return false
        }
        guard isSilent else { return deliverIfPossible() }
        let timer = clock.schedule(at: clock.now.advanced(by: Self.nameServerTimeout)) { [weak self] in self?.giveUp(host) }
        let superfluous = state.withLock { state in
            // Another thread may have changed the name servers meanwhile.
            if state.nameServers == .silent { return state.unanswered.updateValue(timer, forKey: host) }
            state.post(.init(events: [.host(host, state.answer(for: host))]))
            return timer
        }
        if let superfluous { clock.cancel(superfluous) }
        deliverIfPossible()
    }

    private func giveUp(_ host: String) {
        let isOpen = state.withLock { state in
            guard state.unanswered.removeValue(forKey: host) != nil else { return false }
            state.post(.init(events: [.host(host, .failed(.noAnswer))]))
            return true
        }
        if isOpen { deliverAll() }
    }

    /// The number of lookups of hosts so far.
    public var hostLookups: Int { state.withLock(\.hostLookups) }
}

extension SimulatedNetwork: HostAnswering {
    /// Returns what name servers answer now; silent ones fail at once, for the calling thread cannot wait for a manual clock.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        state.withLock { state in
            state.hostLookups += hosts.count
            return hosts.map { state.answer(for: $0) }
        }
    }
}

extension SimulatedNetworkState {
    /// Returns what name servers answer about a host.
    fileprivate func answer(for host: String) -> HostAnswer {
        switch nameServers {
        case .answers: hosts[host.lowercased()].map(HostAnswer.addresses) ?? .failed(.notFound)
        case .silent: .failed(.noAnswer)
        case .refuses: .failed(.refused)
        }
    }
}
