internal import ReachableRetry

/// The nodes of a site, as their words show them.
///
/// Pure: each call comes with the time. The broker is the memory: a connection begins with its stored words, whatever was known
/// before, because a broker may have lost them or have older ones. Without a connection the picture is unknown.
struct Roster: Sendable {
    /// The time that levels are kept without a present word.
    static let kept = Duration.seconds(60)
    /// The age from which nodes that are gone are old.
    static let old = Duration.seconds(30 * 86_400)
    /// The most nodes.
    static let limit = 65_536

    /// The last word of a node.
    struct Entry: Hashable, Sendable {
        var word: FleetWord
        /// The highest number of a word in the run and epoch; a will has none of its own.
        var sequence: UInt64
        /// The wall time of the last sign of life.
        var lastSeen: Duration
        /// True if the word came before the present connection.
        var isStale = false

        var isMember: Bool { word.state != .disconnected }
    }

    enum Knowledge: Hashable, Sendable {
        case unknown(since: FleetInstant)
        case current(since: BusTime)
    }

    /// The fate of a word.
    enum Outcome: Hashable, Sendable {
        /// The node is shown as before.
        case unchanged
        case changed
        case outdated
        case tooMany
    }

    private(set) var entries: [FleetName: Entry] = [:]
    /// The number of nodes that have not said `disconnected`.
    private var members = 0
    private(set) var knowledge: Knowledge
    /// The time at which levels without a present word are kept no longer; `never` if there are none.
    private(set) var keptUntil: BusTime

    init(at now: FleetInstant) {
        knowledge = .unknown(since: now)
        keptUntil = now.time + Self.kept
    }

    /// The time since which the picture is unknown; `nil` if it is current.
    var unknownSince: FleetInstant? { if case .unknown(let since) = knowledge { since } else { nil } }

    var isCurrent: Bool { if case .current = knowledge { true } else { false } }

    // MARK: - The connection

    /// Begins a connection: each node's next word counts, whatever its numbers are.
    mutating func connected() { markStale() }

    /// Makes the picture current.
    mutating func complete(at now: BusTime) {
        guard !isCurrent else { return }
        knowledge = .current(since: now)
        keptUntil = entries.values.contains(where: \.isStale) ? now + Self.kept : .never
    }

    /// Makes the picture unknown; returns false if it was.
    mutating func disconnected(at now: FleetInstant) -> Bool {
        markStale()
        guard isCurrent else { return false }
        knowledge = .unknown(since: now)
        keptUntil = now.time + Self.kept
        return true
    }

    private mutating func markStale() {
        for name in entries.keys { entries[name]?.isStale = true }
    }

    /// Ends the time that levels are kept; returns the removed nodes, of which the broker has no word.
    mutating func endKeeping(at now: BusTime) -> [FleetName]? {
        guard keptUntil <= now else { return nil }
        keptUntil = .never
        guard isCurrent else { return [] }
        let gone = entries.filter(\.value.isStale).keys.sorted()
        for name in gone { set(nil, of: name) }
        return gone
    }

    // MARK: - Words

    /// Takes a word of a node.
    ///
    /// Within a connection to the broker an older epoch is a late one, such as the will of a session that was taken over. The word
    /// of another run counts all the same if that run is there: it has lost its epoch, and would be dropped for ever. Within an
    /// epoch numbers grow; a will ends it whatever its number is, until its node contradicts.
    mutating func take(_ word: FleetWord, of node: FleetName, isRetained: Bool, at now: FleetInstant) -> Outcome {
        let known = entries[node]
        if let known, !known.isStale, !Self.follows(word, known) { return .outdated }
        if known == nil, entries.count >= Self.limit { return .tooMany }
        var sequence = word.sequence
        if let known, !known.isStale, known.word.epoch == word.epoch, known.word.run == word.run {
            sequence = max(sequence, known.sequence)
        }
        // The node's clock may be ahead of this one.
        let stored = min(.seconds(Int64(word.since)), now.wall)
        set(Entry(word: word, sequence: sequence, lastSeen: isRetained ? stored : now.wall), of: node)
        guard let known, !known.isStale else { return .changed }
        let (old, new) = (known.word, word)
        let isSame = old.state == new.state && old.reason == new.reason && old.run == new.run && old.since == new.since
        return isSame ? .unchanged : .changed
    }

    private static func follows(_ word: FleetWord, _ known: Entry) -> Bool {
        let last = known.word
        guard word.epoch == last.epoch else {
            return word.epoch > last.epoch || word.run != last.run && word.state.isConnected
        }
        // Two machines of one name: the later word of the topic holds until one of them renews its epoch.
        guard word.run == last.run else { return true }
        return word.state == .lost ? last.state != .lost : word.sequence > known.sequence
    }

    /// Removes a node; returns false if there is none.
    mutating func remove(_ node: FleetName) -> Bool { set(nil, of: node) }

    /// Sets or removes a node; returns false if there was none.
    @discardableResult
    private mutating func set(_ entry: Entry?, of node: FleetName) -> Bool {
        let old = entries[node]
        entries[node] = entry
        members += (entry?.isMember == true ? 1 : 0) - (old?.isMember == true ? 1 : 0)
        return old != nil
    }

    /// Returns the number of members; an own node counts, too, before its word is here.
    func memberCount(with own: FleetName?) -> Int {
        let isMissing = own.map { entries[$0]?.isMember != true } ?? false
        return max(1, members + (isMissing ? 1 : 0))
    }

    // MARK: - Reading

    /// Returns a node as people see it; `nil` for one without a word.
    func node(_ name: FleetName, at now: FleetInstant) -> FleetNode? {
        guard let entry = entries[name] else { return nil }
        let word = entry.word
        return FleetNode(
            name: name, state: isCurrent && !entry.isStale ? word.state : .unknown, lastState: word.state, reason: word.reason,
            since: .seconds(Int64(word.since)), lastSeen: entry.lastSeen,
            isOld: !word.state.isConnected && entry.lastSeen <= now.wall - Self.old, run: word.run, epoch: word.epoch,
            sequence: word.sequence)
    }

    /// Returns the state of a node in the current picture; `nil` without one.
    func state(of node: FleetName) -> FleetNode.State? {
        guard isCurrent, let entry = entries[node], !entry.isStale else { return nil }
        return entry.word.state
    }

    /// Returns all nodes, ordered by name.
    func nodes(at now: FleetInstant) -> [FleetNode] {
        // Names alone are sorted: with their entries they are several times as large.
        entries.keys.sorted().compactMap { node($0, at: now) }
    }

    /// Returns the level of a node's condition.
    ///
    /// Without a present word the level of the last one is kept for 60 s. Then a current picture says that the node is not there,
    /// and an unknown one follows the policy.
    func isPresent(_ node: FleetName, whenUnknown policy: UnknownNodePolicy, at now: BusTime) -> Bool {
        let entry = entries[node]
        if !isCurrent, keptUntil <= now || keptUntil.isNever { return policy == .failOpen }
        guard let entry, !(isCurrent && entry.isStale && keptUntil <= now) else { return false }
        return entry.word.state.isPresent
    }
}
