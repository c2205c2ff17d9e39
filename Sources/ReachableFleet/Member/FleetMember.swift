internal import DequeModule
internal import Glibc
public import ReachableRetry
internal import Synchronization

#if MQTT
// An optimized build takes timespec from its header.
internal import CLibMosquitto
public import Reachability
#else
package import Reachability
#endif

#if ServiceLifecycle
public import ServiceLifecycle
#endif

/// A machine of a fleet: it tells the others that it is there, and hears the same of them.
///
/// ```swift
/// let member = try FleetMember(node: FleetName("nas"), site: FleetName("home"), broker: FleetBroker("mqtts://broker.local"))
/// async let service: Void = member.run()
/// for await change in member.changes {
///     print(change.kind)
/// }
/// ```
///
/// Each node keeps a word at an MQTT 3.1.1 broker: online, degraded or offline, as its monitor says, and `lost` as its last will.
/// The broker is the only memory: while it is not connected the picture is unknown, and local reachability stays the authority.
/// Connecting is a job of a retry bus: it waits for the network, and backs off at most 5 s. A loss of the way to the broker for
/// 5 s ends the connection.
///
/// A member without a node is an observer: it publishes nothing about itself, sees the picture, and may send triggers.
///
/// All members are safe to use from any thread.
///
/// ## Topics
/// ### Running
/// - ``init(node:site:broker:monitor:configuration:)``
/// - ``Configuration``
/// - ``run()``
/// ### Looking
/// - ``nodes``
/// - ``changes``
/// - ``isConnected``
/// - ``lastFailure``
/// - ``counts``
/// ### Waiting
/// - ``condition(for:whenUnknown:)``
/// ### Spreading
/// - ``size``
/// ### Asking all nodes
/// - ``trigger(_:within:)``
/// - ``triggers``
/// - ``forget(_:)``
public final class FleetMember: Sendable {
    /// An event with what follows it.
    struct Item: Sendable {
        var event: FleetCore.Event
        /// The number of the connection that it belongs to; `nil` for the member's own.
        var link: UInt64?
        /// Takes the event's effects, after they were carried out.
        var completion: (@Sendable ([FleetCore.Effect], _ link: UInt64) -> Void)?
        /// The request that the event makes.
        var request: Request?
    }

    /// A request that waits for its end.
    struct Request: Sendable {
        var request: FleetCore.Request
        var answer: @Sendable (FleetCore.Outcome) -> Void
    }

    enum Phase {
        case idle
        case running
        case ended
    }

    struct State {
        var core: FleetCore
        var phase = Phase.idle
        var items: Deque<Item> = []
        /// The turn to handle events.
        var turn = PublishingTurn()
        /// The number of the present connection or attempt.
        var linkNumber: UInt64 = 0
        var link: (any FleetLink)?
        var lastFailure: FleetError?
        /// Called when the member has stopped and its connection has ended.
        var onEnd: (@Sendable () -> Void)?
        /// The number of the timer's settings, so that it knows the latest.
        var revision: UInt64 = 0
        var listeners = Broadcast<Int, Subscription<FleetChange>>()
        var triggerListeners = Broadcast<Int, Subscription<FleetTrigger>>()
        var conditions: [ConditionKey: NodeCondition] = [:]
        var requests: [Request] = []
        /// The latest time of an event: two threads may take the lock in another order than they read the clock.
        fileprivate var latest = BusTime.past

        /// Returns the time of an event, which is never before that of the previous one.
        mutating func time(_ reading: FleetInstant) -> FleetInstant {
            latest = max(latest, reading.time)
            return FleetInstant(time: latest, wall: reading.wall)
        }
    }

