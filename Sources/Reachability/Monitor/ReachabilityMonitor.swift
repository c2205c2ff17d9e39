internal import Synchronization

#if ServiceLifecycle
public import ServiceLifecycle
#endif

/// Knows at any moment whether and how this machine can reach the network, or an address, and tells everybody who listens.
///
/// ```swift
/// let monitor = ReachabilityMonitor.shared
/// for await transition in monitor.transitions {
///     print(transition.current.status, transition.cause)
/// }
/// ```
///
/// A monitor asks the kernel's forwarding table (RTM_GETROUTE, rtnetlink(7)) whenever an event suggests that the answer may have
/// changed; it sends no packets, unless it is given a ``PathValidator``. Everything is safe to use from any thread. Transitions
/// are made and told by one thread, in order.
///
/// ## Topics
/// ### Running
/// - ``shared``
/// - ``init(_:configuration:)``
/// - ``run()``
/// ### Asking
/// - ``path``
/// - ``path(to:)``
/// ### Listening
/// - ``transitions``
/// - ``transitions(to:raw:)``
/// - ``condition(for:)``
/// - ``waitUntilSatisfied(_:)``
/// ### Validating
/// - ``validatedCondition``
/// - ``validate()``
public final class ReachabilityMonitor: Sendable {
    typealias Listener = Subscription<Transition>

    enum Phase {
        case idle
        case running
        case ended
    }

    struct Guarded {
        var core: MonitorCore
        var phase = Phase.idle
        /// Whether somebody is about to run it.
        var isExpected = false
        var broadcast = Broadcast<StreamKey, Listener>()
        var conditions: [Scope: ConditionStorage] = [:]
        var holdings: [IPAddress: Holding] = [:]
        /// Whether the internet is validated, once somebody wanted to know.
        var validatedCondition: ConditionStorage?
        /// Those who wait for a validation.
        var validationRequests = Broadcast<Int, ValidationRequest>()
        /// The validation that was started last.
        var validation: Task<Void, Never>?
        var healthListeners = Broadcast<Int, AsyncStream<MonitorHealth>.Continuation>()
        /// What those were last told.
        var toldHealth = MonitorHealth()
        /// The source's time as of the last batch, for what is told after the last one.
        var now = BootInstant(sinceBoot: .zero)
        var deliveryCount: UInt64 = 0
        var wallTime: Duration = .zero
        /// What the instruments measure, and were told last.
        var outage = OutageTimer()
        var toldOnline: Bool?
    }

    let source: any NetworkSource
    /// The source, if it runs tasks: looked up once, for it is called between a verdict and those who wait for it.
    private let taskRunner: (any TaskRunningSource)?
    let configuration: Configuration
    let evaluator: PathEvaluator
    let instruments: MonitorInstruments?
    let guarded: Mutex<Guarded>

    /// The monitor of this machine, in the network namespace of the thread that uses it first.
    ///
    /// It starts on first use and runs as long as the process. If it cannot (no netlink), its path is `unknown` and
    /// ``health`` says why. Libraries take a monitor as a parameter instead of using this one, so that tests can replace it.
    public static let shared: ReachabilityMonitor = {
        let monitor = ReachabilityMonitor()
        monitor.expectRun()
        Task.detached { try? await monitor.run() }
        return monitor
    }()

    /// Makes a monitor; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - source: where it learns about the network; by default the kernel, in the current network namespace.
    ///   - configuration: how it judges and reports.
    public init(_ source: some NetworkSource = KernelNetwork(), configuration: Configuration = .init()) {
        self.source = source
        taskRunner = source as? any TaskRunningSource
        self.configuration = configuration
        let core = MonitorCore(configuration, resolvesHosts: source.answersHosts)
        evaluator = core.evaluator
        instruments = MonitorInstruments(configuration)
        guarded = Mutex(Guarded(core: core))
    }

    deinit {
        // Nobody ran it, or its listeners would keep it: they would wait for ever.
        let (listeners, healthListeners) = guarded.withLock { guarded in
            guarded.phase = .ended
            return (guarded.broadcast.removeAll(), guarded.healthListeners.removeAll())
        }
        for listener in listeners { listener.finish() }
        for listener in healthListeners { listener.finish() }
    }

    /// Runs the monitor until the task is cancelled, or, with the trait `ServiceLifecycle`, shut down gracefully.
    ///
    /// Call it once.
    ///
    /// When it ends, for whatever reason, streams are told an unknown path and finish, conditions finish, and ``path`` is
    /// `unknown`.
    ///
    /// - Throws: ``ReachabilityError`` if the source fails or the monitor was run before. Cancellation is a normal end.
    public func run() async throws {
        try guarded.withLock { guarded throws(ReachabilityError) in
            guard guarded.phase == .idle else {
                throw ReachabilityError(.alreadyRun, operation: "ReachabilityMonitor.run()")
            }
            guarded.phase = .running
        }
        #if ServiceLifecycle
        try await cancelWhenGracefulShutdown { try await self.work() }
        #else
        try await work()
        #endif
    }

