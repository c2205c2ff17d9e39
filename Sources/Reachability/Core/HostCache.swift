/// What is known about the addresses of the hosts that scopes name, and when to look them up again.
///
/// Pure: it is told the time.
package struct HostCache: Sendable {
    /// How long a scope's first verdict waits for the first answer; then the host counts as unresolved.
    package static let patience = Duration.seconds(1)
    /// The pace of repeated look-ups after failures, and the shortest time between two look-ups of a host.
    package static let (firstRetry, lastRetry) = (Duration.seconds(1), Duration.seconds(60))
    /// How many addresses of a host are looked at: each costs a look-up of its route.
    package static let addressLimit = 16

    struct Entry {
        var addresses: [IPAddress] = []
        /// The failure of the last lookup.
        var failure: NameLookupFailure?
        /// Whether there was an answer, or long enough none.
        var isSettled = false
        var isAsking = false
        /// Whether the answer under way may come from a network that was left meanwhile.
        var mustAskAgain = false
        var lastAsked: Duration?
        var due: Duration?
        var retryDelay: Duration?
    }

    private let refreshInterval: Duration?
    /// The failure of a lookup that has no answer.
    private let silence: NameLookupFailure
    private var entries: [String: Entry] = [:]

    /// - Parameter isAnswered: if false, the source looks up no names.
    package init(refreshInterval: Duration?, isAnswered: Bool = true) {
        silence = isAnswered ? .noAnswer : .notAsked
        self.refreshInterval = refreshInterval.map { max($0, Self.firstRetry) }
    }

    package var isEmpty: Bool { entries.isEmpty }

    /// The addresses of a host, in their order; `nil` before the first answer if that may still come soon.
    package func addresses(of name: String) -> [IPAddress]? { entries[name].flatMap { $0.isSettled ? $0.addresses : nil } }

    /// The reason why a host has no addresses; `nil` if it has some, or if the first lookup goes on.
    package func failure(of name: String) -> NameLookupFailure? {
        entries[name].flatMap { $0.isSettled && $0.addresses.isEmpty ? $0.failure ?? silence : nil }
    }

    /// Keeps what is known about these hosts, and begins with those that are new.
    package mutating func keep(_ names: Set<String>) {
        entries = entries.filter { names.contains($0.key) }
        for name in names where entries[name] == nil { entries[name] = Entry(due: .zero) }
    }

    /// The hosts to look up now, by name.
    ///
    /// - Parameter isWorthwhile: whether there is an interface that an answer could come by. Otherwise only what was never looked
    ///   up is: it may be in a file.
    package mutating func takeQuestions(at now: Duration, isWorthwhile: Bool) -> [String] {
        let names = entries.filter { $0.value.isDue(at: now, isWorthwhile) }.keys.sorted()
        for name in names {
            entries[name]?.isAsking = true
            entries[name]?.lastAsked = now
            entries[name]?.due = nil
        }
        return names
    }

    /// Takes in an answer.
    ///
    /// A failure that may pass leaves what was known before.
    ///
    /// - Returns: whether the host's scopes have to be judged anew.
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

    /// The machine's way to the network is another one: names may mean something else there.
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

    /// Gives up waiting for first answers that take too long, and says whose.
    package mutating func settle(at now: Duration) -> [String] {
        if entries.isEmpty { return [] }
        let late = entries.filter { $0.value.patienceEnd.map { $0 <= now } ?? false }.map(\.key)
        for name in late { entries[name]?.isSettled = true }
        return late
    }

    /// When there is something to do without anything having happened.
    package func next(isWorthwhile: Bool) -> Duration? {
        entries.values.flatMap { [$0.patienceEnd, isWorthwhile || $0.lastAsked == nil ? $0.due : nil] }.compactMap(\.self).min()
    }

    /// The addresses that count of an answer, each once, in an order of their own: name servers turn theirs from answer to answer.
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

    /// When waiting for the first answer ends.
    fileprivate var patienceEnd: Duration? {
        isSettled || !isAsking ? nil : lastAsked.map { $0.saturatingAdd(HostCache.patience) }
    }

    /// Has the host looked up as soon as the pace allows it.
    fileprivate mutating func askAgain(at now: Duration) {
        due = max(now, lastAsked.map { $0.saturatingAdd(HostCache.firstRetry) } ?? now)
    }
}
