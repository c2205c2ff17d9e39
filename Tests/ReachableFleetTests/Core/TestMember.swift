import ReachableRetry

@testable import ReachableFleet

/// One core, called by a test that plays the shell and the broker.
struct TestMember {
    static let site = name("site")

    var core: FleetCore
    var now = BusTime.start + .seconds(100)
    /// The wall time at the start of the clock.
    var wallStart = Duration.seconds(1_700_000_000)
    let node: FleetName
    let run: FleetName
    /// All effects since the last ``takeEffects()``.
    private(set) var effects: [FleetCore.Effect] = []
    /// The last time that the core asked for.
    private(set) var wakeAt = BusTime.never

    init(_ node: String = "nas", run: String = "run", storedEpoch: UInt64 = 0) throws {
        (self.node, self.run) = (Self.name(node), Self.name(run))
        core = try FleetCore(
            site: Self.site, node: self.node, run: self.run, storedEpoch: storedEpoch,
            at: FleetInstant(time: now, wall: wallStart + .seconds(100)))
    }

    static func name(_ text: String) -> FleetName {
        guard let name = try? FleetName(text) else { preconditionFailure("\(text) is not a name") }
        return name
    }

    var instant: FleetInstant { FleetInstant(time: now, wall: wallStart + (now - .start)) }
    var picture: FleetPicture { core.picture(at: instant) }

    // MARK: - Events

    /// Sends an event and returns its effects.
    @discardableResult
    mutating func send(_ event: FleetCore.Event) -> [FleetCore.Effect] {
        let new = core.handle(event, at: instant)
        for case .wake(let time) in new { wakeAt = time }
        effects += new
        return new
    }

    /// Connects; a disconnection that the core asked for has happened.
    mutating func connect() {
        send(.connecting)
        send(.connected)
        send(.subscribed)
    }

    /// Connects without an own stored word, and lets the own first word come back.
    mutating func join() throws {
        connect()
        pass(.seconds(1))
        try echo()
        effects = []
    }

    /// Lets time pass; the core is called at each time that it asks for.
    mutating func pass(_ duration: Duration) {
        let end = now + duration
        while wakeAt <= end {
            now = max(now, wakeAt)
            wakeAt = .never
            send(.timer)
        }
        now = end
    }

    /// Delivers the last published own word.
    mutating func echo() throws {
        guard let word = core.announcer.session?.word else { throw FleetError(.notConnected, subject: "a word") }
        hear(word)
    }

    mutating func hear(_ word: FleetWord, of name: String? = nil, isRetained: Bool = false) {
        hear(WordCoding.payload(word), of: name, isRetained: isRetained)
    }

    mutating func hear(_ payload: [UInt8], of name: String? = nil, isRetained: Bool = false) {
        let topic = FleetTopic.status(name.map(Self.name) ?? node).text(site: Self.site)
        send(.message(FleetMessage(topic: topic, payload: payload, isRetained: isRetained)))
    }

    mutating func hear(_ trigger: TriggerWord, name: String = "now", isRetained: Bool = false) {
        let topic = FleetTopic.trigger(Self.name(name)).text(site: Self.site)
        send(.message(FleetMessage(topic: topic, payload: WordCoding.payload(trigger), isRetained: isRetained)))
    }

    // MARK: - Effects

    mutating func takeEffects() -> [FleetCore.Effect] {
        defer { effects = [] }
        return effects
    }

    /// The own words among the effects since the last ``takeEffects()``.
    var words: [FleetWord] {
        effects.compactMap { effect in
            guard case .publish(let message) = effect, message.topic == FleetTopic.status(node).text(site: Self.site) else {
                return nil
            }
            return try? WordCoding.word(message.payload)
        }
    }

    var wills: [FleetWord] {
        effects.compactMap { effect in
            guard case .connect(let connection) = effect, let will = connection.will else { return nil }
            return try? WordCoding.word(will.payload)
        }
    }

    var fired: [FleetTrigger] { effects.compactMap { if case .fire(let trigger) = $0 { trigger } else { nil } } }
    var changes: [FleetChange.Kind] { effects.compactMap { if case .changed(let change) = $0 { change.kind } else { nil } } }
    var sizes: [Int] { effects.compactMap { if case .size(let size) = $0 { size } else { nil } } }
    func has(_ effect: FleetCore.Effect) -> Bool { effects.contains(effect) }

    // MARK: - Words

    static func word(
        _ state: FleetNode.State = .online, epoch: UInt64 = 1, sequence: UInt64 = 1, run: String = "other", first: UInt64? = nil,
        reason: String? = nil, since: UInt64 = 1_700_000_000
    ) -> FleetWord {
        FleetWord(
            epoch: epoch, first: first ?? epoch, run: name(run), sequence: sequence, state: state, reason: reason, since: since)
    }
}
