import ArgumentParser
import CBench
import CJobsFloor
import Dispatch
import FoundationEssentials
import Glibc
import ReachableJobs
import Synchronization

/// The command `bench jobs`.
struct JobsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "jobs",
        abstract: "What a durable job costs in SQLite, beside C with the same statements and beside other queues.")

    /// A part of the benchmark.
    enum Part: String, ExpressibleByArgument, CaseIterable {
        case floor, claims, peers, processes, cable
    }

    @Option(help: "How many stored jobs there are that may not run, or wait for the cable.")
    var jobs = 1_000_000

    @Option(help: "How often all is measured.")
    var rounds = 15

    @Option(help: "How many jobs of a round are pushed one by one.")
    var pushes = 300

    @Option(help: "How many jobs of a round each queue runs.")
    var runs = 3000

    @Option(help: "How often the cable is pulled and plugged in.")
    var reconnects = 5

    @Option(help: "How many seconds an idle worker is watched for.")
    var idle = 65

    @Option(help: "Where the files are.")
    var directory = "/tmp"

    @Flag(help: "Take precedence over others that work on this machine (SCHED_FIFO).")
    var precedence = false

    @Option(help: "Only this part; may be repeated.")
    var only: [Part] = []

    func validate() throws {
        guard [jobs, rounds, pushes, runs, reconnects, idle].allSatisfy({ $0 > 0 }) else {
            throw ValidationError("all numbers must be positive")
        }
    }

    func run() throws {
        let parts = only.isEmpty ? Part.allCases : only
        // First of all: the threads of the pool must be in the namespace, too.
        if precedence { try BenchError.check(bench_take_precedence(), "sched_setscheduler") }
        let cable = parts.contains(.cable) ? Result { try JobsCable(jobs: self.jobs, reconnects: reconnects) } : nil
        let path = "\(directory)/reachable-jobs-bench-\(getpid())"
        try BenchError.check(mkdir(path, 0o700) == 0 ? 0 : -errno, "mkdir \(path)")
        defer { deleteFiles(path) }
        print("jobs: \(Machine.description)")
        print("jobs: SQLite in \(path); medians of \(rounds) rounds, with quartiles\(precedence ? "; with precedence" : "")\n")
        let (jobs, rounds, pushes, runs) = (jobs, rounds, pushes, runs)
        for part in parts {
            switch part {
            case .floor: try blocking { try await JobsFloor(path: path, rounds: rounds, pushes: pushes).measure() }
            case .claims:
                try blocking {
                    try await JobsClaims(
                        store: { name in try SQLiteStore(path: "\(path)/\(name).db") },
                        execute: { _, store, sql in
                            guard floor_execute(store.path, sql + "PRAGMA wal_checkpoint(TRUNCATE);") == 0 else {
                                throw BenchError("SQLite has not executed \(sql)")
                            }
                        },
                        jobs: jobs, rounds: rounds
                    ).measure()
                }
            case .peers: try blocking { try await JobsPeers(path: path, rounds: rounds, runs: runs).measure() }
            case .processes:
                let database = "\(path)/shared.db"
                try JobsProcesses(
                    store: SQLiteStore(path: database), place: database, rounds: rounds, idle: idle, wakeUps: idle / 10 + 1,
                    are: "its heartbeats"
                ).measure()
            case .cable:
                switch cable {
                case .success(let cable): try cable.measure(path)
                case .failure(let error): print("the cable: not measured: \(error)\n")
                case nil: break
                }
            }
        }
        print("jobs: load average \(Machine.load)")
    }
}

/// Deletes a directory with everything in it.
func deleteFiles(_ path: String) { try? FileManager.default.removeItem(atPath: path) }

/// Waits for an asynchronous function, on the main thread.
func blocking<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
    let (isOver, outcome) = (DispatchSemaphore(value: 0), Outcome<Value>())
    Task {
        do {
            let value = try await body()
            outcome.result.withLock { $0 = .success(value) }
        } catch {
            outcome.result.withLock { $0 = .failure(error) }
        }
        isOver.signal()
    }
    isOver.wait()
    guard let result = outcome.result.withLock(\.self) else { throw BenchError("a task has ended without a result") }
    return try result.get()
}

private final class Outcome<Value: Sendable>: Sendable {
    let result = Mutex<Result<Value, any Error>?>(nil)
}