    private func work() async throws {
        if let destinations = guarded.withLock({ $0.core.takeNewDestinations() }) { watch(destinations) }
        do {
            try await source.run { [self] in deliver($0) }
            end(failure: nil)
        } catch let error as ReachabilityError {
            end(failure: error)
            throw error
        } catch is CancellationError {
            end(failure: nil)
        } catch {
            end(failure: ReachabilityError(.requestFailed, operation: "\(error)"))
            throw error
        }
    }

    /// The path to the internet as of the last event: a read of memory, at most a few milliseconds behind the kernel.
    ///
    /// `unknown` before the first snapshot and after the end.
    public var path: NetworkPath { guarded.withLock { $0.core.path(.internet) ?? .unknown } }

    /// How far the monitor has come, for those who wait for its first word.
    package enum Stage: Sendable {
        /// Nobody runs it.
        case idle
        /// It runs, or is about to, and has not looked yet.
        case starting
        /// It has looked, and goes on looking.
        case live
        /// It has ended.
        case ended
    }

    /// Says that somebody is about to run it, so that those who come before do not think that nobody will.
    package func expectRun() { guarded.withLock { $0.isExpected = true } }

    package var stage: Stage {
        guarded.withLock { guarded in
            switch guarded.phase {
            case .idle: guarded.isExpected ? .starting : .idle
            case .running: guarded.core.hasVerdict ? .live : .starting
            case .ended: .ended
            }
        }
    }

    /// The number of batches that the source has delivered: an answer of before the last one may be out of date.
    package var deliveryCount: UInt64 { guarded.withLock(\.deliveryCount) }

    /// What the monitor went through.
    public var health: MonitorHealth { guarded.withLock(\.core.health) }

    // MARK: - The source's thread

    /// Takes in a batch, asks what must be asked, and publishes.
    ///
    /// Called serially by the source. Conditions come first, before anything is put into words: a job that waits for the network is
    /// worth more than a line that reports it.
    func deliver(_ batch: NetworkEventBatch) -> Duration? {
        let (plan, destinations) = guarded.withLock { guarded in
            guarded.now = batch.now
            guarded.deliveryCount &+= 1
            guarded.wallTime = batch.wallTime
            return (guarded.core.receive(batch), guarded.core.takeNewDestinations())
        }
        // First: what changes after the answers must be announced.
        if let destinations { watch(destinations) }
        var answers = answers(to: plan)
        let (settlement, changes) = guarded.withLock { guarded in
            let settlement = guarded.core.settle(plan, answers)
            return (settlement, guarded.changes(settlement, answers))
        }
        for change in changes {
            change.storage.replace(change.state, isUnsteady: change.isUnsteady, wasRequested: change.wasRequested)
        }
        if !changes.isEmpty { taskRunner?.runTasks() }
        readDetails(&answers)
        let (outcome, news) = guarded.withLock { guarded in
            let outcome = guarded.core.conclude(plan, answers, settlement)
            return (outcome, guarded.news(outcome))
        }
        for news in news { news.tell() }
        guarded.withLock { Deliveries(outcome, &$0, instruments) }.perform()
        if let validation = outcome.validation { perform(validation) }
        resolve(outcome.hosts)
        return outcome.wait
    }

    private func watch(_ addresses: Set<IPAddress>) { (source as? any FilteringSource)?.watch(addresses) }

    private func resolve(_ hosts: [String]) {
        guard !hosts.isEmpty, let source = source as? any HostResolving else { return }
        for host in hosts { source.resolve(host) }
    }

    private func end(failure: ReachabilityError?) {
        let deliveries = guarded.withLock { guarded in
            guarded.phase = .ended
            let outcome = guarded.core.end(failure: failure, now: guarded.now.sinceBoot, wallTime: guarded.wallTime)
            return Deliveries(ending: outcome, &guarded, instruments)
        }
        deliveries.perform()
        cancelValidation()
    }
}

extension ReachabilityMonitor {
    /// A transition, and those who listen to it.
    struct News {
        var transition: Transition
        var listeners: [Listener]

        func tell() {
            for listener in listeners { listener.yield(transition) }
        }
    }

