#if SQLite
import Foundation
import GRDB
import ReachabilityTesting
import ReachableJobs
import ReachableRetry

/// Random calls of a store whose writes are recorded, with the jobs after each call.
struct RecordedHistory {
    enum Owner: CaseIterable, Sendable {
        case ownFile
        /// A caller's database with a write-ahead log.
        case callersPool
        /// A caller's database with a rollback journal.
        case callersQueue
    }

    /// The end of a call.
    struct Moment: Sendable {
        var call: String
        /// The number of recorded operations when the call returned.
        var end: Int
        /// True if the call made changes, and promises that they survive a power failure.
        var isDurable: Bool
        var jobs: [DurableJob]
    }

    let owner: Owner
    let machine = TestMachine()
    private(set) var moments = [Moment(call: "nothing", end: 0, isDurable: false, jobs: [])]
    private(set) var operations: [DiskRecording.Operation] = []

    private let directory: TemporaryDirectory
    private let recording: DiskRecording
    private var generator: SeededGenerator
    private var store: SQLiteStore?
    private var writer: (any DatabaseWriter)?
    private var worker: WorkerID?
    private var claimed: [Claims.Claimed] = []
    private var pushed: [NewJob] = []

    /// The name of the database in its directory.
    static let file = "jobs.db"

    /// Records a number of steps.
    init(_ owner: Owner, steps: Int, seed: UInt64) async throws {
        self.owner = owner
        generator = SeededGenerator(seed: seed)
        directory = try TemporaryDirectory(in: TemporaryDirectory.memory)
        recording = try DiskRecording(directory.path)
        try await open()
        for _ in 0..<steps { try await step() }
        operations = recording.operations
        (store, writer) = (nil, nil)
    }

    private var path: String { directory.path + "/" + Self.file }

    // MARK: Opening

    private mutating func open() async throws {
        if owner == .ownFile {
            store = try SQLiteStore(path: path, machine: machine.machine)
        } else {
            // Checkpoints in the middle of everything.
            let writer = try Self.writer(owner, path) { try $0.execute(sql: "PRAGMA wal_autocheckpoint = 12") }
            if owner == .callersQueue {
                let mode = ["DELETE", "TRUNCATE", "PERSIST"].randomElement(using: &generator) ?? "DELETE"
                try await writer.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
            }
            store = try SQLiteStore(writer: writer, machine: machine.machine)
            if Bool.random(using: &generator) {
                let level = owner == .callersPool ? "FULL" : "EXTRA"
                try await writer.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = \(level)") }
            }
            self.writer = writer
        }
        try await note("open", isDurable: false)
    }

    /// Opens a caller's database.
    static func writer(
        _ owner: Owner, _ path: String, _ prepare: @escaping @Sendable (Database) throws -> Void = { _ in }
    ) throws -> any DatabaseWriter {
        var configuration = Configuration()
        configuration.prepareDatabase(prepare)
        if owner == .callersPool { return try DatabasePool(path: path, configuration: configuration) }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private mutating func reopen() async throws {
        guard let writer else { return try await checkpoint() }
        (store, worker, claimed) = (nil, nil, [])
        self.writer = nil
        try writer.close()
        try await open()
    }

    /// Copies the log to the database, as a process does that opens it for a moment.
    private mutating func checkpoint() async throws {
        guard owner != .callersQueue else { return }
        let mode = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].randomElement(using: &generator) ?? "FULL"
        let other = try DatabaseQueue(path: path)
        try await other.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(\(mode))") }
        try other.close()
        try await note("checkpoint \(mode)", isDurable: false)
    }

    // MARK: Steps

    private mutating func note(_ call: String, isDurable: Bool) async throws {
        let end = recording.count
        guard let store else { return }
        let jobs = try await store.find(JobFilter())
        // SQLite writes and synchronizes nothing for a call that changes nothing, and such a call acknowledges nothing.
        moments.append(Moment(call: call, end: end, isDurable: isDurable && jobs != moments.last?.jobs, jobs: jobs))
    }

    private mutating func step() async throws {
        guard let store else { return }
        machine.pass(.milliseconds(Int.random(in: 0...9000, using: &generator)))
        let worker = try await validWorker(store)
        switch Int.random(in: 0..<100, using: &generator) {
        case ..<34: try await push(store)
        case ..<54: try await claim(store, worker)
        case ..<78: try await finish(store, worker)
        case ..<82: try await giveBack(store, worker)
        case ..<87: try await cancel(store)
        case ..<90: try await retry(store)
        case ..<94:
            _ = try await store.prune(Retention(succeeded: .seconds(20), failed: .seconds(20)), limit: 5)
            try await note("prune", isDurable: false)
        case ..<97: try await checkpoint()
        default: try await reopen()
        }
    }

