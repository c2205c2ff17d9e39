/// The known addresses of the hosts of scopes, and the times of their lookups.
///
/// Pure.
package struct HostCache: Sendable {
    /// The time that a scope's first verdict waits for the first answer; then the host is treated as unresolved.
    package static let patience = Duration.seconds(1)
    /// The first and the last pause before a failed lookup is repeated; the first is also the least time between two lookups.
    ///
    /// The last one is short: each host belongs to a watched scope, so that a caller waits for it.
    package static let (firstRetry, lastRetry) = (Duration.seconds(1), Duration.seconds(15))
    /// The pause between the change of a resolver's file and the lookup.
    ///
    /// Editors delete a file before they write it, and a hosts file without its lines would mean the loss of a host.
    package static let rewriteTime = Duration.milliseconds(100)
    /// The number of a host's addresses that are used: each costs a route lookup.
    package static let addressLimit = 16

    struct Entry {
        var addresses: [IPAddress] = []
        /// The failure of the last lookup.
        var failure: NameLookupFailure?
        /// True after the first answer, or after waiting for it long enough.
        var isSettled = false
        var isAsking = false
        /// The time from which to repeat a lookup under way, whose answer may come from a network or a file that was replaced.
        var repeatFrom: Duration?
        /// True if the next answer may come from a file, without any network.
        var mayBeInFile = true
        /// The resolver's file that changed last; `nil` once its effect is known.
        var changedFile: String?
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
    /// - Parameter isWorthwhile: true if an interface can carry the answer. Otherwise a host is looked up only when it is new and
    ///   when a file of the resolver changed: it may be in a file.
    package mutating func takeDueHosts(at now: Duration, isWorthwhile: Bool) -> [String] {
        let names = entries.filter { $0.value.isDue(at: now, isWorthwhile) }.keys.sorted()
        for name in names {
            entries[name]?.isAsking = true
            entries[name]?.mayBeInFile = false
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
        if let time = entry.repeatFrom {
            entry.askAgain(at: max(now, time))
        } else if entry.retryDelay.map({ $0 >= Self.lastRetry }) ?? true {
            // An answer that comes this late has other causes.
            entry.changedFile = nil
        }
        (entry.isAsking, entry.isSettled, entry.repeatFrom) = (false, true, nil)
        entries[name] = entry
        return old?.addresses != entry.addresses || (entry.addresses.isEmpty && old?.failure != entry.failure)
    }

    /// Has all hosts looked up again, because names may have other addresses in another network.
    package mutating func notePathChange(at now: Duration) {
        for place in entries.values.indices { entries.values[place].renew(at: now) }
    }

    /// Has all hosts looked up again, because a file of the resolver changed: name servers, hosts or the order of both.
    package mutating func noteResolverChange(_ file: String, at now: Duration) {
        for place in entries.values.indices {
            entries.values[place].changedFile = file
            entries.values[place].mayBeInFile = true
            entries.values[place].renew(at: now.saturatingAdd(Self.rewriteTime))
        }
    }

    /// Returns the file whose change the next answer follows; `nil` without one, or if the lookup began before the change.
    package func changedFile(of name: String) -> String? {
        entries[name].flatMap { $0.repeatFrom == nil ? $0.changedFile : nil }
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
        entries.values.flatMap { [$0.patienceEnd, isWorthwhile || $0.mayBeInFile ? $0.due : nil] }.compactMap(\.self).min()
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
        (isWorthwhile || mayBeInFile) && due.map { $0 <= now } ?? false
    }

    /// The end of the wait for the first answer.
    fileprivate var patienceEnd: Duration? {
        isSettled || !isAsking ? nil : lastAsked.map { $0.saturatingAdd(HostCache.patience) }
    }

    /// Has the host looked up again, after the answer under way, and ends the pause after failures.
    fileprivate mutating func renew(at time: Duration) {
        retryDelay = nil
        if isAsking { repeatFrom = time } else { askAgain(at: time) }
    }

    /// Has the host looked up as soon as the pace allows.
    fileprivate mutating func askAgain(at time: Duration) {
        due = max(time, lastAsked.map { $0.saturatingAdd(HostCache.firstRetry) } ?? time)
    }
}
