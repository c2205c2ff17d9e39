#if SQLite
import Foundation
import GRDB
import ReachabilityTesting
import ReachableJobs
import TestSupport
import Testing

/// Power failures after any write: what was acknowledged is there.
@Suite(.timeLimit(.minutes(120)), .serialized)
struct SQLitePowerLossTests {
    /// The number of power failures of each test; `JOBS_POWER_LOSSES` sets another one, and `all` tries each kind after each write.
    private static let losses: Int? = {
        let setting: String? = variable("JOBS_POWER_LOSSES")
        return setting == "all" ? nil : setting.flatMap(Int.init) ?? 150
    }()

    /// The seed; `JOBS_POWER_SEED` sets one, to see a failure again.
    private static var seed: UInt64 { variable("JOBS_POWER_SEED") ?? UInt64.random(in: 0 ... .max) }

    /// A power failure after a number of operations.
    private struct Failure {
        var position: Int
        var loss: SimulatedDisk.Loss
    }

    @Test(arguments: RecordedHistory.Owner.allCases)
    func acknowledgedJobsSurviveAPowerFailure(owner: RecordedHistory.Owner) async throws {
        let seed = Self.seed
        let history = try await RecordedHistory(owner, steps: 300, seed: seed)
        var generator = SeededGenerator(seed: seed)
        let failures = Self.failures(history, &generator)
        var problems: [String] = []
        var disk = SimulatedDisk()
        var position = 0
        history.machine.reboot()
        for failure in failures where problems.count < 5 {
            while position < failure.position {
                disk.perform(history.operations[position])
                position += 1
            }
            let image = disk.image(after: failure.loss, using: &generator)
            if let problem = try await DiskImage(image).problem(at: failure.position, history) {
                problems.append("\(problem), after \(failure.position) operations, with the loss of \(failure.loss)")
            }
        }
        #expect(problems.isEmpty, "seed \(seed), \(owner)")
        print("\(owner): \(history.operations.count) operations, \(history.moments.count) calls, \(failures.count) power failures")
    }

    /// Power failures in the order of their positions: all while the store is created, and half of the others just after a call.
    private static func failures(_ history: RecordedHistory, _ generator: inout SeededGenerator) -> [Failure] {
        let end = history.operations.count
        guard let count = losses else {
            return (0...end).flatMap { position in SimulatedDisk.Loss.allCases.map { Failure(position: position, loss: $0) } }
        }
        let kinds = SimulatedDisk.Loss.allCases
        var positions = Array(0...history.moments[1].end)
        for number in 0..<count {
            let call = history.moments.randomElement(using: &generator)?.end ?? 0
            positions.append(number % 2 == 0 ? call : Int.random(in: 0...end, using: &generator))
        }
        return positions.sorted().map { Failure(position: $0, loss: kinds.randomElement(using: &generator) ?? .everything) }
    }

    /// The controls: without its syncs, the same history does lose jobs.
    @Test(arguments: [Honesty.off, .normal])
    func aDiskThatSynchronizesLessLosesAcknowledgedJobs(level: Honesty) async throws {
        let seed = Self.seed
        let history = try await RecordedHistory(.callersPool, steps: 100, seed: seed)
        var generator = SeededGenerator(seed: seed)
        history.machine.reboot()
        var disk = SimulatedDisk()
        var position = 0
        var (losses, others): (Int, [DiskImage.Problem]) = (0, [])
        for moment in history.moments where moment.isDurable {
            while position < moment.end {
                // With NORMAL, a commit does not synchronize the log: the last operation of a call.
                let isCommit = history.moments.contains { $0.isDurable && $0.end == position + 1 }
                var ignores = level == .off
                if isCommit, case .sync(let name, _) = history.operations[position], name.hasSuffix("-wal") { ignores = true }
                disk.perform(history.operations[position], ignoresSync: ignores)
                position += 1
            }
            let image = disk.image(after: .everything, using: &generator)
            switch try await DiskImage(image).problem(at: position, history) {
            case .lost: losses += 1
            case let problem?: others.append(problem)
            case nil: break
            }
        }
        #expect(losses > 0, "seed \(seed)")
        // NORMAL damages nothing.
        if level == .normal { #expect(others.isEmpty, "\(others), seed \(seed)") }
    }

    enum Honesty: Sendable {
        case off, normal
    }
}

/// The files that a power failure has left.
struct DiskImage {
    /// A broken promise.
    enum Problem {
        /// The store cannot be opened.
        case closed(String)
        /// An acknowledged change is missing.
        case lost(String)
        /// The jobs are those of no moment, or the file is damaged.
        case damaged(String)
        /// The store does not work any more.
        case stuck(String)
    }

