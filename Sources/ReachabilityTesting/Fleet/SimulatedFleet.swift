internal import DequeModule
internal import Reachability
public import ReachableFleet
internal import ReachableRetry
internal import Synchronization

/// A fleet without machines and without a network: members meet at a broker within the test.
///
/// Members use the monitor, the bus and the clock of a ``TestWorld``, and everything that they cause has happened when the world
/// has settled:
///
/// ```swift
/// @Test func backupWaitsForNAS() async throws {
///     try await TestWorld().run { world in
///         let (fleet, nas) = (SimulatedFleet(world), try FleetName("nas"))
///         let member = try fleet.member(FleetName("laptop"))
///         world.start { await member.run() }
///         let backup = world.start { try await Backup(world.bus, when: member.condition(for: nas)).run() }
///         await world.clock.advance(by: .seconds(3600))
///         fleet.say(.online, of: nas)
///         try await backup.value
///     }
/// }
/// ```
///
/// The broker is in reach even while the simulated network is down, unless ``stopBroker(keepingStore:)`` ends it. Safe to use from
/// any thread.
public final class SimulatedFleet: Sendable {
    /// The name of the site.
    public let site: FleetName
    private let world: TestWorld
    fileprivate let state = Mutex(State())

    fileprivate struct State {
        var broker = SimulatedBroker()
        var isDown = false
        /// The nodes whose messages are dropped.
        var refused: Set<String> = []
        var links: [String: SimulatedLink] = [:]
        /// The news for the links, in order.
        var deliveries: Deque<@Sendable () -> Void> = []
        var turn = PublishingTurn()
        var members: UInt64 = 0
        var words: [FleetName: UInt64] = [:]
    }

    /// Makes a fleet whose broker is empty.
    ///
    /// - Parameter world: The world of all its members.
    public init(_ world: TestWorld) {
        self.world = world
        // A name that is known to be one.
        guard let site = try? FleetName("site") else { preconditionFailure("site is a name") }
        self.site = site
    }

    // MARK: - Members

    /// Creates a member; start its `run()` with `TestWorld.start(_:)`.
    ///
    /// - Parameters:
    ///   - node: The name of the machine; `nil` makes an observer.
    ///   - configuration: The member's options.
    /// - Throws: `FleetError` for a reserved name.
    public func member(
        _ node: FleetName?, configuration: FleetMember.Configuration = .init()
    ) throws(FleetError) -> FleetMember {
        let number = state.withLock { state in
            state.members += 1
            return state.members
        }
        let clock = world.network.clock
        return try FleetMember(
            node: node, site: site, transport: SimulatedTransport(fleet: self), scope: nil, monitor: world.monitor,
            bus: world.bus, configuration: configuration, seed: number,
            wallTime: { SimulatedNetwork.startOfTime.saturatingAdd(clock.now.offset) })
    }

    /// Publishes a word of a node that has no member here.
    ///
    /// - Parameters:
    ///   - state: The node's state; `unknown` is ignored, because no node says that.
    ///   - node: The node.
    ///   - reason: The reason, a name.
    public func say(_ state: FleetNode.State, of node: FleetName, reason: String? = nil) {
        let now = SimulatedNetwork.startOfTime.saturatingAdd(world.network.clock.now.offset)
        change { fleet in
            fleet.words[node, default: 0] += 1
            let message = FleetMessage.word(
                state, of: node, site: site, epoch: 1, sequence: fleet.words[node] ?? 1, reason: reason, since: now)
            guard let message else { return }
            let speaker = "speaker"
            fleet.broker.connect(speaker)
            fleet.broker.publish(SimulatedBroker.Message(message), from: speaker)
            fleet.broker.disconnect(speaker)
        }
    }

    // MARK: - Troubles

    /// Ends a member's connection, as a crash of its machine does: the broker publishes the will.
    ///
    /// The member notices and connects again, unless its task was cancelled before.
    public func loseConnection(of node: FleetName) {
        change { state in
            for (client, link) in state.links where link.node(of: site) == node.description {
                state.broker.loseConnection(client)
                state.end(link, FleetError(.connectionLost, subject: "the test has ended the connection"))
            }
        }
    }

    /// Cuts a member's line silently: the broker notices after 1.5 keep-alives, and the member after two.
    public func cut(_ node: FleetName) {
        let cut = state.withLock { state in state.links.filter { $0.value.node(of: site) == node.description } }
        for (client, link) in cut {
            link.cut()
            let keepAlive = link.connection.keepAlive
            after(keepAlive * 1.5) { $0.broker.loseConnection(client) }
            after(keepAlive * 2) { state in
                guard state.links[client] === link else { return }
                state.end(link, FleetError(.connectionLost, subject: "the broker has stopped answering"))
            }
        }
    }

    /// Drops the messages of a member from now on, and confirms them all the same, as brokers do for an access list.
    public func dropMessages(of node: FleetName) { state.withLock { _ = $0.refused.insert(node.description) } }

