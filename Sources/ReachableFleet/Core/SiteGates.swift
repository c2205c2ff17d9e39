internal import ReachableRetry

/// The words about destinations that the machines of a site share, and the advice that follows for this machine's buses.
///
/// Pure: each call comes with the time and the roster; effects are returned by ``takeEffects()``. A word counts while its node is
/// online and the picture is current. It is one machine's, whatever numbers it has: each counts once.
struct SiteGates: Sendable {
    enum Effect: Hashable, Sendable {
        /// Publishes the word, or removes it.
        case say(DestinationHash, DestinationWord?)
        case advise(SiteAdvice, destination: String)
    }

    struct Heard: Hashable, Sendable {
        var word: DestinationWord
        var time: BusTime
        var isRetained: Bool
    }

    /// The most words of others; a mistaken client does not fill the memory.
    static let limit = 131_072

    private let site: FleetName
    private let node: FleetName
    /// The words of other nodes in this connection.
    private(set) var heard: [DestinationHash: [FleetName: Heard]] = [:]
    private(set) var heardCount = 0
    private(set) var gates: [DestinationHash: SiteGate] = [:]
    /// Own words that the broker keeps without a reason.
    private(set) var leftOver: Set<DestinationHash> = []
    private var effects: [Effect] = []
    /// True if the broker hears this node, and its status word is out.
    private(set) var maySpeak = false
    private(set) var wake = BusTime.never

    init(site: FleetName, node: FleetName) { (self.site, self.node) = (site, node) }

    mutating func takeEffects() -> [Effect] {
        defer { effects = [] }
        return effects
    }

    // MARK: - This machine's buses

    mutating func take(_ report: SiteReport, of destination: String, from bus: Int, _ roster: Roster, at now: FleetInstant) {
        let hash = DestinationHash(destination, site: site)
        if gates[hash] == nil {
            if case .waiting(0) = report { return }
            gates[hash] = SiteGate(destination, at: now)
        }
        gates[hash]?.hasNews = true
        switch report {
        case .edge:
            let missing = roster.isCurrent ? missing(for: hash, roster) : nil
            gates[hash]?.phase = .joining(missing: missing)
            gates[hash]?.edge = now
            gates[hash]?.share = 1
            find(.waiting, hash, at: now)
            decide(hash, roster, at: now)
        case .waiting(let count): gates[hash]?.jobs[bus] = count > 0 ? count : nil
        case .answered(let time):
            gates[hash]?.phase = .answered
            find(.answering, hash, took: time, at: now)
            shareWindow(hash, roster, at: now)
        case .overloaded(let time):
            gates[hash]?.phase = .answered
            find(.overloaded, hash, until: now.wall + min(time ?? Self.usualOverload, Self.longestOverload), at: now)
        case .unreachable:
            // One attempt in a crowd without an answer proves less than the answers of others.
            if gates[hash]?.finding != .answering { find(.unreachable, hash, at: now) }
        }
        schedule(at: now.time)
    }

    /// The duration of an overload without a delay of the server's own, and the longest that a word tells.
    private static let usualOverload = Duration.seconds(1)
    private static let longestOverload = Duration.seconds(86_400)

    /// Removes a bus that has ended.
    mutating func remove(_ bus: Int, at now: FleetInstant) {
        for hash in gates.keys {
            gates[hash]?.jobs[bus] = nil
            gates[hash]?.hasNews = true
        }
        schedule(at: now.time)
    }

    private mutating func find(
        _ finding: DestinationWord.Finding, _ hash: DestinationHash, took: Duration? = nil, until: Duration? = nil,
        at now: FleetInstant
    ) {
        if gates[hash]?.finding != finding { gates[hash]?.foundAt = now.seconds }
        gates[hash]?.finding = finding
        gates[hash]?.took = took
        gates[hash]?.overloadedUntil = until.map(FleetInstant.seconds)
    }

    /// The destinations about which the broker has a word of this node.
    var spokenAbout: [DestinationHash] { gates.filter { $0.value.said != nil }.keys.sorted() }

    // MARK: - Others