    /// The node's name; `nil` for an observer.
    public let node: FleetName?
    /// The name of the site, whose nodes this member sees.
    public let site: FleetName
    /// The number of members, this one included, for `RetryBus.Configuration.fleetSize`: buses that know it do not storm a server.
    ///
    /// ```swift
    /// var configuration = RetryBus.Configuration()
    /// configuration.fleetSize = member.size
    /// ```
    ///
    /// All nodes count that have not said `disconnected`, reachable or not. Without a broker the last number counts for a day, for
    /// the broker may have gone with the provider; then, and before the first connection, the number is 1.
    public let size = FleetSize()
    /// The identifier of this run, as other members see it in ``FleetNode/run`` and ``FleetTrigger/sender``.
    public let run: FleetName
    let transport: any FleetTransport
    /// The destination of the transport; `nil` if it needs no network.
    let brokerScope: Scope?
    let monitor: ReachabilityMonitor
    let bus: RetryBus
    let configuration: Configuration
    let epochFile: EpochFile?
    let seed: UInt64
    private let wallTime: @Sendable () -> Duration
    private let timer: BusTimer
    let state: Mutex<State>

    #if MQTT
    /// Creates a member; nothing happens before ``run()``.
    ///
    /// Available with the package's trait `MQTT`.
    ///
    /// - Parameters:
    ///   - node: The name of this machine, unique within the site; `nil` makes an observer.
    ///   - site: The name of the group of machines that see each other.
    ///   - broker: The broker that all of them use.
    ///   - monitor: The monitor whose verdict is the node's state, after its damping, and which tells when connecting makes sense.
    ///     The member does not run it.
    ///   - configuration: The scope, state folder and log.
    /// - Throws: ``FleetError/Code/reservedName`` for a node named `trigger`.
    public convenience init(
        node: FleetName?, site: FleetName, broker: FleetBroker, monitor: ReachabilityMonitor = .shared,
        configuration: Configuration = .init()
    ) throws(FleetError) {
        var busConfiguration = RetryBus.Configuration()
        busConfiguration.logger = configuration.logger
        try self.init(
            node: node, site: site, transport: MosquittoTransport(broker), scope: broker.scope, monitor: monitor,
            bus: RetryBus(monitor, configuration: busConfiguration, clock: ContinuousClock()), configuration: configuration)
    }
    #endif

    #if MQTT
    /// Returns the transport of a broker, for a member with a monitor and a bus of a test.
    package static func transport(_ broker: FleetBroker) -> any FleetTransport { MosquittoTransport(broker) }
    #endif

    /// Creates a member on any transport.
    ///
    /// - Parameters:
    ///   - node: The name of this machine; `nil` makes an observer.
    ///   - site: The name of the site.
    ///   - transport: The way to a broker.
    ///   - scope: The destination of the transport; `nil` if it needs no network.
    ///   - monitor: The monitor of the node's state.
    ///   - bus: The bus on which connecting is a job; its clock is the member's.
    ///   - configuration: The options.
    ///   - seed: The seed of the pauses and of the run's identifier.
    ///   - wallTime: The time since 1970-01-01T00:00:00Z.
    package init(
        node: FleetName?, site: FleetName, transport: any FleetTransport, scope: Scope?, monitor: ReachabilityMonitor,
        bus: RetryBus, configuration: Configuration, seed: UInt64 = .random(in: .min ... .max),
        wallTime: @escaping @Sendable () -> Duration = FleetMember.systemTime
    ) throws(FleetError) {
        (self.node, self.site, self.transport, brokerScope) = (node, site, transport, scope)
        (self.monitor, self.bus, self.configuration, self.seed, self.wallTime) = (monitor, bus, configuration, seed, wallTime)
        run = try FleetName(String(seed, radix: 36))
        epochFile = node.flatMap { node in
            configuration.stateDirectory.map { EpochFile(directory: $0, site: site, node: node) }
        }
        timer = BusTimer(bus.clock)
        let core = try FleetCore(
            site: site, node: node, run: run, storedEpoch: epochFile?.read() ?? 0, keepAlive: configuration.keepAlive,
            at: FleetInstant(time: bus.clock.now(), wall: wallTime()))
        state = Mutex(State(core: core))
    }

    deinit {
        // Never run: finish its streams so that listeners do not hang.
        let ends = state.withLock { $0.takeListeners() }
        ends()
    }

