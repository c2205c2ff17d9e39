internal import Synchronization

#if ServiceLifecycle
public import ServiceLifecycle
#endif

/// Monitors whether this machine can reach the network, or an address, and publishes every change.
///
/// ```swift
/// let monitor = ReachabilityMonitor.shared
/// for await transition in monitor.transitions {
///     print(transition.current.status, transition.cause)
/// }
/// ```
///
/// A monitor looks up routes in the kernel's forwarding table (RTM_GETROUTE, rtnetlink(7)) whenever an event suggests that the
/// result may have changed. It sends no packets, unless it has a ``PathValidator``. All members are safe to use from any thread.
/// One thread publishes all transitions, in order.
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
        /// Before a call of `run()` that is sure to come.
        case expected
        case running
        case ended
    }

    struct State {
        var core: MonitorCore
        var phase = Phase.idle
        var broadcast = Broadcast<StreamKey, Listener>()
        var conditions: [Scope: ConditionStorage] = [:]
        var heldAddresses: [IPAddress: HeldAddress] = [:]
        /// The condition of a validated internet, once it was asked for.
        var validatedCondition: ConditionStorage?
        /// The callers that wait for a validation.
        var validationRequests = Broadcast<Int, ValidationRequest>()
        /// The validation that was started last.
        var validation: Task<Void, Never>?
        var healthListeners = Broadcast<Int, AsyncStream<MonitorHealth>.Continuation>()
        /// The health that was published last.
        var publishedHealth = MonitorHealth()
        /// The source's time as of the last batch.
        var now = BootInstant(sinceBoot: .zero)
        /// The time of day as of the last batch.
        var wallTime: Duration = .zero
        var deliveryCount: UInt64 = 0
        /// The outage that the instruments measure.
        var outage = OutageTimer()
        /// The state of the internet that the instruments reported last.
        var reportedOnline: Bool?
    }

    let source: any NetworkSource
    /// The source, if it runs tasks: looked up once, because it is called between a verdict and the tasks that wait for it.
    private let taskRunner: (any TaskRunningSource)?
    let configuration: Configuration
    let evaluator: PathEvaluator
    let instruments: MonitorInstruments?
    let state: Mutex<State>

    /// The monitor of this machine, in the network namespace of the thread that uses it first.
    ///
    /// It starts on first use and runs until the process ends. If it cannot run (no netlink), its path is `unknown` and
    /// ``health`` names the reason. Libraries take a monitor as a parameter instead of using this one, so that tests can replace
    /// it.
    public static let shared: ReachabilityMonitor = {
        let monitor = ReachabilityMonitor()
        monitor.expectRun()
        Task.detached { try? await monitor.run() }
        return monitor
    }()

    /// Makes a monitor; nothing happens before ``run()``.
    ///
    /// - Parameters:
    ///   - source: the source of events; by default the kernel, in the current network namespace.
    ///   - configuration: the limits, intervals and instruments.
    public init(_ source: some NetworkSource = KernelNetwork(), configuration: Configuration = .init()) {
        self.source = source
        taskRunner = source as? any TaskRunningSource
        self.configuration = configuration
        let core = MonitorCore(configuration, resolvesHosts: source.answersHosts)
        evaluator = core.evaluator
        instruments = MonitorInstruments(configuration)
        state = Mutex(State(core: core))
    }

    deinit {
        // Never run: finish its streams so that listeners do not hang.
        let (listeners, healthListeners) = state.withLock { state in
            state.phase = .ended
            return (state.broadcast.removeAll(), state.healthListeners.removeAll())
        }
        for listener in listeners { listener.finish() }
        for listener in healthListeners { listener.finish() }
    }

    /// Runs the monitor until the task is cancelled, or, with the trait `ServiceLifecycle`, shut down gracefully.
    ///
    /// Call it once.
    ///
    /// When it ends, for whatever reason, streams publish an unknown path and finish, conditions finish, and ``path`` is
    /// `unknown`.
    ///
    /// - Throws: ``ReachabilityError`` if the source fails or the monitor was run before. Cancellation is a normal end.
    public func run() async throws {
        try state.withLock { state throws(ReachabilityError) in
            switch state.phase {
            case .idle, .expected: state.phase = .running
            case .running, .ended: throw ReachabilityError(.alreadyRun, operation: "ReachabilityMonitor.run()")
            }
        }
        try await cancelledByShutdown { try await self.work() }
    }

    private func work() async throws {
        if let destinations = state.withLock({ $0.core.takeNewDestinations() }) { watch(destinations) }
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
    public var path: NetworkPath { state.withLock { $0.core.path(.internet) ?? .unknown } }

    /// The progress of a monitor, for callers that wait for its first verdict.
    package enum Stage: Sendable {
        /// Not running.
        case idle
        /// Running or about to run, before the first verdict.
        case starting
        /// Running, after the first verdict.
        case live
        /// Ended.
        case ended
    }

    /// Announces a call of ``run()``, so that early callers wait for it.
    package func expectRun() {
        state.withLock { state in
            if state.phase == .idle { state.phase = .expected }
        }
    }

    package var stage: Stage {
        state.withLock { state in
            switch state.phase {
            case .idle: .idle
            case .expected: .starting
            case .running: state.core.hasVerdict ? .live : .starting
            case .ended: .ended
            }
        }
    }

    /// The number of delivered batches: an answer from before the last one may be out of date.
    package var deliveryCount: UInt64 { state.withLock(\.deliveryCount) }

    /// The clock of the source; `nil` if its time is the machine's.
    package var clock: (any Clock<Duration>)? { (source as? any ClockedSource)?.sourceClock }

    /// Has the source's thread deliver a batch soon; ``deliveryCount`` shows that it has.
    package func requestDelivery() { source.wake() }

    /// The numbers of the kernel's events since the start.
    package var eventCounts: EventCounts { state.withLock(\.core.events) }

    /// The counters of the monitor, and the way in which it learns about changes.
    public var health: MonitorHealth { state.withLock(\.core.health) }

    // MARK: - The source's thread

    /// Evaluates a batch and publishes the changes.
    ///
    /// Called serially by the source. Conditions come first, before details are read and words are made: a job that waits for the
    /// network is worth more than a line that reports it.
    ///
    /// - Returns: the time until the monitor wants an empty batch.
    func deliver(_ batch: NetworkEventBatch) -> Duration? {
        var evaluation = state.withLock { state in
            state.now = batch.now
            state.wallTime = batch.wallTime
            state.deliveryCount &+= 1
            return state.core.begin(batch)
        }
        // Before the lookups: the source must announce changes that follow them.
        if let destinations = evaluation.destinations { watch(destinations) }
        lookUp(&evaluation)
        let changes = state.withLock { state in
            state.core.applyVerdicts(to: &evaluation)
            return state.conditionChanges(evaluation)
        }
        for change in changes {
            change.storage.replace(change.state, isUnsteady: change.isUnsteady, wasRequested: change.wasRequested)
        }
        if !changes.isEmpty { taskRunner?.runTasks() }
        readDetails(&evaluation)
        let deliveries = state.withLock { state in
            state.core.finish(&evaluation)
            return Deliveries(evaluation, &state, instruments)
        }
        deliveries.perform()
        if let validation = evaluation.validation { perform(validation) }
        resolve(evaluation.hosts)
        if let gateways = evaluation.gateways { (source as? any UnderlaySource)?.watch(gateways: gateways) }
        if !evaluation.bridged.isEmpty {
            inspectPorts(&evaluation)
            state.withLock { $0.core.notePorts(of: &evaluation) }
        }
        return evaluation.wait
    }

    private func watch(_ addresses: Set<IPAddress>) { (source as? any FilteringSource)?.watch(addresses) }

    private func resolve(_ hosts: [String]) {
        guard !hosts.isEmpty, let source = source as? any HostResolving else { return }
        for host in hosts { source.resolve(host) }
    }

    private func end(failure: ReachabilityError?) {
        let deliveries = state.withLock { state in
            state.phase = .ended
            let transitions = state.core.end(failure: failure, now: state.now.sinceBoot, wallTime: state.wallTime)
            return Deliveries(ending: transitions, &state, instruments)
        }
        deliveries.perform()
        cancelValidation()
    }
}

