import InMemoryLogging
import Logging
import MetricsTestKit
import Reachability
import ReachabilityTesting
import ReachableRetry

/// A monitor and a bus over a simulated network, in virtual time, with instruments that remember.
struct Bench: Sendable {
    let clock = ManualClock()
    let network: SimulatedNetwork
    let monitor: ReachabilityMonitor
    let bus: RetryBus
    let metrics = TestMetrics()
    let log = InMemoryLogHandler()

    init(
        online: Bool = true, level: Logger.Level = .trace, _ configure: (inout RetryBus.Configuration) -> Void = { _ in }
    ) throws {
        network = SimulatedNetwork.online(clock: clock)
        if !online { try network.pull("eth0") }
        var logger = Logger(label: "test") { [log] _ in log }
        logger.logLevel = level
        var watching = ReachabilityMonitor.Configuration()
        (watching.logger, watching.metrics) = (logger, metrics)
        monitor = ReachabilityMonitor(network, configuration: watching)
        var retrying = RetryBus.Configuration()
        (retrying.logger, retrying.metrics) = (logger, metrics)
        configure(&retrying)
        bus = RetryBus(monitor, configuration: retrying, clock: clock)
    }

    /// Runs the monitor while the body looks.
    func run(_ body: (Bench) async throws -> Void) async throws {
        let running = Task { [monitor] in try await monitor.run() }
        try await network.untilRunning()
        try await body(self)
        running.cancel()
        try await running.value
    }

    /// Submits a job that fails with these errors, one after the other, and then succeeds; returns when it waits.
    func submitWaiting(
        _ id: JobID, _ policy: RetryPolicy = .steady, to scope: Scope = .internet, when conditions: [Condition] = [],
        failing errors: any Error...
    ) async throws -> Task<Void, any Error> {
        let job = submit(id, policy, to: scope, when: conditions, failing: errors)
        try await bus.parked(id)
        return job
    }

    func submit(
        _ id: JobID, _ policy: RetryPolicy = .steady, to scope: Scope = .internet, when conditions: [Condition] = [],
        failing errors: [any Error]
    ) -> Task<Void, any Error> {
        Task {
            try await bus.retry(policy, to: scope, options: JobOptions(destination: "server", when: conditions, id: id)) {
                attempt in
                if attempt.number <= errors.count { throw errors[attempt.number - 1] }
            }
        }
    }

    /// Returns the total of a counter.
    func count(_ label: String, _ dimensions: (String, String)...) throws -> Int64 {
        try metrics.expectCounter(label, dimensions).totalValue
    }

    /// Returns the recorded values of a timer, in seconds.
    func seconds(_ label: String) throws -> [Double] {
        let timer = try metrics.expectTimer(label)
        return timer.values.indices.map(timer.valueInPreferredUnit)
    }

    /// Returns the log entries of one subject, by the prefix of its keys.
    func entries(_ prefix: String) -> [InMemoryLogHandler.Entry] {
        log.entries.filter { entry in entry.metadata.keys.contains { $0.hasPrefix(prefix) } }
    }
}

enum Trouble: Error {
    case other
    case busy
    case refused
    case hopeless
}

extension RetryPolicy {
    /// A minute between attempts.
    static let steady = RetryPolicy(.constant(.seconds(60))).giveUpAfter(maxAttempts: 3)
        .giveUpOnErrors { $0 as? Trouble == .hopeless }
        .classify { $0 as? Trouble == .busy ? .overload(retryAfter: .seconds(30)) : nil }
        .errno { $0 as? Trouble == .refused ? 111 : nil }
}