    /// Takes a word of a node, `nil` for a removed one; returns false if there are too many.
    mutating func hear(
        _ word: DestinationWord?, of other: FleetName, about hash: DestinationHash, isRetained: Bool, _ roster: Roster,
        at now: FleetInstant
    ) -> Bool {
        defer { schedule(at: now.time) }
        guard other != node else {
            hearOwn(word, about: hash, isRetained: isRetained)
            return true
        }
        guard let word else {
            if heard[hash]?.removeValue(forKey: other) != nil { heardCount -= 1 }
            if heard[hash]?.isEmpty == true { heard[hash] = nil }
            if case .held(by: other, _) = gates[hash]?.phase { decide(hash, roster, at: now) }
            return true
        }
        if heard[hash]?[other] == nil {
            guard heardCount < Self.limit else { return false }
            heardCount += 1
        }
        heard[hash, default: [:]][other] = Heard(word: word, time: now.time, isRetained: isRetained)
        if case .held = gates[hash]?.phase, word.finding != .waiting { decide(hash, roster, at: now) }
        return true
    }

    /// Takes a message of an own topic: the broker may keep words of an earlier run, or have lost the present one.
    private mutating func hearOwn(_ word: DestinationWord?, about hash: DestinationHash, isRetained: Bool) {
        guard word == nil || isRetained else { return }
        if word != nil, gates[hash] == nil { leftOver.insert(hash) }
        gates[hash]?.said = nil
        gates[hash]?.isStored = word != nil
        gates[hash]?.hasNews = true
    }

    /// Reconsiders what depends on a node whose status has changed.
    mutating func nodeChanged(_ other: FleetName, _ roster: Roster, at now: FleetInstant) {
        if roster.entries[other] == nil { forget(other) }
        for (hash, gate) in gates {
            switch gate.phase {
            case .joining(nil): continue
            case .joining(var missing?):
                guard roster.state(of: other) != .offline, missing.remove(other) != nil else { continue }
                gates[hash]?.phase = .joining(missing: missing)
                if missing.isEmpty { decide(hash, roster, at: now) }
            case .held(let canary, _):
                if canary == other || heard[hash]?[other].map({ $0.word.finding != .waiting }) == true {
                    decide(hash, roster, at: now)
                }
            case .idle, .canary, .released, .answered: continue
            }
        }
        schedule(at: now.time)
    }

    private mutating func forget(_ other: FleetName) {
        for hash in heard.keys where heard[hash]?.removeValue(forKey: other) != nil { heardCount -= 1 }
    }

    /// The destinations about which a node has a word.
    func words(of other: FleetName) -> [DestinationHash] { heard.filter { $0.value[other] != nil }.keys.sorted() }

    /// Reconsiders everything when the picture became current or unknown.
    mutating func pictureChanged(_ roster: Roster, at now: FleetInstant) {
        for (hash, gate) in gates {
            if case .joining = gate.phase { gates[hash]?.phase = .joining(missing: nil) }
            decide(hash, roster, at: now)
        }
        schedule(at: now.time)
    }

    /// Forgets the words of a connection that ends: the next one begins with all of them.
    ///
    /// - Parameter roster: The nodes, before the picture becomes unknown.
    mutating func disconnect(_ roster: Roster) {
        for hash in gates.keys where roster.isCurrent {
            let waiting = (heard[hash] ?? [:]).filter { $0.value.word.waiting > 0 }.keys
            gates[hash]?.lastOthers = waiting.count { roster.state(of: $0)?.isConnected == true }
        }
        (heard, heardCount, leftOver) = ([:], 0, [])
        for hash in gates.keys {
            gates[hash]?.said = nil
            gates[hash]?.isStored = false
            gates[hash]?.hasNews = true
        }
        gates = gates.filter { $0.value.waiting > 0 }
    }

    // MARK: - Decisions

    /// Returns true if a node may try: it is online, or about to say so, for its last word before the edge comes late.
    private func mayTry(_ other: FleetName, _ gate: SiteGate, _ roster: Roster, at now: FleetInstant) -> Bool {
        guard let state = roster.state(of: other) else { return false }
        return state.isPresent || state == .offline && now.time < gate.edge.time + SiteGate.returnTime
    }

    /// Returns the other nodes that wait and may try.
    private func candidates(for hash: DestinationHash, _ roster: Roster, at now: FleetInstant) -> [FleetName] {
        guard roster.isCurrent, let gate = gates[hash] else { return [] }
        return (heard[hash] ?? [:]).filter { $0.value.word.waiting > 0 && mayTry($0.key, gate, roster, at: now) }.map(\.key)
    }

