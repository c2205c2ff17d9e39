package import ReachableRetry

/// The decisions of a fleet's member: when to connect and with which will, what to publish, what the other nodes are.
///
/// Pure: each event comes with the time, and effects are returned in the order in which they have to be carried out. The shell has
/// a broker's client and one timer. It connects with a clean session, and drops events of a connection that has ended.
///
/// ```
/// down ──connecting──▶ opening ──connected──▶ up ──disconnected──▶ down
///                                             └── .disconnect, for a higher epoch or a stop ──▶ leaving ──disconnected──▶ down
/// ```
package struct FleetCore: Sendable {
    /// The interval of the keep-alive: a broker publishes the will after 1.5 of them (MQTT 3.1.1 §3.1.2.10).
    static let keepAlive = Duration.seconds(20)
    /// The wait of a picture for the own word, which follows the broker's stored words; from the subscription on.
    static let completion = Duration.seconds(5)
    /// The longest wait of a picture while messages come, from the subscription on.
    static let longestCompletion = Duration.seconds(30)
    /// The time without a message after which none is on its way.
    static let stillness = Duration.seconds(2)
    /// The time without a stored word after which an observer takes the broker's stored words for complete.
    static let quiet = Duration.milliseconds(500)
    /// The longest time for which a trigger can be valid.
    static let longestTrigger = Duration.seconds(3600)
    /// The longest wait for the broker to show a request to the one who made it.
    static let showing = Duration.seconds(10)
    /// The time for which the number of members counts without a broker, which goes with the provider.
    static let memory = Duration.seconds(86_400)

    /// A request of an operator to the site.
    package enum Request: Hashable, Sendable {
        case trigger(FleetName)
        case forget(FleetName)
    }

    /// The end of a request.
    package enum Outcome: Hashable, Sendable {
        /// The broker has shown it to this member, which has subscribed to it as all do.
        case shown
        /// The broker has not shown it in time: it drops what an access list forbids, and confirms it all the same.
        case hidden
        /// The connection has ended, or there was none.
        case lost
    }

    package enum Event: Sendable {
        /// The shell is about to connect: answered by ``Effect/connect(_:)``, or by nothing when the member has ended.
        case connecting
        /// The broker has accepted the connection.
        case connected
        /// The broker has confirmed the subscription.
        case subscribed
        /// The connection has ended, or an attempt to connect has failed.
        case disconnected
        /// The broker sent a message.
        ///
        /// `isRetained` is the flag of the message: it is one that the broker had stored (MQTT 3.1.1 §3.3.1.3).
        case message(FleetMessage)
        /// The local network's state has changed: online, degraded or offline.
        case verdict(FleetNode.State, reason: String?)
        /// The time of the last ``Effect/wake(at:)`` has come.
        case timer
        /// An operator asks all nodes to act within a time.
        case trigger(FleetName, within: Duration)
        /// An operator removes a node's word from the broker.
        case forget(FleetName)
        /// The member ends in order.
        case stop
    }

    package enum Effect: Hashable, Sendable {
        /// Stores the epoch for the next start, before the connection that uses it.
        case store(epoch: UInt64)
        case connect(FleetConnection)
        /// Subscribes with QoS 1.
        case subscribe([String])
        /// Publishes with QoS 1.
        case publish(FleetMessage)
        /// Ends the connection with DISCONNECT, so that the broker drops the will, once everything is published.
        case disconnect
        /// Asks for ``Event/timer`` at a time, which replaces earlier ones; ``BusTime/never`` needs none.
        case wake(at: BusTime)
        case changed(FleetChange)
        /// Acts on a trigger.
        case fire(FleetTrigger)
        /// The number of members has changed.
        case size(Int)
        /// A request has ended.
        case settled(Request, Outcome)
    }

    enum Link: Hashable, Sendable {
        case down
        case opening
        case up
        /// A disconnection is under way.
        case leaving
    }

    private let site: FleetName
    /// `nil` for an observer: it has no word and no will.
    private let node: FleetName?
    private let run: FleetName
    private let keepAlive: Duration
    private(set) var link = Link.down
    private(set) var isStopped = false
    private(set) var announcer: Announcer
    private(set) var roster: Roster
    private(set) var inbox: TriggerInbox
    private(set) var counts = FleetCounts()
    /// The number of the last change.
    private(set) var changes: UInt64 = 0
    /// The number of the last sent trigger.
    private(set) var sentTriggers: UInt64 = 0
    /// The requests that the broker has not shown yet, and the times at which the wait for them ends.
    private(set) var asked: [(request: Request, end: BusTime)] = []
    /// The time of the last stored word of the present connection.
    private(set) var lastStored = BusTime.past
    /// The time of the last message of the present connection.
    private(set) var lastHeard = BusTime.past
    /// The time of the next look at a picture that is not current; `never` without a subscription.
    private(set) var looksAt = BusTime.never
    /// The number of members that was last reported: of all that have not said `disconnected`, whether they can be reached or not.
    private(set) var size = 1
    /// The last time that was asked for.
    private(set) var wakeAt = BusTime.never
    private var effects: [Effect] = []

    /// Creates the member of a node, or an observer; throws ``FleetError/Code/reservedName`` for a node named `trigger`.
    ///
    /// - Parameter run: An identifier that no other process has: two of one machine may have the same name by mistake.
    /// - Parameter storedEpoch: The last stored epoch; 0 if there is none.
    package init(
        site: FleetName, node: FleetName?, run: FleetName, storedEpoch: UInt64, keepAlive: Duration = Self.keepAlive,
        at now: FleetInstant
    ) throws(FleetError) {
        if let node, node.description == FleetTopic.reservedNode { throw FleetError(.reservedName, subject: node.description) }
        (self.site, self.node, self.run, self.keepAlive) = (site, node, run, keepAlive)
        // A node that reaches its broker is online until its monitor says more.
        let verdict = Announcer.Verdict(state: .online, reason: nil, since: now.seconds)
        announcer = Announcer(run: run, storedEpoch: storedEpoch, verdict: verdict)
        roster = Roster(at: now)
        inbox = TriggerInbox(node: node ?? run)
    }

    /// Decides about an event.
    package mutating func handle(_ event: Event, at now: FleetInstant) -> [Effect] {
        defer { effects = [] }
        guard !isStopped || event.isTakenWhenStopped else { return [] }
        take(event, at: now)
        if !isStopped {
            announce(at: now)
            complete(at: now)
            endKeeping(at: now)
            fire(at: now)
            for late in asked where late.end <= now.time { settle(late.request, .hidden) }
        }
        count(at: now)
        armTimer()
        return effects
    }

    private mutating func take(_ event: Event, at now: FleetInstant) {
        switch event {
        case .connecting: connect(at: now)
        case .connected:
            guard link == .opening else { return }
            link = .up
            announcer.connected()
            roster.connected()
            (lastStored, lastHeard) = (.past, .past)
            // Before the first word: the stored own one tells the epoch.
            effects.append(.subscribe(FleetTopic.filters(site: site)))
        case .subscribed:
            announcer.subscribed(at: now.time)
            looksAt = now.time + Self.completion
        case .disconnected: lose(at: now)
        case .message(let message): read(message, at: now)
        case .verdict(let state, let reason):
            announcer.take(state, reason: reason.flatMap { FleetName.isValid($0) ? $0 : nil }, at: now)
        // A timer that came too early is asked for once more.
        case .timer: wakeAt = .never
        case .trigger(let name, let time): send(name, within: time, at: now)
        case .forget(let name): forget(name, at: now)
        case .stop: stop(at: now)
        }
    }

    // MARK: - The connection

    private mutating func connect(at now: FleetInstant) {
        guard !isStopped else { return }
        lose(at: now)
        let before = announcer.epoch
        let will = announcer.beginSession(at: now)
        link = .opening
        if node != nil, announcer.epoch != before { effects.append(.store(epoch: announcer.epoch)) }
        let clientID = "\(site)/\(node?.description ?? "")/\(run)"
        effects.append(.connect(FleetConnection(clientID: clientID, will: statusMessage(will), keepAlive: keepAlive)))
    }

    private mutating func lose(_ next: Link = .down, at now: FleetInstant) {
        (link, looksAt) = (next, .never)
        announcer.disconnected()
        for open in asked { settle(open.request, .lost) }
        let wasCurrent = roster.disconnected(at: now)
        if wasCurrent { change(.unknown) }
    }

    private mutating func leave(at now: FleetInstant) {
        lose(.leaving, at: now)
        effects.append(.disconnect)
    }

    private mutating func stop(at now: FleetInstant) {
        isStopped = true
        guard link == .up else { return }
        // At once: what ends does not wait for the pause between words.
        if let word = announcer.farewell(at: now) { say(word) }
        leave(at: now)
    }

    private func statusMessage(_ word: FleetWord) -> FleetMessage? {
        node.map {
            FleetMessage(topic: FleetTopic.status($0).text(site: site), payload: WordCoding.payload(word), isRetained: true)
        }
    }

    private mutating func say(_ word: FleetWord) {
        if let message = statusMessage(word) { effects.append(.publish(message)) }
    }

    // MARK: - Messages

    private mutating func read(_ message: FleetMessage, at now: FleetInstant) {
        guard link == .up else { return }
        lastHeard = now.time
        guard let topic = FleetTopic(message.topic, site: site) else {
            counts.malformed += 1
            return
        }
        if message.isRetained { lastStored = now.time }
        switch topic {
        case .status(let name):
            var word: FleetWord?
            if message.payload.isEmpty {
                settle(.forget(name), .shown)
                if roster.remove(name), roster.isCurrent { change(.removed(name)) }
            } else {
                word = decode { () throws(WordProblem) in try WordCoding.word(message.payload) }
            }
            if name == node { readOwn(word, isRetained: message.isRetained, at: now.time) }
            if let word { take(word, of: name, isRetained: message.isRetained, at: now) }
        case .trigger(let name):
            let word = decode { () throws(WordProblem) in try WordCoding.trigger(message.payload) }
            guard let word else { return }
            if word.sender == run { settle(.trigger(name), .shown) }
            if message.isRetained || !inbox.take(word, name: name, at: now) { counts.ignoredTriggers += 1 }
        }
    }

    /// Reads a payload; counts one that is not a word.
    private mutating func decode<Word>(_ body: () throws(WordProblem) -> Word) -> Word? {
        do { return try body() } catch {
            switch error {
            case .malformed: counts.malformed += 1
            case .oversized: counts.oversized += 1
            case .foreignVersion: counts.foreignVersion += 1
            }
            return nil
        }
    }

    private mutating func readOwn(_ word: FleetWord?, isRetained: Bool, at now: BusTime) {
        guard let rival = announcer.read(word, isRetained: isRetained, at: now) else { return }
        change(.nameInUse(by: rival.run, isSilent: rival.isEarlier))
    }

    private mutating func take(_ word: FleetWord, of name: FleetName, isRetained: Bool, at now: FleetInstant) {
        switch roster.take(word, of: name, isRetained: isRetained, at: now) {
        case .unchanged: break
        case .changed:
            // The picture becomes current with all words at once.
            if roster.isCurrent, let node = roster.node(name, at: now) { change(.node(node)) }
        case .outdated: counts.outdated += 1
        case .tooMany: counts.tooMany += 1
        }
    }

    // MARK: - Own words

    private mutating func announce(at now: FleetInstant) {
        guard link == .up, node != nil else { return }
        switch announcer.takeStep(at: now) {
        case .none: break
        case .publish(let word): say(word)
        case .renew(let word):
            if let word { say(word) }
            leave(at: now)
        }
    }

    private mutating func send(_ name: FleetName, within time: Duration, at now: FleetInstant) {
        let deadline = now.wall + min(max(time, .seconds(1)), Self.longestTrigger)
        sentTriggers += 1
        let word = TriggerWord(sender: run, sequence: sentTriggers, deadline: FleetInstant.seconds(deadline))
        guard ask(.trigger(name), at: now) else { return }
        publish(WordCoding.payload(word), to: .trigger(name), isRetained: false)
    }

    private mutating func forget(_ name: FleetName, at now: FleetInstant) {
        guard ask(.forget(name), at: now) else { return }
        publish([], to: .status(name), isRetained: true)
    }

    private mutating func publish(_ payload: [UInt8], to topic: FleetTopic, isRetained: Bool) {
        effects.append(.publish(FleetMessage(topic: topic.text(site: site), payload: payload, isRetained: isRetained)))
    }

    // MARK: - Requests

    /// Begins to wait for a request; returns false without a connection.
    private mutating func ask(_ request: Request, at now: FleetInstant) -> Bool {
        guard link == .up else {
            effects.append(.settled(request, .lost))
            return false
        }
        asked.removeAll { $0.request == request }
        asked.append((request, now.time + Self.showing))
        return true
    }

    private mutating func settle(_ request: Request, _ outcome: Outcome) {
        guard let index = asked.firstIndex(where: { $0.request == request }) else { return }
        asked.remove(at: index)
        effects.append(.settled(request, outcome))
    }

    // MARK: - The picture

    private mutating func change(_ kind: FleetChange.Kind) {
        changes &+= 1
        effects.append(.changed(FleetChange(sequence: changes, kind: kind)))
    }

    /// Makes the picture current when the broker's stored words have come.
    private mutating func complete(at now: FleetInstant) {
        guard let session = announcer.session, !roster.isCurrent else { return }
        // Without a confirmation the broker may refuse the word, or another machine has the name.
        guard session.isConfirmed || hasWaited(since: session.subscribed, at: now.time) else { return }
        roster.complete(at: now.time)
        change(.current)
    }

    /// Reports the number of members if it has changed.
    private mutating func count(at now: FleetInstant) {
        let isForgotten = roster.unknownSince.map { $0.time + Self.memory <= now.time } ?? false
        let members = isForgotten ? 1 : roster.memberCount(with: node)
        guard members != size else { return }
        size = members
        effects.append(.size(members))
    }

    /// Returns true if the stored words and the own one should have come.
    ///
    /// A broker that has much to send, to a thousand nodes that come back at once, sends the own word late.
    private mutating func hasWaited(since subscribed: BusTime?, at now: BusTime) -> Bool {
        guard let subscribed, completionTime <= now else { return false }
        let isStill = lastHeard + Self.stillness <= now
        if node == nil || isStill || subscribed + Self.longestCompletion <= now { return true }
        looksAt = now + Self.stillness
        return false
    }

    /// The time at which the picture may be current even without the own word; `never` without a subscription.
    ///
    /// An observer has none: its picture is current when no stored word has come for a while.
    private var completionTime: BusTime {
        guard node == nil, let subscribed = announcer.session?.subscribed else { return looksAt }
        return min(subscribed + Self.longestCompletion, max(subscribed, lastStored) + Self.quiet)
    }

    private mutating func endKeeping(at now: FleetInstant) {
        guard let gone = roster.endKeeping(at: now.time) else { return }
        for name in gone { change(.removed(name)) }
        if gone.isEmpty { change(.keptLongEnough) }
    }

    private mutating func fire(at now: FleetInstant) {
        let (due, late) = inbox.takeDue(at: now)
        counts.ignoredTriggers += late
        for trigger in due { effects.append(.fire(trigger)) }
    }

    /// True if the own topic has not shown the session's word: an access list may drop it, and the broker confirms it all the same.
    ///
    /// Tells something when the picture becomes current: it waits for the word.
    var isUnheard: Bool { node != nil && announcer.session.map { $0.word != nil && !$0.isConfirmed } == true }

    /// Returns all nodes.
    package func picture(at now: FleetInstant) -> FleetPicture {
        FleetPicture(sequence: changes, unknownSince: roster.unknownSince?.wall, nodes: roster.nodes(at: now))
    }

    /// Returns the level of a node's condition; it can change with each ``Effect/changed(_:)``.
    func isPresent(_ node: FleetName, whenUnknown policy: UnknownNodePolicy, at now: BusTime) -> Bool {
        roster.isPresent(node, whenUnknown: policy, at: now)
    }

    // MARK: - Time

    private mutating func armTimer() {
        var next = BusTime.never
        if !isStopped {
            next = min(roster.keptUntil, inbox.wake, node == nil ? .never : announcer.wake)
            if !roster.isCurrent { next = min(next, completionTime) }
            next = min(next, asked.map(\.end).min() ?? .never)
            if size > 1, let since = roster.unknownSince { next = min(next, since.time + Self.memory) }
        }
        guard next != wakeAt else { return }
        wakeAt = next
        effects.append(.wake(at: next))
    }
}

extension FleetCore.Event {
    /// True for the events of the connection, and for requests, which need an end.
    fileprivate var isTakenWhenStopped: Bool {
        switch self {
        case .disconnected, .connecting, .trigger, .forget: true
        default: false
        }
    }
}
