import ReachabilityTesting

@testable import ReachableFleet
@testable import ReachableRetry

/// Machines with real cores on a simulated broker: what a shell would do, without one.
///
/// A line between a machine and the broker can be dead without either of them knowing it.
struct FleetWorld {
    static let site = name("site")

    /// A broken promise.
    struct Broken: Error, CustomStringConvertible {
        var description: String
    }

    /// A connection as the machine sees it.
    struct Connection: Hashable {
        var client: String
        /// False if nothing passes any more.
        var isAlive = true
        /// The number of messages that the broker sends before it confirms the subscription; `nil` when it has.
        var stored: Int?
    }

    /// The end of a session.
    struct Will: Hashable {
        var run: FleetName
        var epoch: UInt64
    }

    struct Machine {
        let name: FleetName
        /// `nil` while it is switched off.
        var core: FleetCore?
        var runs = 0
        var storedEpoch: UInt64 = 0
        var connection: Connection?
        var isFrozen = false
        var wakeAt = BusTime.never
        var verdict: (state: FleetNode.State, reason: String?) = (.online, nil)
        /// The wills that were read in this connection.
        var wills: Set<Will> = []
        var lastChange: UInt64 = 0
        var lastPublication = BusTime.past
        /// The triggers that this run has acted on.
        var fired: [FleetTrigger] = []
        /// The number of members that its buses know.
        var size = 1
        var nameInUse = 0
        var renewals = 0
        var publications = 0
        /// True after a stop or the end of its run, when it has published its last word.
        var hasSaidGoodbye = false

        var isRunning: Bool { core != nil }
        var isUp: Bool { if case .up = core?.link { true } else { false } }
        var isSilent: Bool { core?.announcer.session?.word == nil }
    }

    var broker = SimulatedBroker()
    var machines: [Machine]
    private(set) var now: BusTime
    /// False to keep the wall clock at one time, so that words do not tell the time.
    var wallPasses = true
    var wallStart = Duration.seconds(1_700_000_000)
    /// The connections that the broker still has, without a machine.
    private(set) var orphans: [String] = []
    /// The nodes whose last will the broker has lost in a restart.
    private(set) var lostWills: Set<FleetName> = []
    private(set) var steps: [String] = []
    var keepsTrail = true

    init(_ names: [String]) {
        machines = names.map { Machine(name: Self.name($0)) }
        now = .start + .seconds(1000)
    }

    /// Returns a name that is known to be one.
    static func name(_ text: String) -> FleetName {
        guard let name = try? FleetName(text) else { preconditionFailure("\(text) is not a name") }
        return name
    }

    var instant: FleetInstant {
        FleetInstant(time: now, wall: wallStart + (wallPasses ? now - .start : .zero))
    }

    func topic(_ name: FleetName) -> String { FleetTopic.status(name).text(site: Self.site) }

    private mutating func note(_ step: @autoclosure () -> String) { if keepsTrail { steps.append(step()) } }

    // MARK: - Machines

    mutating func start(_ index: Int, keepsEpoch: Bool = true) throws {
        note("start \(index)\(keepsEpoch ? "" : " without its epoch")")
        let name = machines[index].name
        machines[index].runs += 1
        if !keepsEpoch { machines[index].storedEpoch = 0 }
        machines[index].core = try FleetCore(
            site: Self.site, node: name, run: Self.name("run\(index)-\(machines[index].runs)"),
            storedEpoch: machines[index].storedEpoch, at: instant)
        machines[index].verdict = (.online, nil)
        (machines[index].fired, machines[index].lastChange, machines[index].hasSaidGoodbye) = ([], 0, false)
        (machines[index].wakeAt, machines[index].lastPublication, machines[index].size) = (.never, .past, 1)
    }

    /// Switches a machine off: the broker does not notice.
    mutating func crash(_ index: Int) {
        note("crash \(index)")
        abandon(index)
        (machines[index].core, machines[index].isFrozen, machines[index].wakeAt) = (nil, false, .never)
    }