    /// Returns the nodes that wait and are connected, but not back.
    private func missing(for hash: DestinationHash, _ roster: Roster) -> Set<FleetName> {
        Set((heard[hash] ?? [:]).filter { $0.value.word.waiting > 0 && roster.state(of: $0.key) == .offline }.keys)
    }

    /// Returns the words of online nodes since the edge.
    private func fresh(_ finding: DestinationWord.Finding, _ hash: DestinationHash, _ roster: Roster) -> [DestinationWord] {
        guard let gate = gates[hash] else { return [] }
        return (heard[hash] ?? [:]).filter { name, heard in
            heard.word.finding == finding && gate.isFresh(heard.word, heardAt: heard.time, isRetained: heard.isRetained)
                && roster.state(of: name)?.isPresent == true
        }.map(\.value.word)
    }

    /// Decides about a destination that waits for the site.
    private mutating func decide(_ hash: DestinationHash, _ roster: Roster, at now: FleetInstant) {
        guard let gate = gates[hash] else { return }
        switch gate.phase {
        case .idle, .canary: return
        case .released, .answered:
            guard gate.due <= now.time else { return }
            // Unheard, others end, too: half of them in ten seconds.
            if !roster.isCurrent { gates[hash]?.lastOthers -= (gate.lastOthers + 7) / 8 }
            shareWindow(hash, roster, at: now)
        case .joining(let missing):
            let isOver = gate.due <= now.time
            if roster.isCurrent, missing?.isEmpty == true || isOver { return elect(hash, gate, roster, at: now) }
            if isOver { release(hash, at: now) }
        case .held(let canary, let until):
            guard roster.isCurrent else { return release(hash, at: now) }
            let isThere = canary.map { mayTry($0, gate, roster, at: now) && heard[hash]?[$0] != nil } ?? true
            let answers = fresh(.answering, hash, roster)
            if !answers.isEmpty || gate.edge.time + SiteGate.patience <= now.time {
                takeTurn(hash, gate, after: answers, roster, at: now)
            } else if !isThere || until <= now.time || !fresh(.overloaded, hash, roster).isEmpty {
                elect(hash, gate, roster, at: now)
            } else {
                let limit = limit(until, for: canary, gate, roster)
                gates[hash]?.phase = .held(by: canary, until: limit)
            }
        }
    }

    /// Lets the first machine try, and the others wait for it.
    private mutating func elect(_ hash: DestinationHash, _ gate: SiteGate, _ roster: Roster, at now: FleetInstant) {
        let answers = fresh(.answering, hash, roster)
        guard answers.isEmpty else { return takeTurn(hash, gate, after: answers, roster, at: now) }
        let last = gate.edge.time + SiteGate.patience
        let overloads = fresh(.overloaded, hash, roster).compactMap(\.until).filter { $0 > now.seconds }
        if let end = overloads.max() {
            let time = min(.seconds(Int64(end)) - now.wall, last - now.time)
            return hold(hash, gate, for: nil, until: now.time + time, roster, at: now)
        }
        let others = candidates(for: hash, roster, at: now)
        var first: FleetName?
        for edge in gate.edges {
            let own = hash.order(of: node, edge: edge)
            first = others.min { (hash.order(of: $0, edge: edge), $0) < (hash.order(of: $1, edge: edge), $1) }
            let isFirst = first.map { (own, node) < (hash.order(of: $0, edge: edge), $0) } ?? true
            if isFirst {
                gates[hash]?.phase = .canary
                return effects.append(.advise(.free(after: .zero, share: 1), destination: gate.destination))
            }
        }
        hold(hash, gate, for: first, until: last, roster, at: now)
    }

    private mutating func hold(
        _ hash: DestinationHash, _ gate: SiteGate, for other: FleetName?, until: BusTime, _ roster: Roster, at now: FleetInstant
    ) {
        let limit = limit(until, for: other, gate, roster)
        gates[hash]?.phase = .held(by: other, until: limit)
        effects.append(.advise(.hold(until - now.time), destination: gate.destination))
    }

    /// Returns the time at which a hold is looked at again: a node that is offline has to come back before.
    private func limit(_ until: BusTime, for other: FleetName?, _ gate: SiteGate, _ roster: Roster) -> BusTime {
        guard let other, roster.state(of: other) == .offline else { return until }
        return min(until, gate.edge.time + SiteGate.returnTime)
    }