    private let directory: TemporaryFolder
    private var path: String { directory.path + "/" + RecordedHistory.file }

    init(_ files: [String: [UInt8]]) throws {
        directory = try TemporaryFolder(in: TemporaryFolder.memory)
        for (name, bytes) in files {
            let isWritten = FileManager.default.createFile(
                atPath: directory.path + "/" + name, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
            if !isWritten { throw CocoaError(.fileWriteUnknown) }
        }
    }

    /// Opens the store as after a reboot; returns the first broken promise.
    func problem(at position: Int, _ history: RecordedHistory) async throws -> Problem? {
        let store: SQLiteStore
        let machine = history.machine.machine
        do {
            store =
                if history.owner == .ownFile { try SQLiteStore(path: path, machine: machine) } else {
                    try SQLiteStore(writer: RecordedHistory.writer(history.owner, path), machine: machine)
                }
        } catch {
            return .closed("\(error)")
        }
        do {
            let jobs = try await store.find(JobFilter())
            if let problem = problem(of: jobs, at: position, history.moments) { return problem }
            if let problem = try await damage() { return problem }
            return try await fault(of: store, jobs)
        } catch {
            return .damaged("\(error)")
        }
    }

    /// Compares the jobs with the moments that a power failure may leave: the last acknowledged one, or a later one.
    private func problem(of jobs: [DurableJob], at position: Int, _ moments: [RecordedHistory.Moment]) -> Problem? {
        let last = moments.lastIndex { $0.end <= position } ?? 0
        let first = moments[...last].lastIndex { $0.isDurable } ?? 0
        // The call that the power failure interrupted may have been done.
        let next = min(last + 1, moments.count - 1)
        if moments[first...next].contains(where: { $0.jobs == jobs }) { return nil }
        let text = "\(moments[first].call) (call \(first)) was acknowledged"
        if let old = moments[..<first].lastIndex(where: { $0.jobs == jobs }) {
            return .lost("\(text); the disk has the jobs of \(moments[old].call) (call \(old))")
        }
        return .damaged("\(text); the disk has the jobs of no call")
    }

    /// Checks the file as a whole.
    private func damage() async throws -> Problem? {
        let queue = try DatabaseQueue(path: path)
        let (integrity, halves) = try await queue.read { db in
            let halves = """
                SELECT (SELECT count(*) FROM reachable_jobs WHERE position NOT IN (SELECT position FROM reachable_payloads))
                + (SELECT count(*) FROM reachable_payloads WHERE position NOT IN (SELECT position FROM reachable_jobs))
                + (SELECT count(*) FROM reachable_queues AS queues WHERE unfinished <>
                (SELECT count(*) FROM reachable_jobs WHERE queue = queues.id AND state < 2))
                """
            return (try String.fetchAll(db, sql: "PRAGMA integrity_check"), try Int.fetchOne(db, sql: halves))
        }
        try queue.close()
        if integrity != ["ok"] { return .damaged(integrity.joined(separator: "; ")) }
        return halves == 0 ? nil : .damaged("\(halves ?? -1) halves of jobs")
    }

    /// Goes on working with the store: the jobs of workers before the failure are free, and new ones come behind all others.
    private func fault(of store: SQLiteStore, _ jobs: [DurableJob]) async throws -> Problem? {
        let crashes = Dictionary(uniqueKeysWithValues: jobs.map { ($0.id, $0.counters.crashes) })
        for queue in Set(jobs.map(\.queue)) {
            try await store.setPaused(false, queue: queue)
            let worker = try await store.register(queue: queue, node: "node")
            let claimed = try await store.claim(worker, 1000).jobs
            let left = Set(try await store.find(JobFilter(queue: queue)).filter { !$0.state.isFinal && !$0.isBlocked }.map(\.id))
                .subtracting(claimed.map(\.job.id))
            let lost = jobs.filter { $0.state == .running && left.contains($0.id) }
            if !lost.isEmpty { return .stuck("\(lost.map(\.position)) ran before, and are not claimed") }
            if let job = claimed.map(\.job).first(where: { $0.counters.crashes != crashes[$0.id] }) {
                return .stuck("the power failure counts as a crash of \(job.position)")
            }
            if let first = claimed.first, try await store.succeed([first.ticket], by: worker) != [.recorded] {
                return .stuck("a result is refused")
            }
        }
        let id = try await store.push("new")
        let last = try await store.find(JobFilter()).last
        return last?.id == id ? nil : .stuck("a new job is not behind all others")
    }
}
#endif