    /// Leaves a connection to the broker, which does not know that it has ended.
    private mutating func abandon(_ index: Int) {
        guard let connection = machines[index].connection else { return }
        machines[index].connection = nil
        let isKnown = machines.contains { $0.connection?.client == connection.client }
        if broker.isConnected(connection.client), !isKnown { orphans.append(connection.client) }
    }

    mutating func stop(_ index: Int) throws {
        note("stop \(index)")
        machines[index].hasSaidGoodbye = machines[index].connection?.isAlive == true && !machines[index].isSilent
        try send(.stop, to: index)
        abandon(index)
        (machines[index].core, machines[index].wakeAt) = (nil, .never)
    }

    mutating func setFrozen(_ index: Int, _ isFrozen: Bool) {
        note("\(isFrozen ? "freeze" : "thaw") \(index)")
        machines[index].isFrozen = isFrozen
    }

    mutating func setVerdict(_ index: Int, _ state: FleetNode.State, reason: String? = nil) throws {
        note("verdict \(index) \(state)")
        machines[index].verdict = (state, reason)
        try send(.verdict(state, reason: reason), to: index)
    }

    // MARK: - Connections

    /// Connects a machine that is not connected, or gives up a dead connection for another one.
    mutating func connect(_ index: Int) throws {
        note("connect \(index)")
        abandon(index)
        try send(.connecting, to: index)
    }

    /// Cuts a line: neither side notices.
    mutating func cut(_ index: Int) {
        note("cut \(index)")
        machines[index].connection?.isAlive = false
    }

    /// Tells a machine that its connection has ended.
    mutating func notice(_ index: Int) throws {
        note("notice \(index)")
        abandon(index)
        try send(.disconnected, to: index)
    }

    /// Ends the keep-alive of a machine's connection or of an abandoned one.
    mutating func expire(_ client: String) {
        note("expire \(client)")
        broker.loseConnection(client)
        orphans.removeAll { $0 == client }
        for index in machines.indices where machines[index].connection?.client == client {
            machines[index].connection?.isAlive = false
        }
    }

    /// Restarts the broker: running machines notice at once.
    mutating func restartBroker(keepingStore: Bool) throws {
        note("restart broker, \(keepingStore ? "with" : "without") its store")
        lostWills.formUnion(machines.map(\.name))
        broker.restart(keepingStore: keepingStore)
        orphans = []
        for index in machines.indices {
            machines[index].connection?.isAlive = false
            if machines[index].isRunning, !machines[index].isFrozen, machines[index].connection != nil { try notice(index) }
        }
    }

    // MARK: - Messages

    /// Delivers the next message to a machine.
    mutating func deliver(_ index: Int, from topic: String? = nil) throws {
        note("deliver \(index)\(topic.map { " from \($0)" } ?? "")")
        guard let client = machines[index].connection?.client, let message = broker.nextMessage(for: client, from: topic)
        else { return }
        try read(message, at: index)
    }

    /// Delivers the last message to a machine once more.
    mutating func deliverAgain(_ index: Int) throws {
        note("deliver again \(index)")
        guard let client = machines[index].connection?.client, let message = broker.repeatMessage(for: client) else { return }
        try read(message, at: index)
    }

    private mutating func read(_ message: SimulatedBroker.Message, at index: Int) throws {
        if let word = try? WordCoding.word(message.payload), word.state == .lost {
            machines[index].wills.insert(Will(run: word.run, epoch: word.epoch))
        }
        let copy = FleetMessage(topic: message.topic, payload: message.payload, isRetained: message.isRetained)
        try send(.message(copy), to: index)
        guard let stored = machines[index].connection?.stored, stored > 0 else { return }
        machines[index].connection?.stored = stored > 1 ? stored - 1 : nil
        if stored == 1 { try send(.subscribed, to: index) }
    }

