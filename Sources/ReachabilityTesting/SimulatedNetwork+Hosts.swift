public import Reachability
internal import Synchronization

extension SimulatedNetwork {
    /// Gives a host these addresses, as name servers tell them from now on; without any, the host is gone.
    ///
    /// A monitor hears of it when it looks the host up the next time: at first, when the way to the internet changes, and at its
    /// intervals.
    ///
    /// - Throws: ``SimulationError`` if one is no address.
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
