extension MonitorCore {
    /// What is known of the addresses of a host that a scope names; `nil` if nothing is.
    package func addresses(ofHost name: String) -> [IPAddress]? { hosts.addresses(of: name) }

    /// The reason why a scope's host has no addresses.
    func nameLookupFailure(of scope: Scope) -> NameLookupFailure? { scope.host.flatMap(hosts.failure) }

    /// The addresses of a scope's host; `nil` if its first verdict waits for them.
    func host(of scope: Scope) -> [IPAddress]? {
        guard let name = scope.host else { return [] }
        return hosts.addresses(of: name)
    }

    /// Whether an answer of a name server could come at all.
    ///
    /// Without a usable interface none can, so that being offline costs no look-ups.
    var isLookupWorthwhile: Bool { evaluator.missingLayer(nil, .internet, table) >= .noRoute }

    /// Whether a scope has to be asked about now.
    func isInDoubt(_ scope: Scope, isKnown: Bool, asking families: FamilySet) -> Bool {
        guard isKnown || host(of: scope) != nil else { return false }
        return !hasSnapshot || !isKnown || doubts.concern(scope, asking: families)
    }

    /// Brings the index and the hosts up to date with the scopes.
    mutating func indexDestinations() {
        guard isIndexOutdated else { return }
        isIndexOutdated = false
        hosts.keep(Set(scopes.keys.compactMap(\.host)))
        var asked: [(scope: Scope, addresses: [IPAddress])] = []
        for scope in scopes.keys {
            let addresses = evaluator.destinations(of: scope, host: host(of: scope) ?? [])
            scopes[scope]?.families = addresses.reduce(into: []) { $0.formUnion(FamilySet($1.family)) }
            asked.append((scope, addresses))
        }
        index = DestinationIndex(asked)
        mayHaveNewDestinations = true
    }

    /// Takes in what came of looking up a host.
    ///
    /// - Returns: whether its scopes have to be judged anew.
    mutating func take(_ answer: HostAnswer, of name: String, at now: Duration) -> Bool {
        guard hosts.take(answer, of: name, at: now) else { return false }
        noteAddresses(of: [name])
        return true
    }

    /// Gives up waiting for first answers that take too long.
    mutating func settleHosts(at now: Duration) {
        let late = hosts.settle(at: now)
        if !late.isEmpty { noteAddresses(of: late) }
    }

    /// Has hosts looked up whose time has come, and returns when there is more to do.
    mutating func askForHosts(at now: Duration, _ outcome: inout Outcome) -> Duration? {
        let isWorthwhile = isLookupWorthwhile
        outcome.hosts = hosts.takeQuestions(at: now, isWorthwhile: isWorthwhile)
        return hosts.next(isWorthwhile: isWorthwhile)
    }

    private mutating func noteAddresses(of names: [String]) {
        isIndexOutdated = true
        for scope in scopes.keys {
            if let name = scope.host, names.contains(name) { doubts.insert(scope) }
        }
    }
}