    /// What is to be told to whom beside ``Guarded/news(_:)``, collected under the lock and told after it.
    struct Deliveries {
        private var transitions: [News] = []
        private var finishedConditions: [ConditionStorage] = []
        private var health: [(MonitorHealth, [AsyncStream<MonitorHealth>.Continuation])] = []
        private var answer: (ValidationState.Answer?, [ValidationRequest]) = (nil, [])
        private var finished: [Listener] = []
        private var report: MonitorInstruments.Report?
        private let instruments: MonitorInstruments?
        private var finishedHealth: [AsyncStream<MonitorHealth>.Continuation] = []

        /// What a batch led to, after its transitions were told.
        ///
        /// Those who have just come get the state after it.
        init(_ outcome: MonitorCore.Outcome, _ guarded: inout Guarded, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            if instruments != nil { report = MonitorInstruments.Report(outcome, &guarded) }
            if let found = outcome.validation?.answer { answer = (found, guarded.validationRequests.removeAll()) }
            if guarded.broadcast.hasNewcomers {
                let (core, now, wallTime) = (guarded.core, guarded.now, guarded.wallTime)
                let admitted = guarded.broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }
                transitions = admitted.map(News.init)
            }
            let current = guarded.core.health
            if current != guarded.toldHealth {
                health.append((current, guarded.healthListeners.listeners(to: 0)))
                guarded.toldHealth = current
            }
            if guarded.healthListeners.hasNewcomers { health += guarded.healthListeners.admit { _ in current } }
        }

        /// What the end of the monitor leads to.
        init(ending outcome: MonitorCore.Outcome, _ guarded: inout Guarded, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            if instruments != nil { report = MonitorInstruments.Report(outcome, &guarded) }
            transitions = guarded.news(outcome)
            // Listeners that have had no baseline get one with the end.
            let (core, now, wallTime) = (guarded.core, guarded.now, guarded.wallTime)
            transitions += guarded.broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }.map(News.init)
            finished = guarded.broadcast.removeAll()
            let listeners = guarded.healthListeners.removeAll()
            health = [(guarded.core.health, listeners)]
            finishedHealth = listeners
            answer = (nil, guarded.validationRequests.removeAll())
            finishedConditions = Array(guarded.conditions.values) + [guarded.validatedCondition].compactMap(\.self)
            finishedConditions += guarded.holdings.values.map(\.storage)
            (guarded.conditions, guarded.holdings) = ([:], [:])
            guarded.validatedCondition = nil
        }

        func perform() {
            for storage in finishedConditions { storage.finish() }
            for news in transitions { news.tell() }
            for request in answer.1 {
                if let found = answer.0 { request.yield(found) }
                request.finish()
            }
            for (health, listeners) in health {
                for listener in listeners { listener.yield(health) }
            }
            for listener in finished { listener.finish() }
            for listener in finishedHealth { listener.finish() }
            if let report { instruments?.record(report) }
        }
    }
}

extension ReachabilityMonitor.Guarded {
    /// The transitions that somebody listens to.
    func news(_ outcome: MonitorCore.Outcome) -> [ReachabilityMonitor.News] {
        var news: [ReachabilityMonitor.News] = []
        // Most transitions have no listener: each is made for raw streams and damped ones.
        for telling in outcome.transitions where broadcast.hasListeners(to: telling.key) {
            news.append(ReachabilityMonitor.News(transition: telling.transition, listeners: broadcast.listeners(to: telling.key)))
        }
        return news
    }

    /// A condition that somebody has, and what became of it.
    struct ConditionChange {
        var storage: ConditionStorage
        var state: Condition.State
        var isUnsteady = false
        var wasRequested = false
    }

    /// The conditions that changed, of those that somebody has.
    mutating func changes(_ settlement: MonitorCore.Settlement, _ answers: MonitorCore.Answers) -> [ConditionChange] {
        var changes: [ConditionChange] = []
        if core.isValidating, let state = core.validation?.takeCondition(), let validatedCondition {
            changes.append(ConditionChange(storage: validatedCondition, state: state))
        }
        changes += holdingChanges()
        if conditions.isEmpty { return changes }
        var steadied = settlement.steadied
        for entry in settlement.entries {
            let scope = answers.paths[entry.position].scope
            let becameSteady = !steadied.isEmpty && steadied.remove(scope) != nil
            guard entry.observation.conditionChanged || entry.wasRequested || becameSteady, let storage = conditions[scope] else {
                continue
            }
            changes.append(
                ConditionChange(
                    storage: storage, state: entry.observation.state, isUnsteady: entry.isUnsteady,
                    wasRequested: entry.wasRequested))
        }
        for scope in steadied {
            guard let storage = conditions[scope] else { continue }
            changes.append(ConditionChange(storage: storage, state: core.condition(scope)))
        }
        return changes
    }
}

#if ServiceLifecycle
extension ReachabilityMonitor: Service {}
#endif
