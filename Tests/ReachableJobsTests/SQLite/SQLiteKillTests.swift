#if SQLite
import Foundation
import ReachabilityTesting
import ReachableJobs
import Testing

/// Workers that are killed at any moment, with effects recorded outside of the store.
@Suite(.timeLimit(.minutes(120)))
struct SQLiteKillTests {
    /// The number of kills; `JOBS_KILLS` sets another one, for longer runs.
    private static let kills = ProcessInfo.processInfo.environment["JOBS_KILLS"].flatMap(Int.init) ?? 25

    private struct Worker {
        let process = Process()
        let output = Pipe()

        init(_ store: String, _ effects: String) throws {
            let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            process.executableURL = URL(fileURLWithPath: tests).deletingLastPathComponent().appendingPathComponent("jobs-probe")
            process.arguments = [store, effects]
            process.standardOutput = output
            try process.run()
        }

        /// Reads until a number of lines has come, or the worker has ended.
        func read(lines: Int) {
            var left = lines
            while left > 0, case let data = output.fileHandleForReading.availableData, !data.isEmpty {
                left -= data.count { $0 == UInt8(ascii: "\n") }
            }
        }

        func kill() {
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    @Test func killedWorkersLoseNothingAndRepeatOnlyWhatTheyHadNotWritten() async throws {
        let seed = UInt64.random(in: 0 ... .max)
        // Reads block.
        try await withTaskExecutorPreference(ThreadPerJobExecutor()) {
            var generator = SeededGenerator(seed: seed)
            let directory = try TemporaryDirectory()
            let (path, effects) = (directory.path + "/jobs.db", directory.path + "/effects")
            let store = try SQLiteStore(path: path)
            var pushed = 0
            for _ in 0..<Self.kills {
                let new = (0..<20).map { Self.job(pushed + $0) }
                pushed += new.count
                _ = try await store.push(new, limit: nil)
                let worker = try Worker(path, effects)
                worker.read(lines: Int.random(in: 0..<20, using: &generator))
                worker.kill()
            }
            var hints = store.changes().makeAsyncIterator()
            let worker = try Worker(path, effects)
            while try await store.count(queue: "default").contains(where: { !$0.state.isFinal }) { await hints.next() }
            worker.kill()
            try check(try await store.find(JobFilter()), pushed, effects, "seed \(seed)")
        }
    }

    private static func job(_ number: Int) -> NewJob {
        NewJob(queue: "default", kind: "effect", payload: Data(#"{"name":"\#(number)"}"#.utf8))
    }

    private func check(_ jobs: [DurableJob], _ pushed: Int, _ effects: String, _ seed: String) throws {
        #expect(jobs.count == pushed && jobs.allSatisfy { $0.state == .succeeded }, "\(seed)")
        var times: [String: Int] = [:]
        for line in try String(contentsOfFile: effects, encoding: .utf8).split(separator: "\n") {
            times[String(line), default: 0] += 1
        }
        var repeated = 0
        for (number, job) in jobs.enumerated() {
            let count = times["\(number)"] ?? 0
            repeated += max(0, count - 1)
            // An effect is repeated only if a crash came between it and its result.
            #expect(count >= 1 && count <= 1 + job.counters.crashes, "job \(number): \(count) effects, \(job.counters), \(seed)")
        }
        let crashes = jobs.map(\.counters.crashes).reduce(0, +)
        print("\(Self.kills) kills, \(pushed) jobs: \(repeated) effects repeated, \(crashes) crashes")
    }
}
#endif
