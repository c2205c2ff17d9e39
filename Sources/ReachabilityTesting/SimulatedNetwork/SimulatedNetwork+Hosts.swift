public import Reachability
internal import Synchronization

/// Hosts and the name servers that know them.
extension SimulatedNetwork: HostResolving {
    /// The behaviour of the name servers.
    public enum NameServers: Hashable, Sendable {
        /// They answer with the addresses of ``SimulatedNetwork/setHost(_:to:)``, or that the host does not exist.
        case answers
        /// They do not answer: a lookup fails with `NameLookupFailure.noAnswer` after ``SimulatedNetwork/nameServerTimeout``.
        case silent
        /// They refuse at once: `NameLookupFailure.refused`.
        case refuses
    }

    /// The time after which a lookup without an answer fails: two attempts of 5 s each (resolv.conf(5)).
    public static let nameServerTimeout = Duration.seconds(10)

    /// Sets the addresses of a host that the name servers know; without addresses the host does not exist.
    ///
    /// A monitor learns them with its next lookup: its first one, after a change of the path to the internet or of a file
    /// (``changeResolver(_:)``), and at intervals.
    ///
    /// - Throws: ``SimulationError`` if an address cannot be parsed.
    public func setHost(_ name: String, to addresses: String...) throws(SimulationError) {
        var parsed: [IPAddress] = []
        for text in addresses {
            guard let address = IPAddress(text) else {
                throw SimulationError("setHost(\"\(name)\", to: \"\(text)\")", "that is not an IP address")
            }
            parsed.append(address)
        }
        state.withLock { $0.nameService.hosts[name.lowercased()] = parsed.isEmpty ? nil : parsed }
    }

    /// Sets the behaviour of the name servers.
    ///
    /// Lookups that wait for silent name servers are answered at once if the new behaviour is to answer or to refuse.
    public func setNameServers(_ nameServers: NameServers) {
        let timers = state.withLock { state in
            state.nameService.servers = nameServers
            guard nameServers != .silent else { return [ManualClock.Timer]() }
            for host in state.nameService.unanswered.keys.sorted() { state.enqueueAnswer(for: host) }
            defer { state.nameService.unanswered = [:] }
            return Array(state.nameService.unanswered.values)
        }
        for timer in timers { clock.cancel(timer) }
        if !timers.isEmpty { deliverAll() }
    }

    /// Announces the change of a file by which the system looks up names: a monitor looks up its hosts again 100 ms later.
    ///
    /// The names that can be looked up are those of ``setHost(_:to:)`` and ``setNameServers(_:)``.
    public func changeResolver(_ file: String = "/etc/resolv.conf") { announce(.resolverChanged(file: file)) }

    /// Looks up a host; the answer is an event, delivered after the present batch.
    ///
    /// Silent name servers answer after ``setNameServers(_:)``; otherwise the lookup fails after ``nameServerTimeout``.
    public func resolve(_ host: String) {
        let isSilent = state.withLock { state in
            state.nameService.lookups += 1
            if state.nameService.servers == .silent { return true }
            state.enqueueAnswer(for: host)
            return false
        }
        guard isSilent else { return deliverIfPossible() }
        let timer = clock.schedule(at: clock.now.advanced(by: Self.nameServerTimeout)) { [weak self] in self?.giveUp(host) }
        let superfluous = state.withLock { state in
            // Another thread may have changed the name servers meanwhile.
            if state.nameService.servers == .silent { return state.nameService.unanswered.updateValue(timer, forKey: host) }
            state.enqueueAnswer(for: host)
            return timer
        }
        if let superfluous { clock.cancel(superfluous) }
        deliverIfPossible()
    }

    private func giveUp(_ host: String) {
        let isUnanswered = state.withLock { state in
            guard state.nameService.unanswered.removeValue(forKey: host) != nil else { return false }
            state.enqueue(.init(queued: [.host(host, .failed(.noAnswer))]))
            return true
        }
        if isUnanswered { deliverAll() }
    }

    /// The number of lookups of hosts so far.
    public var hostLookups: Int { state.withLock(\.nameService.lookups) }
}

extension SimulatedNetwork: HostAnswering {
    /// Returns the name servers' present answers.
    ///
    /// Silent name servers fail at once: the calling thread cannot wait for a manual clock.
    package func answers(for hosts: [String], within limit: Duration?) -> [HostAnswer] {
        state.withLock { state in
            state.nameService.lookups += hosts.count
            return hosts.map { state.nameService.answer(for: $0) }
        }
    }
}

extension SimulatedNetwork {
    /// The name servers, their hosts and the lookups that wait for an answer.
    struct NameService: Sendable {
        /// The addresses of each host, by its name in lower case.
        var hosts: [String: [IPAddress]] = [:]
        var servers = NameServers.answers
        /// The timeout of each lookup without an answer.
        var unanswered: [String: ManualClock.Timer] = [:]
        var lookups = 0

        func answer(for host: String) -> HostAnswer {
            switch servers {
            case .answers: hosts[host.lowercased()].map(HostAnswer.addresses) ?? .failed(.notFound)
            case .silent: .failed(.noAnswer)
            case .refuses: .failed(.refused)
            }
        }
    }
}

extension SimulatedNetwork.State {
    fileprivate mutating func enqueueAnswer(for host: String) {
        enqueue(.init(queued: [.host(host, nameService.answer(for: host))]))
    }
}