    /// Extends the worker's lease, or adds a worker.
    private mutating func validWorker(_ store: SQLiteStore) async throws -> WorkerID {
        if let worker {
            _ = try await store.extend(worker)
            try await note("extend", isDurable: false)
            return worker
        }
        let new = try await store.register()
        worker = new
        try await note("register", isDurable: false)
        return new
    }

    private mutating func push(_ store: SQLiteStore) async throws {
        var jobs: [NewJob] = []
        for _ in 0..<Int.random(in: 1...3, using: &generator) {
            let size = Int.random(in: 0...1, using: &generator) * Int.random(in: 0...9000, using: &generator)
            var job = NewJob.named("\(pushed.count + jobs.count) " + String(repeating: "x", count: size))
            switch Int.random(in: 0..<8, using: &generator) {
            case 0: job.serialKey = "serial"
            case 1: job.unique = .replace("unique")
            case 2: job.unique = .append("unique")
            case 3: job.destination = "server \(Int.random(in: 0..<3, using: &generator))"
            case 4: job.priority = .bulk
            case 5: job.isRepeatable = false
            default: break
            }
            jobs.append(job)
        }
        pushed += jobs
        if let writer, try await writer.writeWithoutTransaction({ try Int.fetchOne($0, sql: "PRAGMA synchronous") ?? 0 }) == level {
            let batch = jobs
            try await writer.write { db in _ = try store.push(batch, in: db) }
            try await note("push in a transaction", isDurable: true)
        } else {
            _ = try await store.push(jobs, limit: nil)
            try await note("push", isDurable: true)
        }
    }

    /// The value of `synchronous` with which a caller's transactions survive a power failure.
    private var level: Int { owner == .callersQueue ? 3 : 2 }

    private mutating func claim(_ store: SQLiteStore, _ worker: WorkerID) async throws {
        // The first look frees the jobs of a worker that has ended.
        _ = try await store.claim(ClaimRequest(worker: worker, limit: 0, lanes: [], lastKnownLane: 0))
        try await note("look", isDurable: false)
        let jobs = try await store.claim(worker, Int.random(in: 1...4, using: &generator)).jobs
        try await note("claim", isDurable: false)
        for isRepeatable in [true, false] {
            let tickets = jobs.filter { $0.job.isRepeatable == isRepeatable }.map(\.ticket)
            if tickets.isEmpty { continue }
            _ = try await store.start(tickets, by: worker)
            // A second attempt of those that are not must not come after a power failure.
            try await note("start", isDurable: !isRepeatable)
        }
        claimed += jobs
    }

    private mutating func finish(_ store: SQLiteStore, _ worker: WorkerID) async throws {
        let count = min(claimed.count, Int.random(in: 1...2, using: &generator))
        guard count > 0 else { return }
        var results: [AttemptResult] = []
        for job in claimed[..<count] {
            var counters = job.job.counters
            (counters.started, counters.charged) = (counters.started + 1, counters.charged + 1)
            let outcome: AttemptResult.Outcome =
                switch Int.random(in: 0..<6, using: &generator) {
                case 0: .failed(reason: "attempts")
                case 1: .again(soft: .seconds(4), isNetwork: true, hard: nil)
                case 2: .again(soft: .seconds(4), isNetwork: false, hard: .seconds(6))
                default: .succeeded
                }
            results.append(AttemptResult(job.ticket, outcome, counters: counters, error: "trouble"))
        }
        claimed.removeFirst(count)
        _ = try await store.finish(results, by: worker)
        try await note("finish", isDurable: true)
    }

    private mutating func giveBack(_ store: SQLiteStore, _ worker: WorkerID) async throws {
        guard let job = claimed.popLast() else { return }
        _ = try await store.finish([.givenBack(job.ticket)], by: worker)
        try await note("give back", isDurable: false)
    }

    private mutating func cancel(_ store: SQLiteStore) async throws {
        guard let job = pushed.suffix(12).randomElement(using: &generator) else { return }
        _ = try await store.cancel([job.id])
        try await note("cancel", isDurable: true)
    }

    private mutating func retry(_ store: SQLiteStore) async throws {
        // A retried job with a key holds back a later one that runs: then the claim after the power failure is another one.
        let job = pushed.suffix(20).filter { $0.serialKey == nil && $0.unique == nil }.randomElement(using: &generator)
        guard let job else { return }
        _ = try await store.retry([job.id], limit: nil)
        try await note("retry", isDurable: true)
    }
}
#endif