    /// Runs the member until the task is cancelled, or, with the trait `ServiceLifecycle`, shut down gracefully.
    ///
    /// Its end is in order: the node says that it is disconnected, and the broker drops its will. If the broker does not answer, it
    /// ends after 3 s. Afterwards streams and conditions have finished, and the picture is unknown. Call it once: a second call
    /// returns at once.
    public func run() async {
        let isFirst = state.withLock { state in
            guard state.phase == .idle else { return false }
            state.phase = .running
            return true
        }
        guard isFirst else { return }
        await cancelledByShutdown { await self.work() }
        end()
    }

    private func work() async {
        await withTaskGroup(of: Void.self) { group in
            if node != nil { group.addTask { await self.followMonitor() } }
            if let brokerScope { group.addTask { await self.followPath(to: brokerScope) } }
            group.addTask { await self.stayConnected() }
        }
        await leave()
    }

    /// Takes the state of the local network from the monitor.
    private func followMonitor() async {
        for await transition in monitor.transitions(to: configuration.scope) {
            let path = transition.current
            switch path.status {
            // The monitor has not looked yet, or has ended.
            case .unknown: break
            case .unsatisfied: send(Item(event: .verdict(.offline, reason: path.offlineReason?.rawValue)))
            case .satisfied:
                switch path.validation {
                case nil, .validated: send(Item(event: .verdict(.online, reason: nil)))
                case .captivePortal: send(Item(event: .verdict(.degraded, reason: "captivePortal")))
                case .failed: send(Item(event: .verdict(.degraded, reason: "validationFailed")))
                }
            }
        }
    }

    private func end() {
        let ends = state.withLock { state in
            state.phase = .ended
            return state.takeListeners()
        }
        ends()
    }

    // MARK: - Events

    var now: FleetInstant { FleetInstant(time: bus.clock.now(), wall: wallTime()) }

    /// The time of the system's clock since 1970-01-01T00:00:00Z.
    package static func systemTime() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Handles an event after those before it.
    ///
    /// One thread at a time carries out effects, without a lock: the events that they cause come after all of them.
    func send(_ item: Item) {
        state.withLock { $0.items.append(item) }
        handleEvents()
    }

    /// Handles waiting events and new listeners, unless another thread does.
    func handleEvents() {
        var isContinuing = false
        while true {
            let reading = now
            guard let step = state.withLock({ $0.takeStep(isContinuing: isContinuing, at: reading) }) else { return }
            isContinuing = true
            perform(step)
        }
    }

    private func perform(_ step: Step) {
        for (baseline, listeners) in step.newcomers {
            for listener in listeners { listener.yield(baseline) }
        }
        guard let item = step.item else { return }
        for effect in step.effects {
            switch effect {
            // The task that connects takes these: storing takes time.
            case .store, .connect: break
            case .subscribe(let filters): step.link?.subscribe(filters)
            case .publish(let message): step.link?.publish(message, nil)
            case .disconnect: step.link?.disconnect()
            case .wake(let time):
                timer.set(to: time, revision: step.revision) { [weak self] _ in self?.send(Item(event: .timer)) }
            case .changed(let change):
                for listener in step.listeners { listener.yield(change) }
            case .fire(let trigger):
                for listener in step.triggerListeners { listener.yield(trigger) }
            case .size(let count): size.update(count)
            case .settled: break
            }
        }
        for (source, level) in step.levels { source.set(level) }
        if let failure = step.failure { log(failure) }
        for (request, outcome) in step.answers { request.answer(outcome) }
        item.completion?(step.effects, step.linkNumber)
        step.onEnd?()
    }
}