    /// Ends the broker with all connections; no will is published.
    ///
    /// - Parameter keepingStore: False to lose what it has stored.
    public func stopBroker(keepingStore: Bool = true) {
        change { state in
            state.isDown = true
            state.broker.restart(keepingStore: keepingStore)
            for link in state.links.values { state.end(link, FleetError(.connectionLost, subject: "the broker has ended")) }
        }
    }

    /// Starts the broker again.
    public func startBroker() { change { $0.isDown = false } }

    /// The topics with stored words.
    public var storedTopics: [String] { state.withLock { $0.broker.retained.keys.sorted() } }

    // MARK: - Delivering

    private func after(_ duration: Duration, _ body: @escaping @Sendable (inout State) -> Void) {
        let clock = world.network.clock
        _ = clock.callBack(at: clock.now.advanced(by: duration)) { [weak self] in self?.change(body) }
    }

    fileprivate func change(_ body: (inout State) -> Void) {
        state.withLock { state in
            body(&state)
            state.collect()
        }
        var isContinuing = false
        while let delivery = state.withLock({ state -> (@Sendable () -> Void)? in
            guard state.turn.take(isContinuing: isContinuing, hasWork: !state.deliveries.isEmpty) else { return nil }
            return state.deliveries.popFirst()
        }) {
            isContinuing = true
            delivery()
        }
    }
}

extension SimulatedFleet.State {
    /// Takes what the broker has for its clients.
    fileprivate mutating func collect() {
        for (client, link) in links.sorted(by: { $0.key < $1.key }) {
            while let message = broker.nextMessage(for: client) {
                guard !link.isCut else { continue }
                let copy = FleetMessage(topic: message.topic, payload: message.payload, isRetained: message.isRetained)
                deliveries.append { link.receive(.message(copy)) }
            }
        }
    }

    fileprivate mutating func end(_ link: SimulatedLink, _ failure: FleetError?) {
        guard links[link.connection.clientID] === link else { return }
        links[link.connection.clientID] = nil
        deliveries.append { link.receive(.ended(failure)) }
    }
}

/// Connections to the broker of a simulated fleet.
private struct SimulatedTransport: FleetTransport {
    let fleet: SimulatedFleet
    let place = "the simulated broker"

    func link(_ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) -> any FleetLink {
        SimulatedLink(fleet, connection, receive)
    }
}

/// One connection to it.
private final class SimulatedLink: FleetLink {
    let fleet: SimulatedFleet
    let connection: FleetConnection
    let receive: @Sendable (FleetLinkEvent) -> Void
    private let cutFlag = Atomic(false)

    init(_ fleet: SimulatedFleet, _ connection: FleetConnection, _ receive: @escaping @Sendable (FleetLinkEvent) -> Void) {
        (self.fleet, self.connection, self.receive) = (fleet, connection, receive)
    }

    var isCut: Bool { cutFlag.load(ordering: .acquiring) }

    func cut() { cutFlag.store(true, ordering: .releasing) }

    /// The name of the node that connects, from its will; `nil` for an observer.
    func node(of site: FleetName) -> String? {
        connection.will.map { String($0.topic.dropFirst("reach/v1/\(site)/".count).prefix { $0 != "/" }) }
    }

    func open() {
        fleet.change { state in
            guard !state.isDown else {
                let failure = FleetError(.unreachable, subject: "the simulated broker is down; next: start it")
                return state.deliveries.append { self.receive(.ended(failure)) }
            }
            state.broker.connect(connection.clientID, will: connection.will.map(SimulatedBroker.Message.init))
            state.links[connection.clientID] = self
            state.deliveries.append { self.receive(.connected) }
        }
    }

    func subscribe(_ filters: [String]) {
        fleet.change { state in
            guard state.links[connection.clientID] === self, !isCut else { return }
            for filter in filters { state.broker.subscribe(connection.clientID, to: filter) }
            state.deliveries.append { self.receive(.subscribed) }
        }
    }

    func publish(_ message: FleetMessage, _ answer: (@Sendable (Bool) -> Void)?) {
        fleet.change { state in
            guard state.links[connection.clientID] === self, !isCut else {
                if let answer { state.deliveries.append { answer(false) } }
                return
            }
            if !state.refused.contains(node(of: fleet.site) ?? "") {
                state.broker.publish(SimulatedBroker.Message(message), from: connection.clientID)
            }
            if let answer { state.deliveries.append { answer(true) } }
        }
    }

    func disconnect() {
        fleet.change { state in
            guard state.links[connection.clientID] === self else { return }
            if !isCut { state.broker.disconnect(connection.clientID) }
            state.end(self, nil)
        }
    }

    func close() {
        fleet.change { state in
            guard state.links[connection.clientID] === self else { return }
            if !isCut { state.broker.loseConnection(connection.clientID) }
            state.end(self, nil)
        }
    }
}

extension SimulatedBroker.Message {
    fileprivate init(_ message: FleetMessage) {
        self.init(topic: message.topic, payload: message.payload, isRetained: message.isRetained)
    }
}