extension ReachabilityMonitor {
    /// The messages to listeners, collected under the lock and delivered after it.
    fileprivate struct Deliveries {
        // A struct, because the runtime copies and destroys tuples in arrays field by field.
        struct Delivery {
            var transition: Transition
            var listeners: [Listener]
        }

        private var transitions: [Delivery]
        private var finishedConditions: [ConditionStorage] = []
        private var health: [(MonitorHealth, [AsyncStream<MonitorHealth>.Continuation])] = []
        private var answer: (ValidationState.Answer?, [ValidationRequest]) = (nil, [])
        private var finished: [Listener] = []
        private var finishedHealth: [AsyncStream<MonitorHealth>.Continuation] = []
        private var report: MonitorInstruments.Report?
        private let instruments: MonitorInstruments?

        /// Collects the messages that follow from an evaluation; new listeners get the state after it.
        init(_ evaluation: Evaluation, _ state: inout State, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            transitions = state.deliveries(evaluation.transitions)
            if instruments != nil { report = MonitorInstruments.Report(evaluation.transitions, &state) }
            if let found = evaluation.validation?.answer { answer = (found, state.validationRequests.removeAll()) }
            if state.broadcast.hasNewcomers { transitions += state.baselines() }
            let current = state.core.health
            if current != state.publishedHealth {
                health.append((current, state.healthListeners.listeners(to: 0)))
                state.publishedHealth = current
            }
            if state.healthListeners.hasNewcomers { health += state.healthListeners.admit { _ in current } }
        }

        /// Collects the last messages.
        init(ending last: [StreamTransition], _ state: inout State, _ instruments: MonitorInstruments?) {
            self.instruments = instruments
            if instruments != nil { report = MonitorInstruments.Report(last, &state) }
            // Listeners without a baseline get one with the end.
            transitions = state.deliveries(last) + state.baselines()
            finished = state.broadcast.removeAll()
            finishedHealth = state.healthListeners.removeAll()
            health = [(state.core.health, finishedHealth)]
            answer = (nil, state.validationRequests.removeAll())
            finishedConditions = Array(state.conditions.values) + [state.validatedCondition].compactMap(\.self)
            finishedConditions += state.heldAddresses.values.map(\.storage)
            (state.conditions, state.heldAddresses) = ([:], [:])
            state.validatedCondition = nil
        }

        func perform() {
            for storage in finishedConditions { storage.finish() }
            for delivery in transitions {
                for listener in delivery.listeners { listener.yield(delivery.transition) }
            }
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

extension ReachabilityMonitor.State {
    /// Returns the transitions that have listeners.
    fileprivate func deliveries(_ transitions: [StreamTransition]) -> [ReachabilityMonitor.Deliveries.Delivery] {
        var deliveries: [ReachabilityMonitor.Deliveries.Delivery] = []
        // Most transitions have no listener: each is made for raw streams and damped ones.
        for entry in transitions where broadcast.hasListeners(to: entry.key) {
            deliveries.append(.init(transition: entry.transition, listeners: broadcast.listeners(to: entry.key)))
        }
        return deliveries
    }

    /// Admits new listeners and returns their baselines.
    fileprivate mutating func baselines() -> [ReachabilityMonitor.Deliveries.Delivery] {
        let (core, now, wallTime) = (core, now, wallTime)
        return broadcast.admit { core.baseline($0, now: now, wallTime: wallTime) }.map { .init(transition: $0, listeners: $1) }
    }

    /// The new state of a condition.
    struct ConditionChange {
        var storage: ConditionStorage
        var state: Condition.State
        var isUnsteady = false
        var wasRequested = false
    }

    /// Returns the changes of the conditions that are in use.
    fileprivate mutating func conditionChanges(_ evaluation: Evaluation) -> [ConditionChange] {
        var changes: [ConditionChange] = []
        if core.isValidating, let state = core.validation?.takeCondition(), let validatedCondition {
            changes.append(ConditionChange(storage: validatedCondition, state: state))
        }
        changes += heldAddressChanges()
        if conditions.isEmpty { return changes }
        var steadied = evaluation.steadied
        for position in evaluation.scopes.indices {
            guard let change = evaluation.scopes[position].change else { continue }
            let scope = evaluation.scopes[position].scope
            let becameSteady = !steadied.isEmpty && steadied.remove(scope) != nil
            guard change.conditionChanged || change.wasRequested || becameSteady, let storage = conditions[scope] else { continue }
            changes.append(
                ConditionChange(
                    storage: storage, state: change.state, isUnsteady: change.isUnsteady, wasRequested: change.wasRequested))
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