    func canDeliver(_ index: Int) -> Bool {
        guard let connection = machines[index].connection, connection.isAlive, !machines[index].isFrozen else { return false }
        return !broker.waitingTopics(for: connection.client).isEmpty
    }

    // MARK: - Time

    /// The next time at which a core wants to be called.
    var nextWake: BusTime? {
        machines.filter { !$0.isFrozen }.map(\.wakeAt).min().flatMap { $0.isNever ? nil : max($0, now) }
    }

    mutating func pass(to time: BusTime) throws {
        let wait = time - now
        note("pass \(wait)")
        now = max(now, time)
        for index in machines.indices where !machines[index].isFrozen && machines[index].wakeAt <= now {
            machines[index].wakeAt = .never
            try send(.timer, to: index)
        }
    }

    // MARK: - The shell

    mutating func send(_ event: FleetCore.Event, to index: Int) throws {
        let instant = instant
        guard let effects = machines[index].core?.handle(event, at: instant) else { return }
        // What an effect leads to comes after the others: their timer would replace its timer.
        var next: FleetCore.Event?
        for effect in effects { next = try run(effect, of: index) ?? next }
        try check(index)
        if let next { try send(next, to: index) }
    }

    private mutating func run(_ effect: FleetCore.Effect, of index: Int) throws -> FleetCore.Event? {
        switch effect {
        case .store(let epoch): machines[index].storedEpoch = epoch
        case .connect(let connection):
            let will = connection.will.map {
                SimulatedBroker.Message(topic: $0.topic, payload: $0.payload, isRetained: $0.isRetained)
            }
            broker.connect(connection.clientID, will: will)
            orphans.removeAll { $0 == connection.clientID }
            machines[index].connection = Connection(client: connection.clientID)
            machines[index].wills = []
            return .connected
        case .subscribe(let filters):
            guard let connection = machines[index].connection, connection.isAlive else { return nil }
            for filter in filters { broker.subscribe(connection.client, to: filter) }
            let stored = broker.waitingMessages(for: connection.client).count
            machines[index].connection?.stored = stored
            if stored == 0 { return .subscribed }
        case .publish(let message): try publish(message, from: index)
        case .disconnect:
            machines[index].renewals += 1
            if let connection = machines[index].connection, connection.isAlive {
                broker.disconnect(connection.client)
                machines[index].connection = nil
            } else {
                abandon(index)
            }
            return .disconnected
        case .wake(let time): machines[index].wakeAt = time
        case .changed(let change):
            guard change.sequence == machines[index].lastChange + 1 else {
                throw Broken(description: "machine \(index) jumps to change \(change.sequence)")
            }
            machines[index].lastChange = change.sequence
            if case .nameInUse = change.kind { machines[index].nameInUse += 1 }
        case .fire(let trigger):
            if machines[index].fired.contains(where: { $0.sender == trigger.sender && $0.sequence == trigger.sequence }) {
                throw Broken(description: "machine \(index) acts twice on trigger \(trigger.sequence)")
            }
            if trigger.deadline < instant.wall { throw Broken(description: "machine \(index) acts too late") }
            machines[index].fired.append(trigger)
        case .size(let size): machines[index].size = size
        case .settled: break
        }
        return nil
    }

    private mutating func publish(_ message: FleetMessage, from index: Int) throws {
        let state = message.topic == topic(machines[index].name) ? (try? WordCoding.word(message.payload))?.state : nil
        if message.topic == topic(machines[index].name) {
            machines[index].publications += 1
            if state != .disconnected, state != nil {
                if machines[index].lastPublication + .seconds(1) > now {
                    throw Broken(description: "machine \(index) says two words within 1 s")
                }
                machines[index].lastPublication = now
            }
        }
        guard let connection = machines[index].connection, connection.isAlive else { return }
        // From its first word on a session's end counts for all.
        if state?.isConnected == true { lostWills.remove(machines[index].name) }
        broker.publish(
            SimulatedBroker.Message(topic: message.topic, payload: message.payload, isRetained: message.isRetained),
            from: connection.client)
    }

