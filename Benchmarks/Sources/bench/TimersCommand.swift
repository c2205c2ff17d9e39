import ArgumentParser
import CBench
import RetryTimers

/// The command `bench timers`.
struct TimersCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "timers", abstract: "What it costs to arm and to take back a backoff timer among many.")

    @Option(help: "How many timers there are.")
    var timers = 1_000_000

    @Option(help: "How often all is measured.")
    var rounds = 7

    func run() throws {
        guard timers > 0 else { throw ValidationError("there must be timers") }
        let runs = (0..<rounds).map { TimersRun(timers, seed: UInt64($0)).measured() }
        print("timers: \(timers) of them, at random times; medians of \(rounds) rounds\n")
        print(row(["", "ns each"]))
        print("|---|---|")
        print(row(["arming all", decimal(median(runs.map(\.filling)), 0)]))
        print(row(["arming one among all", decimal(median(runs.map(\.arming)), 0)]))
        print(row(["taking one back among all", decimal(median(runs.map(\.cancelling)), 0)]))
        print(row(["taking all back", decimal(median(runs.map(\.emptying)), 0)]))
        print("\ntimers and room for them when all are taken back: \(runs.map(\.left).max() ?? 0)")
    }
}

/// One queue of timers.
private struct TimersRun {
    struct Result {
        var filling = 0.0
        var arming = 0.0
        var cancelling = 0.0
        var emptying = 0.0
        var left = 0
    }

    private let count: Int
    private var queue = TimerQueue()
    private var state: UInt64

    init(_ count: Int, seed: UInt64) {
        self.count = count
        state = seed &* 2 &+ 1
    }

    func measured() -> Result {
        var run = self
        var result = Result()
        result.filling = run.time(0..<count) { $0.arm($1) }
        // As many as there are, by thousands, so that one thing is measured at a time and the clock costs nothing.
        var (arming, cancelling): ([Double], [Double]) = ([], [])
        for _ in 0..<max(1, count / 1000) {
            let first = Int(run.random() % UInt64(count))
            let chosen = (0..<1000).map { (first + $0 * 7919) % count }
            cancelling.append(run.time(chosen) { $0.queue.cancel(JobIndex($1)) })
            arming.append(run.time(chosen) { $0.arm($1) })
        }
        (result.arming, result.cancelling) = (median(arming), median(cancelling))
        result.emptying = run.time(0..<count) { $0.queue.cancel(JobIndex($1)) }
        result.left = run.queue.count + run.queue.capacity
        return result
    }

    private mutating func arm(_ job: Int) {
        queue.arm(JobIndex(job), at: BusTime(nanoseconds: Int64(random() >> 20)))
    }

    /// Nanoseconds for each.
    private mutating func time(_ jobs: some Collection<Int>, _ body: (inout Self, Int) -> Void) -> Double {
        let start = bench_now()
        for job in jobs { body(&self, job) }
        return Double(bench_now() - start) / Double(jobs.count)
    }

    /// A linear congruential generator (Knuth): what it costs is part of what is measured, and little.
    private mutating func random() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state
    }
}
