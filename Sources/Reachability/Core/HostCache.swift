/// The known addresses of the hosts of scopes, and the times of their lookups.
///
/// Pure.
package struct HostCache: Sendable {
    /// The time that a scope's first verdict waits for the first answer; then the host is treated as unresolved.
    package static let patience = Duration.seconds(1)
    /// The first and the last pause before a failed lookup is repeated; the first is also the least time between two lookups.
    package static let (firstRetry, lastRetry) = (Duration.seconds(1), Duration.seconds(60))
    /// The number of a host's addresses that are used: each costs a route lookup.
    package static let addressLimit = 16

    struct Entry {
        var addresses: [IPAddress] = []
        /// The failure of the last lookup.
        var failure: NameLookupFailure?
        /// True after the first answer, or after waiting for it long enough.
        var isSettled = false
        var isAsking = false
        /// True if the answer under way may come from a network that was left meanwhile.
        var mustAskAgain = false
        var lastAsked: Duration?
        var due: Duration?
        var retryDelay: Duration?
    }

    private let refreshInterval: Duration?
    /// The failure of a lookup that has no answer.
    private let silence: NameLookupFailure
    private var entries: [String: Entry] = [:]

    /// - Parameter isAnswered: false if the source looks up no names.
    package init(refreshInterval: Duration?, isAnswered: Bool = true) {
        silence = isAnswered ? .noAnswer : .notAsked
        self.refreshInterval = refreshInterval.map { max($0, Self.firstRetry) }
    }

    package var isEmpty: Bool { entries.isEmpty }

    /// Returns the addresses of a host, in order; `nil` while the first answer may still come soon.
    package func addresses(of name: String) -> [IPAddress]? { entries[name].flatMap { $0.isSettled ? $0.addresses : nil } }

    /// Returns the reason why a host has no addresses; `nil` if it has some, or during the first lookup.
    package func failure(of name: String) -> NameLookupFailure? {
        entries[name].flatMap { $0.isSettled && $0.addresses.isEmpty ? $0.failure ?? silence : nil }
    }

    /// Keeps these hosts, adds new ones, and removes all others.
    package mutating func keep(_ names: Set<String>) {
        entries = entries.filter { names.contains($0.key) }
        for name in names where entries[name] == nil { entries[name] = Entry(due: .zero) }
    }

    /// Returns the hosts to look up now, by name.
    ///
    /// - Parameter isWorthwhile: true if an interface can carry the answer. Otherwise only new hosts are looked up: they may be in
    ///   a file.
    package mutating func takeDueHosts(at now: Duration, isWorthwhile: Bool) -> [String] {
        let names = entries.filter { $0.value.isDue(at: now, isWorthwhile) }.keys.sorted()
        for name in names {
            entries[name]?.isAsking = true
            entries[name]?.lastAsked = now
            entries[name]?.due = nil
        }
        return names
    }

    /// Takes in an answer; a passing failure keeps the known addresses.
    ///
    /// - Returns: true if the host's scopes are stale.
    package mutating func take(_ answer: HostAnswer, of name: String, at now: Duration) -> Bool {
        guard var entry = entries[name] else { return false }
        let old = entry.isSettled ? entry : nil
        switch answer {
        case .addresses(let addresses):
            entry.addresses = Self.inOrder(addresses)
        case .failed(.notFound): entry.addresses = []
        case .failed: break
        }
        entry.failure = answer.failure
        if case .addresses = answer {
            entry.retryDelay = nil
            entry.due = refreshInterval.map { now.saturatingAdd($0) }
        } else {
            entry.retryDelay = entry.retryDelay.map { min($0 * 2, Self.lastRetry) } ?? Self.firstRetry
            entry.due = now.saturatingAdd(entry.retryDelay ?? Self.lastRetry)
        }
        if entry.mustAskAgain { entry.askAgain(at: now) }
        (entry.isAsking, entry.isSettled, entry.mustAskAgain) = (false, true, false)
        entries[name] = entry
        return old?.addresses != entry.addresses || (entry.addresses.isEmpty && old?.failure != entry.failure)
    }

    /// Has all hosts looked up again, because names may have other addresses in another network.
    package mutating func notePathChange(at now: Duration) {
        for name in entries.keys {
            entries[name]?.retryDelay = nil
            if entries[name]?.isAsking == true {
                entries[name]?.mustAskAgain = true
            } else {
                entries[name]?.askAgain(at: now)
            }
        }
    }

    /// Stops waiting for first answers that take too long, and returns their hosts.
    package mutating func settle(at now: Duration) -> [String] {
        if entries.isEmpty { return [] }
        let late = entries.filter { $0.value.patienceEnd.map { $0 <= now } ?? false }.map(\.key)
        for name in late { entries[name]?.isSettled = true }
        return late
    }

    /// Returns the time of the next lookup or timeout.
    package func next(isWorthwhile: Bool) -> Duration? {
        entries.values.flatMap { [$0.patienceEnd, isWorthwhile || $0.lastAsked == nil ? $0.due : nil] }.compactMap(\.self).min()
    }

    /// Returns the used addresses of an answer, sorted and without repetition: name servers rotate their answers.
    package static func inOrder(_ addresses: [IPAddress]) -> [IPAddress] {
        Array(Set(addresses.map(\.unmapped)).sorted(by: precedes).prefix(addressLimit))
    }

    private static func precedes(_ left: IPAddress, _ right: IPAddress) -> Bool {
        left.family == right.family ? left.value < right.value : left.family == .ipv4
    }
}

extension HostCache.Entry {
    fileprivate func isDue(at now: Duration, _ isWorthwhile: Bool) -> Bool {
        (isWorthwhile || lastAsked == nil) && due.map { $0 <= now } ?? false
    }

    /// The end of the wait for the first answer.
    fileprivate var patienceEnd: Duration? {
        isSettled || !isAsking ? nil : lastAsked.map { $0.saturatingAdd(HostCache.patience) }
    }

    /// Has the host looked up as soon as the pace allows.
    fileprivate mutating func askAgain(at now: Duration) {
        due = max(now, lastAsked.map { $0.saturatingAdd(HostCache.firstRetry) } ?? now)
    }
}
