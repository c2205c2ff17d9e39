import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import TestSupport

/// A job whose options a test chooses.
struct Send: JobParameters {
    static let jobName = "send"
    var text: String
    var serialKey: String?
    var destination: String?
    var delay: Duration?
    var timeLimit: Duration?
    var address: String?
    var isRepeatable: Bool

    init(
        _ text: String, serialKey: String? = nil, destination: String? = nil, delay: Duration? = nil, timeLimit: Duration? = nil,
        address: String? = nil, isRepeatable: Bool = true
    ) {
        (self.text, self.serialKey, self.destination, self.address) = (text, serialKey, destination, address)
        (self.delay, self.timeLimit, self.isRepeatable) = (delay, timeLimit, isRepeatable)
    }

    var options: DurableOptions {
        let scope = address.flatMap { IPAddress($0) }.map(Scope.address) ?? .internet
        return DurableOptions(
            to: scope, destination: destination, delay: delay, timeLimit: timeLimit, serialKey: serialKey,
            isRepeatable: isRepeatable)
    }
}

/// A failure of an attempt.
struct Trouble: Error, CustomStringConvertible { var description = "on fire" }

/// A failure that is the network's.
struct Lost: Error {}

/// A server that asks for a delay.
struct Busy: Error {}

extension TestWorld {
    typealias Handler = @Sendable (TestWorld, String, DurableAttempt) async throws -> Void

    /// Runs a body in a world whose gates use no chance.
    static func gated(
        online: Bool = true, maxConcurrent: Int? = nil, release: ReleasePolicy = .exact,
        _ body: @escaping @Sendable (TestWorld) async throws -> Void
    ) async throws {
        var configuration = RetryBus.Configuration()
        (configuration.releasePolicy, configuration.maxConcurrent) = (release, maxConcurrent)
        try await TestWorld(busConfiguration: configuration).run { world in
            if !online { try world.network.pull("eth0") }
            try await body(world)
        }
    }

    /// Makes a queue for ``Send`` that notes its attempts.
    func queue(
        _ log: Recorder<String> = Recorder<String>(), on store: (any JobStore)? = nil, _ policy: RetryPolicy = .tests,
        conditions: [Condition] = [],
        maxConcurrent: Int? = nil, _ handler: @escaping Handler = { _, _, _ in }
    ) -> JobQueue {
        let queue = JobQueue(store ?? self.store, bus: bus)
        queue.registerJob(parameters: Send.self, policy: policy, conditions: conditions, maxConcurrent: maxConcurrent) {
            log.record("\($0.text) \($1.number)")
            try await handler(self, $0.text, $1)
        }
        return queue
    }

    /// Runs a queue in a world of its own while a body does.
    static func withQueue(
        online: Bool = true, places: Int? = nil, policy: RetryPolicy = .tests, conditions: [Condition] = [],
        maxConcurrent: Int? = nil, handler: @escaping Handler = { _, _, _ in },
        _ body: @escaping @Sendable (TestWorld, JobQueue, Recorder<String>) async throws -> Void
    ) async throws {
        try await gated(online: online, maxConcurrent: places) { world in
            let log = Recorder<String>()
            let queue = world.queue(log, policy, conditions: conditions, maxConcurrent: maxConcurrent, handler)
            try await world.running(queue) {
                await world.settle()
                try await body(world, queue, log)
            }
        }
    }

    /// Runs queues while a body does.
    func running(_ queues: JobQueue..., while body: () async throws -> Void) async throws {
        let runs = queues.map { queue in start { await queue.run() } }
        try await body()
        for run in runs {
            run.cancel()
            await run.value
        }
    }
}

extension RetryPolicy {
    /// Three attempts, 1 s and 2 s apart.
    static let tests = RetryPolicy.default.backoff(.exponential(initial: .seconds(1)).jitter(.none)).giveUpAfter(maxAttempts: 3)
        .classify { $0 is Busy ? .overload(retryAfter: .seconds(30)) : $0 is Lost ? .network : nil }
}

extension AsyncStream<JobQueueEvent> {
    /// Waits for the end of the queue; returns texts of its events.
    func texts(_ text: (JobQueueEvent.Kind) -> String?) async -> [String] {
        var texts: [String] = []
        for await event in self { if let text = text(event.kind) { texts.append(text) } }
        return texts
    }
}

extension JobQueue {
    /// The states of all jobs.
    var states: [DurableJob.State] { get async throws { try await jobs().map(\.state) } }
}
