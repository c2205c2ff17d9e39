public import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Gives a host these addresses, as a name server would tell them from now on; none take the host away.
    ///
    /// A monitor hears of it when it looks the host up the next time: at first, when the way to the internet changes, and at its
    /// intervals.
    public func setHost(_ name: String, to addresses: [IPAddress]) {
        let name = name.lowercased()
        state.withLock { $0.hosts[name] = addresses.isEmpty ? nil : addresses }
    }

    /// Lets name servers answer, or not: then hosts cannot be looked up.
    public func setNameServersAnswer(_ answer: Bool) {
        state.withLock { $0.nameServersAnswer = answer }
    }

    /// Answers with an event, delivered after the present batch.
    public func resolve(_ host: String) {
        let answer = addresses(of: host)
        state.withLock { $0.post(.init(events: [.host(host, answer)])) }
        deliverIfPossible()
    }

    /// What a name server would answer now.
    public func addresses(of host: String) -> HostAnswer {
        state.withLock { state in
            state.hostLookups += 1
            guard state.nameServersAnswer else { return .failed }
            return state.hosts[host.lowercased()].map(HostAnswer.addresses) ?? .notFound
        }
    }

    /// How many hosts have been looked up.
    public var hostLookups: Int { state.withLock(\.hostLookups) }
}
