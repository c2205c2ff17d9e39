import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// The behavior of a scripted attempt: it takes a while, then it fails or succeeds.
struct Act: Sendable {
    var takes: Duration = .milliseconds(100)
    var error: (any Error)?

    static func ok(after duration: Duration = .milliseconds(100)) -> Act { Act(takes: duration) }

    static func fails(_ error: any Error = Trouble.other, after duration: Duration = .milliseconds(100)) -> Act {
        Act(takes: duration, error: error)
    }
}

/// Errors of operations under test.
enum Trouble: Error, Hashable {
    case other
    case busy(retryAfter: Duration?)
    case unreachable
    case unanswered
    case refused
    case timedOut
    case noNameServer

    /// Returns a policy that classifies these errors.
    static func classified(_ policy: RetryPolicy) -> RetryPolicy {
        policy.classify { error in
            guard case .busy(let delay) = error as? Trouble else { return nil }
            return .overload(retryAfter: delay)
        }.errno { error in
            switch error as? Trouble {
            case .unreachable: 101
            case .unanswered: 113
            case .refused: 111
            case .timedOut: 110
            default: nil
            }
        }
    }
}

/// Runs jobs on a bus over a simulated network in virtual time, one thing at a time.
///
/// All tasks of a moment settle before the next moment.
final class Scenario: Sendable {
    struct Log {
        var starts: [String: [Duration]] = [:]
        var results: [String: (at: Duration, outcome: String)] = [:]
    }

    let world: TestWorld
    let log = Mutex(Log())

    var clock: ManualClock { world.clock.manual }
    var network: SimulatedNetwork { world.network }
    var monitor: ReachabilityMonitor { world.monitor }
    var bus: RetryBus { world.bus }

    init(
        online: Bool = true, seed: UInt64 = 1, auditInterval: Duration? = nil, release: ReleasePolicy = .unjittered,
        maxConcurrent: Int? = nil, validator: (any PathValidator)? = nil,
        source: (SimulatedNetwork) -> any NetworkSource = { $0 }
    ) {
        let network = SimulatedNetwork.online()
        if !online { try? network.pull("eth0") }
        var configuration = ReachabilityMonitor.Configuration()
        configuration.auditInterval = auditInterval
        configuration.auditIntervalWhileUnsatisfied = auditInterval
        configuration.validator = validator
        var busConfiguration = RetryBus.Configuration()
        busConfiguration.releasePolicy = release
        (busConfiguration.maxConcurrent, busConfiguration.maxConcurrentPerDestination) = (maxConcurrent, maxConcurrent)
        world = TestWorld(
            network, monitorConfiguration: configuration, busConfiguration: busConfiguration,
            generator: SeededGenerator(seed: seed), source: source)
    }

    /// Runs the monitor during the body.
    func run(_ body: @Sendable (Scenario) async throws -> Void) async throws {
        try await world.run { _ in try await body(self) }
    }

    /// Submits a job with scripted attempts; the last act repeats.
    @discardableResult
    func submit(
        _ id: String, _ policy: RetryPolicy, to scope: Scope = .internet, when conditions: [Condition] = [], _ acts: Act...
    ) async -> Task<Void, Never> {
        await submit(id, policy, to: scope, when: conditions, acts: acts)
    }

    @discardableResult
    func submit(
        _ id: String, _ policy: RetryPolicy, to scope: Scope = .internet, when conditions: [Condition] = [], acts: [Act]
    ) async -> Task<Void, Never> {
        await submit(id, policy, to: scope, when: conditions) { number, _ in acts[min(number, acts.count) - 1] }
    }

    /// Submits a job to a server that is unreachable until a moment, although the path is satisfied.
    func submit(
        _ id: String, _ policy: RetryPolicy, reachedFrom time: Duration, before act: Act = .fails(Trouble.unreachable)
    ) async {
        await submit(id, policy, to: .internet, when: []) { _, now in now < time ? act : .ok() }
    }

    @discardableResult
    private func submit(
        _ id: String, _ policy: RetryPolicy, to scope: Scope, when conditions: [Condition],
        _ act: @escaping @Sendable (_ number: Int, _ now: Duration) -> Act
    ) async -> Task<Void, Never> {
        let clock = clock
        let task = world.start { [self] in
            var outcome = "ok"
            do {
                try await bus.retry(policy, to: scope, options: JobOptions(when: conditions, id: JobID(id))) { attempt in
                    let act = act(attempt.number, clock.now.offset)
                    log.withLock { $0.starts[id, default: []].append(clock.now.offset) }
                    try await clock.sleep(for: act.takes)
                    if let error = act.error { throw error }
                }
            } catch {
                outcome = "\(error)"
            }
            log.withLock { $0.results[id] = (clock.now.offset, outcome) }
        }
        await settle()
        return task
    }

    func settle() async { await world.settle() }

    func advance(to time: Duration) async { await world.clock.advance(to: .init(offset: time)) }

    /// Advances the time, then runs the body.
    func at(_ time: Duration, _ change: (SimulatedNetwork) throws -> Void) async throws {
        await advance(to: time)
        try change(network)
        await settle()
    }

    /// Pulls the cable and puts it back in.
    func reconnect(at time: Duration) async throws {
        try await at(time) { network in
            try network.pull("eth0")
            try network.plug("eth0")
        }
    }

    /// Starts a task that ``letPass(until:)`` and ``settle()`` take into account.
    func start<Value: Sendable>(_ operation: @escaping @Sendable () async throws -> Value) -> Task<Value, any Error> {
        world.start(operation)
    }

    func start<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
        world.start(operation)
    }

    /// Advances the time until a task of this scenario ends.
    func letPass<Value, Failure>(until task: Task<Value, Failure>) async {
        let isOver = Atomic(false)
        let waiting = world.start {
            _ = await task.result
            isOver.store(true, ordering: .releasing)
        }
        await settle()
        while !isOver.load(ordering: .acquiring), let next = clock.nextDeadline { await world.clock.advance(to: next) }
        await waiting.value
    }

    /// The start times of the job's attempts, in seconds, rounded to milliseconds.
    func starts(_ id: String) -> [Double] { log.withLock { $0.starts[id] ?? [] }.map(Self.seconds) }

    func result(_ id: String) -> String? { log.withLock { $0.results[id]?.outcome } }

    func ended(_ id: String) -> Double? { log.withLock { $0.results[id]?.at }.map(Self.seconds) }

    private static func seconds(_ time: Duration) -> Double { (time / .milliseconds(1)).rounded() / 1000 }
}

extension ReleasePolicy {
    /// The gate of the scenarios: 1, 2, 4, 5… seconds without jitter.
    static var unjittered: ReleasePolicy {
        tuned(backoff: .seconds(1), jitter: false)
    }
}

extension RetryPolicy {
    /// The policy of the scenarios: 1, 2, 4, 8… seconds without jitter, four attempts.
    static let scenario = Trouble.classified(
        RetryPolicy(.exponential(initial: .seconds(1), multiplier: 2)).giveUpAfter(maxAttempts: 4))
}
