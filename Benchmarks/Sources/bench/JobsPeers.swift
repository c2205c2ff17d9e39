import CBench
import Glibc
import Reachability
import ReachableJobs
import ReachableRetry
import Synchronization

/// A job that does nothing, with a payload of about 100 bytes.
struct NoOp: JobParameters {
    static let jobName = "no-op"
    private static let text = String(repeating: "x", count: 100)

    var payload = Self.text
    var scope = Scope.internet

    private enum CodingKeys: CodingKey { case payload }

    var options: DurableOptions { DurableOptions(to: scope) }
}

/// Whole queues beside each other: jobs that do nothing are pushed, one commit each, and then run by one worker.
struct JobsPeers {
    let path: String
    let rounds: Int
    /// The number of jobs in a round.
    let runs: Int

    private enum Contender: String, CaseIterable {
        case ours = "this library"
        case oneByOne = "this library, one job at a time"
        case huey
        case hueySynchronous = "huey-fsync"
        case persistQueue = "persist-queue"

        /// The least ratio of our completions to its.
        var goal: Double? { self == .huey || self == .hueySynchronous ? 3 : nil }
    }

    private struct Result {
        var name: String
        /// The value of PRAGMA synchronous while jobs end.
        var synchronous: String
        /// Jobs a second.
        var pushed: Double
        var completed: Double
    }

    func measure() async throws {
        var contenders = Contender.allCases
        if Programs.jobsPeer == nil {
            contenders = [.ours, .oneByOne]
            print(Programs.jobsPeersAreMissing + "\n")
        }
        var results: [Contender: [Result]] = [:]
        for round in 0..<rounds {
            // Each begins in turn.
            for index in contenders.indices {
                let contender = contenders[(index + round) % contenders.count]
                results[contender, default: []].append(try await measure(contender))
            }
        }
        print(row(["queue, one worker", "synchronous", "pushes/s", "completions/s", "we complete × its", "goal", ""]))
        print("|---|---|---|---|---|---|---|")
        let ours = results[.ours] ?? []
        for contender in contenders {
            let theirs = results[contender] ?? []
            guard let name = theirs.first?.name, let synchronous = theirs.first?.synchronous else { continue }
            let completed = median(theirs.map(\.completed))
            let ratios = zip(ours, theirs).map { $0.completed / $1.completed }
            var (goal, holds) = ("", "")
            if contender == .ours { (goal, holds) = ("≥ 5000/s", completed >= 5000 ? "holds" : "MISSED") }
            if let least = contender.goal {
                (goal, holds) = ("≥ \(decimal(least, 0)) × its", median(ratios) >= least ? "holds" : "MISSED")
            }
            print(
                row([
                    name, synchronous, decimal(median(theirs.map(\.pushed)), 0), decimal(completed, 0),
                    contender == .ours ? "" : summary(ratios), goal, holds,
                ]))
        }
        print("")
    }

    private func measure(_ contender: Contender) async throws -> Result {
        let directory = "\(path)/queue"
        try BenchError.check(mkdir(directory, 0o700) == 0 ? 0 : -errno, "mkdir \(directory)")
        defer { deleteFiles(directory) }
        switch contender {
        case .ours: return try await measureOurs(directory, contender.rawValue, maxConcurrent: nil)
        case .oneByOne: return try await measureOurs(directory, contender.rawValue, maxConcurrent: 1)
        default: return try measurePeer(directory, contender.rawValue)
        }
    }

    private func measurePeer(_ directory: String, _ name: String) throws -> Result {
        guard let program = Programs.jobsPeer else { throw BenchError(Programs.jobsPeersAreMissing) }
        let peer = try Peer(program + [name, "\(runs)", directory], hasOutput: true)
        guard peer.wait() == 0 else { throw BenchError("\(name) failed") }
        let words = peer.readOutput().split { $0 == " " || $0 == "\n" }
        guard words.count == 4, let pushed = Double(words[2]), let completed = Double(words[3]) else {
            throw BenchError("\(name) has told nothing")
        }
        return Result(
            name: "\(name) \(words[0])", synchronous: words[1] == "2" ? "FULL" : String(words[1]),
            pushed: Double(runs) / pushed, completed: Double(runs) / completed)
    }

    /// Measures from the start of a worker until it has ended, and all results are written.
    private func measureOurs(_ directory: String, _ name: String, maxConcurrent: Int?) async throws -> Result {
        let queue = JobQueue(try SQLiteStore(path: "\(directory)/jobs.db"), bus: RetryBus(ReachabilityMonitor()))
        let left = Countdown(runs)
        // As the others' jobs: those for the network pass a gate's window when a worker starts with a full queue.
        let policy = RetryPolicy.default.connectivity(.ignore)
        queue.registerJob(parameters: NoOp.self, policy: policy, maxConcurrent: maxConcurrent) { [weak queue] _, _ in
            // Not here: it waits for this handler.
            if left.isOver() { Task { await queue?.shutdown() } }
        }
        let job = NoOp()
        var start = bench_now()
        for _ in 0..<runs { try await queue.push(job) }
        let pushed = Double(bench_now() - start) / 1e9
        start = bench_now()
        await queue.run()
        let completed = Double(bench_now() - start) / 1e9
        let counts = try await queue.counts
        guard counts.count == 1, counts[0].state == .succeeded, counts[0].count == runs else {
            throw BenchError("not all jobs have succeeded: \(counts)")
        }
        return Result(
            name: name, synchronous: "FULL", pushed: Double(runs) / pushed, completed: Double(runs) / completed)
    }
}

/// A number of events to wait for.
final class Countdown: Sendable {
    private let left: Atomic<Int>

    init(_ count: Int) { left = Atomic(count) }

    /// Counts one; returns true for the last one.
    func isOver() -> Bool { left.subtract(1, ordering: .relaxed).newValue == 0 }
}
