import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization
import Testing

/// What an attempt of a scripted operation does: it takes a while, then it fails or succeeds.
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

    /// Tells the bus what they mean.
    static func classified(_ policy: RetryPolicy) -> RetryPolicy {
        policy.classify { error in
            guard case .busy(let delay) = error as? Trouble else { return nil }
            return .overload(retryAfter: delay)
        }.systemErrors { error in
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
/// What happens at a moment has settled before the next moment comes.
final class Scenario: Sendable {
    struct Log {
        var starts: [String: [Duration]] = [:]
        var results: [String: (at: Duration, outcome: String)] = [:]
        /// The attempts that have begun and not ended.
        var running = 0
        /// The jobs that have no result yet.
        var open = 0
    }

    let clock = ManualClock()
    let network: SimulatedNetwork
    let monitor: ReachabilityMonitor
    let bus: RetryBus
    let log = Mutex(Log())

    init(
        online: Bool = true, seed: UInt64 = 1, auditInterval: Duration? = nil, release: ReleasePolicy = .unjittered,
        validator: (any PathValidator)? = nil, source: (SimulatedNetwork) -> any NetworkSource = { $0 }
    ) {
        network = SimulatedNetwork.online(clock: clock)
        if !online { try? network.pull("eth0") }
        var configuration = ReachabilityMonitor.Configuration()
        configuration.auditInterval = auditInterval
        configuration.auditIntervalWhileUnsatisfied = auditInterval
        configuration.validator = validator
        monitor = ReachabilityMonitor(source(network), configuration: configuration)
        var busConfiguration = RetryBus.Configuration()
        busConfiguration.releasePolicy = release
        bus = RetryBus(monitor, configuration: busConfiguration, clock: clock, generator: SeededGenerator(seed: seed))
    }

    /// Runs the monitor while the body looks.
    func run(_ body: @Sendable (Scenario) async throws -> Void) async throws {
        let running = Task { [monitor] in try await monitor.run() }
        defer { running.cancel() }
        for await _ in monitor.transitions { break }
        try await body(self)
    }

    /// Submits a job whose attempts do what is written; the last act is repeated.
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

    /// Submits a job to a server that the network does not lead to before a moment, though the path is there.
    func submit(_ id: String, _ policy: RetryPolicy, reachedFrom time: Duration) async {
        await submit(id, policy, to: .internet, when: []) { _, now in now < time ? .fails(Trouble.unreachable) : .ok() }
    }

    @discardableResult
    private func submit(
        _ id: String, _ policy: RetryPolicy, to scope: Scope, when conditions: [Condition],
        _ act: @escaping @Sendable (_ number: Int, _ now: Duration) -> Act
    ) async -> Task<Void, Never> {
        let clock = clock
        log.withLock { $0.open += 1 }
        let task = Task { [self] in
            var outcome = "ok"
            do {
                try await bus.retry(policy, to: scope, when: conditions, id: JobID(id)) { attempt in
                    let act = act(attempt.number, clock.now.offset)
                    log.withLock { log in
                        log.starts[id, default: []].append(clock.now.offset)
                        log.running += 1
                    }
                    defer { log.withLock { $0.running -= 1 } }
                    try await clock.sleep(for: act.takes)
                    if let error = act.error { throw error }
                }
            } catch {
                outcome = "\(error)"
            }
            log.withLock { log in
                log.results[id] = (clock.now.offset, outcome)
                log.open -= 1
            }
        }
        await settle()
        return task
    }

    /// Suspends until every job waits in the bus, sleeps in an attempt, or has ended.
    func settle() async {
        while !isSettled { await Task.yield() }
    }

    private var isSettled: Bool {
        let sleepers = clock.sleepers
        let pending = bus.pending
        return bus.isQuiet && pending.count { $0.state == .running } == sleepers && clock.sleepers == sleepers
            && log.withLock { $0.running == sleepers && $0.open == pending.count }
    }

    /// Lets time pass until a moment, stopping at each at which something happens.
    func advance(to time: Duration) async {
        while let next = clock.nextDeadline, next.offset <= time {
            clock.advance(to: next)
            await settle()
        }
        clock.advance(to: .init(offset: time))
        await settle()
    }

    /// Lets time pass, and then something happen.
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

    /// Lets time pass for a job that this scenario did not submit, until its task is over.
    func letPass<Value>(until task: Task<Value, any Error>) async {
        let isOver = Flag()
        Task {
            _ = try? await task.value
            isOver.value.store(true, ordering: .releasing)
        }
        while !isOver.value.load(ordering: .acquiring) {
            if bus.isQuiet, let next = clock.nextDeadline, bus.pending.allSatisfy({ $0.state != .running }) {
                clock.advance(to: next)
            }
            await Task.yield()
        }
    }

    private final class Flag: Sendable {
        let value = Atomic(false)
    }

    /// When the job's attempts started, in seconds, to the millisecond.
    func starts(_ id: String) -> [Double] { log.withLock { $0.starts[id] ?? [] }.map(Self.seconds) }

    func result(_ id: String) -> String? { log.withLock { $0.results[id]?.outcome } }

    func ended(_ id: String) -> Double? { log.withLock { $0.results[id]?.at }.map(Self.seconds) }

    private static func seconds(_ time: Duration) -> Double { (time / .milliseconds(1)).rounded() / 1000 }
}

extension ReleasePolicy {
    /// The gate of the scenarios: 1, 2, 4, 5… seconds without jitter.
    static var unjittered: ReleasePolicy {
        var policy = gated(backoff: .seconds(1))
        policy.rules.isJittered = false
        return policy
    }
}

extension RetryPolicy {
    /// The policy of the scenarios: 1, 2, 4, 8… seconds without jitter, four attempts.
    static let scenario = Trouble.classified(
        RetryPolicy(.exponential(initial: .seconds(1), multiplier: 2)).giveUpAfter(maxAttempts: 4))
}