/// The work of one event, to be done without the lock.
struct Step: Sendable {
    var newcomers: [(FleetChange, [Subscription<FleetChange>])] = []
    var item: FleetMember.Item?
    var effects: [FleetCore.Effect] = []
    var link: (any FleetLink)?
    var linkNumber: UInt64 = 0
    var revision: UInt64 = 0
    var listeners: [Subscription<FleetChange>] = []
    var triggerListeners: [Subscription<FleetTrigger>] = []
    /// The levels of conditions that may have changed.
    var levels: [(ConditionSource, Bool)] = []
    /// The requests that have come to their end.
    var answers: [(FleetMember.Request, FleetCore.Outcome)] = []
    var onEnd: (@Sendable () -> Void)?
    /// A failure to log.
    var failure: FleetError?
}

extension FleetCore.Effect {
    fileprivate var makesCurrent: Bool {
        if case .changed(let change) = self { change.kind == .current } else { false }
    }
}

extension FleetMember.State {
    /// Takes the next event, and the listeners that wait for their baseline; `nil` if there is nothing, or if another thread does.
    mutating func takeStep(isContinuing: Bool, at reading: FleetInstant) -> Step? {
        guard turn.take(isContinuing: isContinuing, hasWork: !items.isEmpty || listeners.hasNewcomers) else { return nil }
        var step = Step()
        let baseline = FleetChange(sequence: core.changes, kind: core.roster.isCurrent ? .current : .unknown)
        step.newcomers = listeners.admit { _ in baseline }
        guard let item = items.popFirst() else { return step }
        step.item = item
        if let number = item.link, number != linkNumber { return step }
        if let request = item.request { requests.append(request) }
        step.effects = core.handle(item.event, at: time(reading))
        for effect in step.effects {
            switch effect {
            case .connect:
                linkNumber += 1
                link = nil
            case .wake: revision += 1
            case .changed(let change):
                step.listeners = listeners.listeners(to: 0)
                for (key, condition) in conditions where change.kind.concerns(key.node) {
                    let level = core.isPresent(key.node, whenUnknown: key.policy, at: reading.time)
                    step.levels.append((condition.source, level))
                }
            case .fire: step.triggerListeners = triggerListeners.listeners(to: 0)
            case .settled(let request, let outcome):
                step.answers += requests.filter { $0.request == request }.map { ($0, outcome) }
                requests.removeAll { $0.request == request }
            default: break
            }
        }
        noteDroppedWords(&step)
        (step.link, step.linkNumber, step.revision) = (link, linkNumber, revision)
        // Released without the lock, with the step.
        if case .disconnected = item.event { link = nil }
        if core.isStopped, core.link == .down { swap(&step.onEnd, &onEnd) }
        return step
    }

    /// Sets the failure of a node whose words the broker drops, until it shows one.
    private mutating func noteDroppedWords(_ step: inout Step) {
        guard core.isUnheard else {
            if lastFailure?.code == .notHeard { lastFailure = nil }
            return
        }
        guard lastFailure == nil, step.effects.contains(where: \.makesCurrent) else { return }
        let failure = FleetError(
            .notHeard,
            subject:
                "the broker takes this node's words and shows them to no one; next: let this client write below the node's name "
                + "in the broker's access list, and restart the broker")
        (lastFailure, step.failure) = (failure, failure)
    }

    /// Removes all listeners and conditions; the result ends them.
    mutating func takeListeners() -> @Sendable () -> Void {
        phase = .ended
        let (changes, triggers) = (listeners.removeAll(), triggerListeners.removeAll())
        let conditions = conditions
        self.conditions = [:]
        return {
            for listener in changes { listener.finish() }
            for listener in triggers { listener.finish() }
            for (key, condition) in conditions {
                condition.source.set(key.policy == .failOpen)
                condition.source.finish()
            }
        }
    }
}

extension FleetChange.Kind {
    /// Returns true if the change may concern a node's condition.
    fileprivate func concerns(_ name: FleetName) -> Bool {
        switch self {
        case .current, .unknown, .keptLongEnough: true
        case .node(let node): node.name == name
        case .removed(let node): node == name
        case .nameInUse: false
        }
    }
}

#if ServiceLifecycle
/// Available with the package's trait `ServiceLifecycle`.
///
/// List the member before the services that wait for its conditions: a group shuts its last service down first.
extension FleetMember: Service {}
#endif
