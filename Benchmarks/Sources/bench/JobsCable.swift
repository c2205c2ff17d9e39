import CBench
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry
import Synchronization

/// A queue with many stored jobs for a host behind a real cable, which is pulled and plugged in.
final class JobsCable {
    private static let host = "198.51.100.1"
    /// The time for which jobs run after each reconnect, and the rest of a round: reconnects in a quick row hold jobs back.
    private static let (run, rest): (UInt32, UInt32) = (500_000, 6_500_000)

    private let jobs: Int
    private let reconnects: Int
    private let network: Network

    /// Moves this process into a namespace whose cable is pulled.
    init(jobs: Int, reconnects: Int) throws {
        (self.jobs, self.reconnects) = (jobs, reconnects)
        network = try Network()
        try network.run("ip route add default via \(Network.gateway) dev \(Network.near)")
        try pull()
    }

    private func pull() throws { try network.runThere("ip link set \(Network.far) down") }

    private func plug() throws { try network.runThere("ip link set \(Network.far) up") }

    func measure(_ path: String) throws {
        let kernel = KernelNetwork()
        let monitor = ReachabilityMonitor(kernel)
        let monitoring = Task { try await monitor.run() }
        defer { monitoring.cancel() }
        let condition = monitor.condition(for: .host(Self.host))
        let log = CableLog()
        // On the thread that publishes the verdict.
        let listening = Task(executorPreference: kernel.executor) {
            for await state in condition.updates where state.isSatisfied { log.verdict.note() }
        }
        defer { listening.cancel() }
        let queue = JobQueue(try SQLiteStore(path: "\(path)/cable.db"), bus: RetryBus(monitor))
        queue.registerJob(parameters: NoOp.self) { _, _ in
            log.start.note()
            log.count.add(1, ordering: .relaxed)
        }
        let filling = try blocking { [jobs] in try await fill(queue, jobs) }
        bench_release_memory()
        let before = memoryHeld(by: "self").now
        try JobsMemory.resetPeak()
        let running = Task { await queue.run() }
        sleep(2)
        guard log.count.load(ordering: .relaxed) == 0 else { throw BenchError("a job has started without a cable") }
        let idle = memoryHeld(by: "self").peak - before
        var rounds: [CableRound] = []
        for _ in 0..<reconnects { rounds.append(try reconnect(log, condition)) }
        let grown = memoryHeld(by: "self").peak - before
        try blocking {
            await queue.shutdown()
            await running.value
        }
        report(rounds, filling: filling, idle: idle, grown: grown)
    }

    private func reconnect(_ log: CableLog, _ condition: Condition) throws -> CableRound {
        let done = log.count.load(ordering: .relaxed)
        log.clear()
        try plug()
        while !network.isReachable { usleep(50) }
        let edge = bench_now()
        let deadline = edge + 20_000_000_000
        while log.start.time == 0 || log.verdict.time == 0 {
            guard bench_now() < deadline else { throw BenchError("no job has started after a reconnect") }
            usleep(500)
        }
        usleep(Self.run)
        let ran = log.count.load(ordering: .relaxed) - done
        try pull()
        usleep(Self.rest)
        guard !condition.state.isSatisfied else { throw BenchError("the monitor has not noticed that the cable is pulled") }
        let start = log.start.time
        return CableRound(
            fromKernel: Double(start - edge) / 1e6, fromVerdict: Double(start - log.verdict.time) / 1e6,
            perSecond: Double(ran) / (Double(Self.run) / 1e6))
    }

    private func report(_ rounds: [CableRound], filling: Double, idle: Double, grown: Double) {
        let (verdict, kernel) = (rounds.map(\.fromVerdict), rounds.map(\.fromKernel))
        print(row(["\(jobs) stored jobs, \(rounds.count) reconnects on a real cable", "median", "most", "goal", ""]))
        print("|---|---|---|---|---|")
        let first = median(verdict)
        print(
            row([
                "from the monitor's verdict to the first attempt, ms", decimal(first), decimal(verdict.max() ?? 0), "≤ 5 ms",
                first <= 5 ? "holds" : "MISSED",
            ]))
        print(row(["from the kernel's way to the first attempt, ms", decimal(median(kernel)), decimal(kernel.max() ?? 0), "", ""]))
        print(row(["attempts a second, in the first half second", decimal(median(rounds.map(\.perSecond)), 0), "", "", ""]))
        print(row(["memory of the worker before the first reconnect, MB", "", decimal(idle, 1), "", ""]))
        print(row(["memory of the worker in all, MB", "", decimal(grown, 1), "≤ 64 MB", grown <= 64 ? "holds" : "MISSED"]))
        print(row(["the pushes of all jobs in batches of 10 000, s", decimal(filling, 1), "", "", ""]))
        print("")
    }
}

/// Pushes jobs in large batches; returns the seconds.
private func fill(_ queue: JobQueue, _ count: Int) async throws -> Double {
    let job = NoOp(scope: .host("198.51.100.1"))
    let start = bench_now()
    for first in stride(from: 0, to: count, by: 10_000) {
        try await queue.push(Array(repeating: job, count: min(10_000, count - first)))
    }
    return Double(bench_now() - start) / 1e9
}

/// What a reconnect has shown: milliseconds until the first attempt, and attempts a second.
private struct CableRound {
    var fromKernel: Double
    var fromVerdict: Double
    var perSecond: Double
}

/// Times of one reconnect.
private final class CableLog: Sendable {
    /// The first time that something has happened; 0 if it has not.
    final class First: Sendable {
        private let value = Atomic<Int64>(0)

        var time: Int64 { value.load(ordering: .acquiring) }

        func note() {
            guard time == 0 else { return }
            _ = value.compareExchange(expected: 0, desired: bench_now(), ordering: .acquiringAndReleasing)
        }

        func clear() { value.store(0, ordering: .releasing) }
    }

    let verdict = First()
    let start = First()
    let count = Atomic<Int>(0)

    func clear() {
        verdict.clear()
        start.clear()
    }
}

/// The peak of this process's memory.
enum JobsMemory {
    /// Sets the peak to what is held now (proc_pid_clear_refs(5)).
    static func resetPeak() throws {
        let file = open("/proc/self/clear_refs", O_WRONLY)
        defer { close(file) }
        guard file >= 0, write(file, "5", 1) == 1 else { throw BenchError("the peak of memory cannot be reset") }
    }
}