    // MARK: - Promises

    /// Checks what must hold at any moment.
    private func check(_ index: Int) throws {
        let machine = machines[index]
        guard let core = machine.core else { return }
        let others = core.roster.entries.filter { $0 != machine.name && $1.word.state != .disconnected }.count
        let isForgotten = core.roster.unknownSince.map { $0.time + .seconds(86_400) <= now } ?? false
        guard machine.size == (isForgotten ? 1 : others + 1) else {
            throw Broken(description: "\(index) counts \(machine.size) members, and knows \(others) others")
        }
        for (name, entry) in core.roster.entries {
            guard let node = core.roster.node(name, at: instant) else { continue }
            let hasConnection = machine.connection != nil && machine.isUp
            if !hasConnection, node.state != .unknown { throw Broken(description: "\(index) shows \(node) without a broker") }
            let isGone = !machines.contains { $0.name == name && $0.isRunning }
            if isGone, node.state.isConnected, !entry.isStale, machine.wills.contains(Will(run: node.run, epoch: node.epoch)) {
                throw Broken(description: "\(index) shows \(node), and has read its will")
            }
        }
    }

    /// Checks what must hold when nothing more happens.
    func checkSettled() throws {
        for (index, machine) in machines.enumerated() where machine.isRunning {
            guard machine.isUp, let core = machine.core else { throw Broken(description: "\(index) is not connected") }
            guard core.roster.isCurrent else { throw Broken(description: "the picture of \(index) is unknown") }
            for name in Set(machines.map(\.name)) { try checkSettled(core, of: index, about: name) }
        }
        for name in Set(machines.map(\.name)) where machines.contains(where: { $0.name == name && $0.isRunning }) {
            let words = announcers(of: name).compactMap { machines[$0].core?.announcer.session?.word }
            guard let stored = broker.retained[topic(name)], let word = try? WordCoding.word(stored.payload), words.contains(word)
            else { throw Broken(description: "the broker keeps something else than the last word of \(name)") }
        }
    }

    /// The machines of a name that announce it.
    func announcers(of name: FleetName) -> [Int] {
        machines.indices.filter { index in
            guard machines[index].name == name, let announcer = machines[index].core?.announcer else { return false }
            return announcer.session?.word != nil && announcer.silentUntil <= now
        }
    }

    private func checkSettled(_ core: FleetCore, of index: Int, about name: FleetName) throws {
        let shown = core.roster.node(name, at: instant)
        guard machines.contains(where: { $0.name == name && $0.isRunning }) else {
            if let shown, shown.state.isConnected, !lostWills.contains(name) {
                throw Broken(description: "\(index) shows \(shown), which is gone")
            }
            return
        }
        let announcers = announcers(of: name)
        guard announcers.count == 1, let announcer = announcers.first, let word = machines[announcer].core?.announcer.session?.word
        else { throw Broken(description: "\(announcers.count) machines announce \(name)") }
        guard let shown, core.roster.entries[name]?.word == word else {
            throw Broken(description: "\(index) shows \(shown?.description ?? "nothing"), not the last word of \(name): \(word)")
        }
        let verdict = machines[announcer].verdict
        guard shown.state == verdict.state, shown.reason == verdict.reason else {
            throw Broken(description: "\(index) shows \(shown), not \(verdict)")
        }
    }
}

extension FleetWorld {
    /// A step, for explorations and random histories.
    enum Step: Hashable, CustomStringConvertible {
        case deliver(Int, String?)
        case deliverAgain(Int)
        case connect(Int)
        case cut(Int)
        case notice(Int)
        case crash(Int)
        case stop(Int)
        case start(Int, keepsEpoch: Bool)
        case freeze(Int)
        case thaw(Int)
        case expire(String)
        case publishWill
        case restartBroker(keepsStore: Bool)
        case verdict(Int, FleetNode.State)
        case trigger(Int)
        case forget(Int, Int)
        case pass

