import ArgumentParser
import CBench
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry

/// Two processes with one store: the time from a push in one to the start in the other, and the wake-ups of an idle worker.
struct JobsProcesses {
    let store: any JobStore
    /// The file or the connection string.
    let place: String
    let rounds: Int
    /// The seconds for which an idle worker is watched.
    let idle: Int
    /// The most wake-ups in that time.
    let wakeUps: Int
    /// What these are.
    let are: String

    func measure() throws {
        let queue = JobQueue(store, bus: RetryBus(ReachabilityMonitor()))
        let worker = try Peer([Programs.built("bench"), "jobs-worker", place], hasStamps: true)
        print(row(["from a push in one process to the start in another", "median ms", "most ms", "goal", ""]))
        print("|---|---|---|---|---|")
        try measureStarts(queue, worker)
        print("")
        print(row(["an idle worker", "", "goal", ""]))
        print("|---|---|---|---|")
        try measureIdle(worker)
        print("")
    }

    private func measureStarts(_ queue: JobQueue, _ worker: Peer) throws {
        var (fromCall, fromCommit): ([Double], [Double]) = ([], [])
        for round in 0...rounds * 4 {
            usleep(UInt32.random(in: 20_000...80_000))
            let start = bench_now()
            let commit = try blocking {
                try await queue.push(NoOp())
                return bench_now()
            }
            let deadline = start + 10_000_000_000
            var stamp: Int64 = 0
            repeat {
                guard bench_now() < deadline else { throw BenchError("the other process has not started the job") }
                usleep(200)
                stamp = worker.firstStamp(since: start)
            } while stamp == 0
            // The first one waits for the process to start.
            if round == 0 { continue }
            fromCall.append(Double(stamp - start) / 1e6)
            fromCommit.append(Double(stamp - commit) / 1e6)
        }
        for (name, times) in [("from the call", fromCall), ("from its return", fromCommit)] {
            let middle = median(times)
            print(
                row([
                    name, decimal(middle), decimal(times.max() ?? 0), "median ≤ 100 ms", middle <= 100 ? "holds" : "MISSED",
                ]))
        }
    }

    /// Counts the moments at which a thread of the worker gave up its processor: each time it has been woken before.
    private func measureIdle(_ worker: Peer) throws {
        let interval: Int64 = 50_000_000
        // Threads of the pool end after 5 s without work.
        sleep(8)
        let (begin, work) = (bench_now(), worker.processorTime)
        var (last, bursts, lastBurst, switches) = (worker.switches, 0, Int64.min / 2, 0)
        let manager = worker.dispatchManager
        while bench_now() < begin + Int64(idle) * 1_000_000_000 {
            usleep(UInt32(interval / 1000))
            let (now, threads) = (bench_now(), worker.switches)
            let changed = threads.reduce(0) { sum, thread in
                thread.key == manager ? sum : sum + thread.value - (last[thread.key] ?? 0)
            }
            last = threads
            guard changed > 0 else { continue }
            switches += changed
            if now - lastBurst > 4 * interval { bursts += 1 }
            lastBurst = now
        }
        print(row(["wake-ups in \(idle) s", "\(bursts)", "≤ \(wakeUps), \(are)", bursts <= wakeUps ? "holds" : "MISSED"]))
        print(row(["switches of its threads at each", decimal(Double(switches) / Double(max(bursts, 1)), 1), "", ""]))
        print(row(["processor time in \(idle) s, ms", decimal((worker.processorTime - work) * 1000), "", ""]))
    }
}

/// The command `bench jobs-worker`: the other process.
struct JobsWorkerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs-worker", abstract: "A worker of another process, with stamps; started by `jobs`.", shouldDisplay: false)

    @Argument(help: "The store: a file, or a connection string of PostgreSQL.")
    var place: String

    func run() throws { try blocking { [place] in try await Self.work(place) } }

    private static func work(_ place: String) async throws {
        // Its audits are wake-ups, too, and not the worker's.
        var configuration = ReachabilityMonitor.Configuration()
        (configuration.auditInterval, configuration.auditIntervalWhileUnsatisfied) = (nil, nil)
        let monitor = ReachabilityMonitor(configuration: configuration)
        let monitoring = Task { try await monitor.run() }
        let bus = RetryBus(monitor)
        let store: any JobStore = try place.hasPrefix("/") ? SQLiteStore(path: place) : PostgreSQLStore(place, bus: bus)
        let queue = JobQueue(store, bus: bus)
        let stamps = JobsStamps()
        queue.registerJob(parameters: NoOp.self, policy: .default.connectivity(.ignore)) { _, _ in stamps.stamp() }
        await queue.run()
        monitoring.cancel()
    }
}

/// The stamps that this process shares with the driver.
private final class JobsStamps: Sendable {
    // The memory is mapped as long as the process lives, and only one job runs at a time where there are stamps.
    private nonisolated(unsafe) let stamps: OpaquePointer?

    /// Without stamps if nobody reads them.
    init() { stamps = getenv(BENCH_STAMPS_VARIABLE) == nil ? nil : bench_stamps_inherited() }

    func stamp() { if let stamps { bench_stamp(stamps) } }
}

extension Peer {
    /// The thread by which libdispatch waits for timers and descriptors.
    ///
    /// Once a second it also looks for threads that are blocked, in every program that has used the pool.
    fileprivate var dispatchManager: String? {
        switches.keys.filter { (try? readFile("/proc/\(process)/task/\($0)/comm"))?.hasSuffix("overcommit\n") ?? false }.min()
    }

    /// The voluntary context switches of each thread so far (proc_pid_status(5)).
    fileprivate var switches: [String: Int] {
        let directory = "/proc/\(process)/task"
        var switches: [String: Int] = [:]
        guard let threads = opendir(directory) else { return [:] }
        defer { closedir(threads) }
        while let entry = readdir(threads) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard !name.hasPrefix("."), let status = try? readFile("\(directory)/\(name)/status") else { continue }
            let line = status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches:") }
            switches[name] = line.flatMap { $0.split(separator: "\t").last.flatMap { Int($0) } } ?? 0
        }
        return switches
    }
}
