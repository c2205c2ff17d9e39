import ArgumentParser
import CBench
import Dispatch
import Glibc
import Reachability
import ReachabilityTesting
import ReachableRetry
import Synchronization

/// The command `bench crowd`.
struct CrowdCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "crowd",
        abstract: "What many jobs that wait for the network cost: memory, a loss, a reconnect, and the first job after it.")

    @Option(help: "The numbers of jobs, separated by commas.")
    var jobs = "1000,10000,100000"

    @Option(help: "How many reconnects are measured for each number.")
    var rounds = 21

    func run() throws {
        let (isOver, outcome) = (DispatchSemaphore(value: 0), Outcome())
        let counts = jobs.split(separator: ",").compactMap { Int($0) }
        print("crowd: \(rounds) reconnects each, a simulated cable, the default release policy; medians\n")
        print(
            row([
                "waiting", "bytes of a job", "bytes of job and task beside a parked task", "loss µs", "reconnect µs",
                "first job after µs",
                "cancelling a job ns",
            ]))
        print("|---|---|---|---|---|---|---|")
        Task { [rounds] in
            do {
                for count in counts { try await Crowd(count, rounds).measure() }
            } catch {
                outcome.error.withLock { $0 = error }
            }
            isOver.signal()
        }
        isOver.wait()
        if let error = outcome.error.withLock(\.self) { throw error }
    }

    private final class Outcome: Sendable {
        let error = Mutex<(any Error)?>(nil)
    }
}

/// Tasks that wait for nothing.
private final class Parked: Sendable {
    private let continuations = Mutex<[UnsafeContinuation<Void, Never>]>([])

    var all: [UnsafeContinuation<Void, Never>] { continuations.withLock(\.self) }

    func add(_ continuation: UnsafeContinuation<Void, Never>) { continuations.withLock { $0.append(continuation) } }
}

/// Jobs that wait on one cable.
private final class Crowd: Sendable {
    private let count: Int
    private let rounds: Int
    private let network = SimulatedNetwork.online()
    private let started = Atomic<Int64>(0)

    init(_ count: Int, _ rounds: Int) {
        self.count = count
        self.rounds = rounds
    }

    func measure() async throws {
        let monitor = ReachabilityMonitor(network)
        let running = Task { try await monitor.run() }
        try await network.untilRunning()
        let bus = RetryBus(monitor, clock: ContinuousClock())
        try network.pull("eth0")
        let job = try await Self.bytesOfJobs(count, monitor)
        let bare = try await Self.bytesOfParkedTasks(count)
        let before = Self.residentBytes()
        let tasks = submit(to: bus)
        let bytes = (Self.residentBytes() - before) / Double(count) - bare
        var (losses, returns, firsts): ([Double], [Double], [Double]) = ([], [], [])
        for _ in 0..<rounds {
            started.store(0, ordering: .sequentiallyConsistent)
            let start = bench_now()
            try network.plug("eth0")
            returns.append(Double(bench_now() - start) / 1000)
            while started.load(ordering: .acquiring) == 0 { sched_yield() }
            firsts.append(Double(started.load(ordering: .acquiring) - start) / 1000)
            let end = bench_now()
            try network.pull("eth0")
            losses.append(Double(bench_now() - end) / 1000)
        }
        let start = bench_now()
        for task in tasks { task.cancel() }
        let cancelling = Double(bench_now() - start) / Double(count)
        for task in tasks { _ = try? await task.value }
        running.cancel()
        _ = try? await running.value
        print(
            row([
                "\(count)", decimal(job, 0), decimal(bytes, 0), decimal(median(losses), 1), decimal(median(returns), 1),
                decimal(median(firsts), 1),
                decimal(cancelling, 0),
            ]))
    }

    /// Jobs whose attempts note when they start, and last until the cable is pulled again.
    ///
    /// All of them wait when this returns: the network is away, and an immediate task runs until it suspends.
    ///
    /// Interactive ones, for the others wait for a while if there are many reconnects in a row.
    private func submit(to bus: RetryBus) -> [Task<Void, any Error>] {
        let policy = RetryPolicy.default.interruptsAttempt(.whenUnsatisfied(grace: .zero))
        return (0..<count).map { _ in
            Task.immediate {
                try await bus.retry(policy, options: JobOptions(priority: .interactive)) { [self] _ in
                    _ = started.compareExchange(expected: 0, desired: bench_now(), ordering: .acquiringAndReleasing)
                    try await Task.sleep(for: .seconds(3600))
                }
            }
        }
    }

    /// The cost of a submitted job, which has no task before it may start.
    private static func bytesOfJobs(_ count: Int, _ monitor: ReachabilityMonitor) async throws -> Double {
        bench_release_memory()
        let bus = RetryBus(monitor, clock: ContinuousClock())
        let job = bus.job { _ in }
        let before = residentBytes()
        for _ in 0..<count { try job.submit(detached: true) }
        let bytes = (residentBytes() - before) / Double(count)
        await bus.shutdown(drain: .zero)
        bench_release_memory()
        return bytes
    }

    /// The cost of a task that only waits.
    private static func bytesOfParkedTasks(_ count: Int) async throws -> Double {
        let before = residentBytes()
        let parked = Parked()
        // Like those of the jobs they run until they suspend, so that all of them are parked now.
        let tasks = (0..<count).map { _ in Task.immediate { await withUnsafeContinuation { parked.add($0) } } }
        let bytes = (residentBytes() - before) / Double(count)
        for continuation in parked.all { continuation.resume() }
        for task in tasks { await task.value }
        bench_release_memory()
        return bytes
    }

    private static func residentBytes() -> Double { memoryHeld(by: "self").now * 1024 * 1024 }
}
