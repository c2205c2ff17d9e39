import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry

/// A herd in virtual time, in one thread: the same seed does the same.
struct HerdSimulation {
    /// The clients of a reconnect and their server.
    struct Setup {
        var hosts = 1
        var jobsPerHost: Int
        /// The time for which the path is satisfied and leads nowhere.
        var lag = Duration.zero
        /// Requests a second.
        var rate = 100
        /// The number of requests that the server accepts.
        var room: Int
        /// The time that a client waits for an answer.
        var timeout = Duration.seconds(2)
        /// The end of the measurement after the edge.
        var limit = Duration.seconds(1000)
        var seed: UInt64

        var jobs: Int { hosts * jobsPerHost }
    }

    /// A machine with a bus and a cable.
    private final class Host: Sendable {
        let network: SimulatedNetwork
        let monitor: ReachabilityMonitor
        let bus: RetryBus
        let queue: JobQueue

        init(_ clock: ManualClock, _ configuration: RetryBus.Configuration, seed: UInt64) {
            network = SimulatedNetwork.online(clock: clock)
            monitor = ReachabilityMonitor(network)
            bus = RetryBus(monitor, configuration: configuration, clock: clock, generator: SeededGenerator(seed: seed))
            queue = JobQueue(MemoryStore(clock: clock), bus: bus)
        }
    }

    /// A stored job.
    private struct StoredJob: JobParameters {
        static let jobName = "herd"
        var options: DurableOptions { DurableOptions(destination: "server") }
    }

    /// The offline time before the edge.
    private static let offlineTime = Duration.seconds(10)
    /// The duration of an attempt that leads nowhere.
    private static let wayToNowhere = Duration.milliseconds(100)

    private let setup: Setup
    private let priority: JobPriority
    private let isStored: Bool
    private let clock = ManualClock()
    private let executor = HerdExecutor()
    private let server: HerdServer
    private let log = HerdLog()
    private let hosts: [Host]
    private let policy = HerdFailure.classified(
        RetryPolicy(.exponential(initial: .milliseconds(500), multiplier: 2, maximum: .seconds(60)).jitter(.full))
            .giveUpAfter(maxAttempts: nil))

    /// - Parameter isStored: True if the jobs are in a store from which a worker claims them; their priority is then normal.
    init(_ setup: Setup, _ release: ReleasePolicy, priority: JobPriority, isStored: Bool) {
        (self.setup, self.priority, self.isStored) = (setup, priority, isStored)
        server = HerdServer(rate: setup.rate, room: setup.room)
        var configuration = RetryBus.Configuration()
        configuration.releasePolicy = release
        // The listener runs between the steps, not beside them: nothing may be dropped until then.
        configuration.bufferedEvents = 1_000_000
        configuration.executor = executor
        var seeds = SeededGenerator(seed: setup.seed)
        hosts = (0..<setup.hosts).map { [clock] _ in Host(clock, configuration, seed: seeds.next()) }
    }

    func run() throws -> HerdFigures {
        let monitors = hosts.map { host in Task(executorPreference: executor) { _ = try? await host.monitor.run() } }
        executor.drain()
        for host in hosts { try host.network.pull("eth0") }
        let listeners = hosts.map { [log] host in
            let events = host.bus.events
            return Task(executorPreference: executor) { for await event in events { log.note(event) } }
        }
        executor.drain()
        guard hosts.allSatisfy({ $0.monitor.path.status == .unsatisfied }) else { throw BenchError("the herd is not offline") }
        var jobs: [Task<Void, Never>] = []
        for host in hosts {
            if isStored { jobs.append(store(host)) }
            for _ in 0..<setup.jobsPerHost where !isStored { jobs.append(submit(host)) }
        }
        executor.drain()
        pass(until: Self.offlineTime)
        for host in hosts { try host.network.plug("eth0") }
        executor.drain()
        pass(until: Self.offlineTime + setup.limit)
        let entries = log.entries
        for task in jobs + monitors { task.cancel() }
        executor.drain()
        for task in listeners { task.cancel() }
        executor.drain()
        // What is left in a store is cut, too.
        for _ in 0..<(isStored ? log.entries.open : 0) { log.noteEnd(nil) }
        guard log.isOver else { throw BenchError("a job of the herd does not end when cancelled") }
        let edge = Self.offlineTime.nanoseconds
        return HerdFigures(
            entries, jobs: setup.jobs, edge: edge, open: edge + setup.lag.nanoseconds,
            ideal: Double(setup.jobs) / Double(setup.rate))
    }

    /// Lets time pass from one moment at which something happens to the next, until a time or the herd's end.
    private func pass(until end: Duration) {
        while !log.isOver, let next = clock.nextDeadline, next.offset <= end {
            clock.advance(to: next)
            executor.drain()
        }
        if !log.isOver { clock.advance(to: .init(offset: end)) }
        executor.drain()
    }

    private func submit(_ host: Host) -> Task<Void, Never> {
        log.noteSubmission()
        return Task(executorPreference: executor) {
            do {
                try await host.bus.retry(policy, options: JobOptions(destination: "server", priority: priority)) { _ in
                    try await attempt(host)
                }
                log.noteEnd(clock.now.offset.nanoseconds)
            } catch {
                log.noteEnd(nil)
            }
        }
    }

    /// Stores a host's jobs, and runs its worker.
    private func store(_ host: Host) -> Task<Void, Never> {
        host.queue.registerJob(parameters: StoredJob.self, policy: policy) { _, _ in
            try await attempt(host)
            log.noteEnd(clock.now.offset.nanoseconds)
        }
        for _ in 0..<setup.jobsPerHost { log.noteSubmission() }
        return Task(executorPreference: executor) {
            _ = try? await host.queue.push([StoredJob](repeating: StoredJob(), count: setup.jobsPerHost))
            await host.queue.run()
        }
    }

    private func attempt(_ host: Host) async throws {
        let now = clock.now.offset
        log.noteStart(at: now.nanoseconds, isOffline: host.monitor.path.status != .satisfied)
        guard now >= Self.offlineTime + setup.lag else {
            try await clock.sleep(for: Self.wayToNowhere)
            throw HerdFailure(failure: .network, start: now.nanoseconds)
        }
        switch server.arrive(at: now) {
        case .answered(let time) where time - now <= setup.timeout:
            try await clock.sleep(until: .init(offset: time))
        case .answered:
            try await clock.sleep(for: setup.timeout)
            throw HerdFailure(errno: 110, start: now.nanoseconds)
        case .refused:
            throw HerdFailure(failure: .overload(), start: now.nanoseconds)
        }
    }
}

extension Duration {
    /// Whole nanoseconds, as the log counts.
    fileprivate var nanoseconds: Int64 { components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000 }
}