        var description: String {
            switch self {
            case .deliver(let index, let topic): "deliver \(index) \(topic ?? "")"
            case .deliverAgain(let index): "deliver again \(index)"
            case .connect(let index): "connect \(index)"
            case .cut(let index): "cut \(index)"
            case .notice(let index): "notice \(index)"
            case .crash(let index): "crash \(index)"
            case .stop(let index): "stop \(index)"
            case .start(let index, let keepsEpoch): "start \(index)\(keepsEpoch ? "" : " without its epoch")"
            case .freeze(let index): "freeze \(index)"
            case .thaw(let index): "thaw \(index)"
            case .expire(let client): "expire \(client)"
            case .publishWill: "publish a held will"
            case .restartBroker(let keepsStore): "restart the broker \(keepsStore ? "with" : "without") its store"
            case .verdict(let index, let state): "verdict of \(index): \(state)"
            case .trigger(let index): "trigger from \(index)"
            case .forget(let index, let other): "\(index) forgets \(other)"
            case .pass: "pass"
            }
        }
    }

    mutating func play(_ step: Step) throws {
        switch step {
        case .deliver(let index, let topic): try deliver(index, from: topic)
        case .deliverAgain(let index): try deliverAgain(index)
        case .connect(let index): try connect(index)
        case .cut(let index): cut(index)
        case .notice(let index): try notice(index)
        case .crash(let index): crash(index)
        case .stop(let index): try stop(index)
        case .start(let index, let keepsEpoch): try start(index, keepsEpoch: keepsEpoch)
        case .freeze(let index): setFrozen(index, true)
        case .thaw(let index): setFrozen(index, false)
        case .expire(let client): expire(client)
        case .publishWill: broker.publishHeldWills(1)
        case .restartBroker(let keepsStore): try restartBroker(keepingStore: keepsStore)
        case .verdict(let index, let state): try setVerdict(index, state)
        case .trigger(let index): try send(.trigger(Self.name("now"), within: .seconds(30)), to: index)
        case .forget(let index, let other): try send(.forget(machines[other].name), to: index)
        case .pass: if let nextWake { try pass(to: nextWake) }
        }
    }

    /// Returns the next step if nothing goes wrong any more; `nil` when nothing is left to do.
    ///
    /// - Parameter horizon: The longest wait that counts: the later of two machines of one name tries again each minute.
    func stepTowardsTheEnd(horizon: Duration? = nil) -> Step? {
        if !broker.heldWills.isEmpty { return .publishWill }
        if let orphan = orphans.first { return .expire(orphan) }
        for (index, machine) in machines.enumerated() {
            if machine.isFrozen { return .thaw(index) }
            if let connection = machine.connection, !connection.isAlive {
                return broker.isConnected(connection.client) ? .expire(connection.client) : .notice(index)
            }
            if machine.isRunning, machine.connection == nil { return .connect(index) }
            if canDeliver(index) { return .deliver(index, nil) }
        }
        return mayPass(horizon: horizon) ? .pass : nil
    }

    /// True if a core waits for a time.
    ///
    /// - Parameter horizon: See ``stepTowardsTheEnd(horizon:)``; longer waits count while a running machine's name is free.
    func mayPass(horizon: Duration?) -> Bool {
        guard let nextWake else { return false }
        guard let horizon, nextWake > now + horizon else { return true }
        return machines.contains { $0.isRunning && announcers(of: $0.name).isEmpty }
    }

    /// Lets everything go well until nothing more happens.
    mutating func settle(horizon: Duration? = nil) throws {
        for _ in 0..<5000 {
            guard let step = stepTowardsTheEnd(horizon: horizon) else { return }
            try play(step)
        }
        throw Broken(description: "it never ends")
    }
}