    /// Gives this machine its turn among those that wait: they start one after the other, each after the duration of an answer.
    private mutating func takeTurn(
        _ hash: DestinationHash, _ gate: SiteGate, after answers: [DestinationWord], _ roster: Roster, at now: FleetInstant
    ) {
        let others = candidates(for: hash, roster, at: now)
        let edge = gate.edges[0]
        let own = hash.order(of: node, edge: edge)
        let rank = others.count { (hash.order(of: $0, edge: edge), $0) < (own, node) }
        let took = answers.compactMap(\.took).min().map { Duration.milliseconds(Int64(min($0, 60_000))) }
        let step = max(.milliseconds(1), took ?? SiteGate.usualStep)
        let span = min(step * (others.count + 1), SiteTurn.longestTurn)
        let share = Self.share(others.count + 1)
        gates[hash]?.phase = .released
        gates[hash]?.share = share
        gates[hash]?.reviewAt = now.time + SiteGate.review
        effects.append(.advise(.free(after: span * rank / (others.count + 1), share: share), destination: gate.destination))
    }

    /// Lets this machine act alone.
    ///
    /// Those that waited with it when the broker was lost may do so, too: its share is that of one of so many.
    private mutating func release(_ hash: DestinationHash, at now: FleetInstant) {
        guard let gate = gates[hash] else { return }
        let share = Self.share(gate.lastOthers + 1)
        gates[hash]?.phase = .released
        gates[hash]?.share = share
        gates[hash]?.reviewAt = now.time + SiteGate.review
        effects.append(.advise(.free(after: .zero, share: share), destination: gate.destination))
    }

    /// Tells the share of the window, which grows as others end.
    private mutating func shareWindow(_ hash: DestinationHash, _ roster: Roster, at now: FleetInstant) {
        guard let gate = gates[hash] else { return }
        gates[hash]?.reviewAt = now.time + SiteGate.review
        let others = roster.isCurrent ? candidates(for: hash, roster, at: now).count : gate.lastOthers
        let share = Self.share(others + 1)
        guard share != gate.share else { return }
        gates[hash]?.share = share
        effects.append(.advise(.share(share), destination: gate.destination))
    }

    /// Rounds up: machines with a share of 1 widen their windows on their own, and all together would overload a slow server.
    private static func share(_ machines: Int) -> Int { max(1, (machines + SiteGate.window - 1) / SiteGate.window) }

    // MARK: - Time

    mutating func setMaySpeak(_ maySpeak: Bool, at now: FleetInstant) {
        guard maySpeak != self.maySpeak else { return }
        self.maySpeak = maySpeak
        schedule(at: now.time)
    }

    /// Does what is due.
    mutating func act(_ roster: Roster, at now: FleetInstant) {
        guard wake <= now.time else { return }
        for (hash, gate) in gates where gate.due <= now.time { decide(hash, roster, at: now) }
        if maySpeak {
            for hash in gates.keys.sorted() where gates[hash]?.hasNews == true { speak(hash, roster, at: now) }
            for hash in leftOver.sorted() { effects.append(.say(hash, nil)) }
            leftOver = []
        }
        schedule(at: now.time)
    }

    private mutating func speak(_ hash: DestinationHash, _ roster: Roster, at now: FleetInstant) {
        guard let gate = gates[hash], gate.speaksAt <= now.time else { return }
        let word = word(gate, hash, roster)
        // What was told without a job is removed.
        gates[hash]?.hasNews = word != nil && gate.waiting == 0
        guard word != gate.said else { return }
        gates[hash]?.said = word
        gates[hash]?.isStored = false
        gates[hash]?.saidAt = now.time
        effects.append(.say(hash, word))
    }

    private func word(_ gate: SiteGate, _ hash: DestinationHash, _ roster: Roster) -> DestinationWord? {
        // Looked up only when it matters: each machine's words reach all others.
        gate.word(isKnown: gate.hasFirstAnswer && !fresh(.answering, hash, roster).isEmpty)
    }

    private mutating func schedule(at now: BusTime) {
        wake = .never
        for (hash, gate) in gates {
            // Without a job the state matters no more.
            if gate.waiting == 0, gate.said == nil {
                gates[hash] = nil
                if gate.isStored { leftOver.insert(hash) }
            }
            wake = min(wake, gate.due)
            if maySpeak, gate.hasNews { wake = min(wake, max(now, gate.speaksAt)) }
        }
        if maySpeak, !leftOver.isEmpty { wake = min(wake, now) }
    }
}
