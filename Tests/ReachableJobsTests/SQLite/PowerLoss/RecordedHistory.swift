#if SQLite
import GRDB
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// A ``StoreHistory`` on a store whose writes are recorded, with the jobs after each change.
struct RecordedHistory {
    enum Owner: CaseIterable, Sendable {
        case ownFile
        /// A caller's database with a write-ahead log.
        case callersPool
        /// A caller's database with a rollback journal.
        case callersQueue
    }

    /// The end of a call that has changed jobs.
    struct Moment: Sendable {
        var call: String
        /// The number of recorded operations when the call returned.
        var end: Int
        /// True if the call promises that its changes survive a power failure.
        var isDurable: Bool
        var jobs: [DurableJob]
    }

    let owner: Owner
    let machine: TestMachine
    let moments: [Moment]
    let operations: [DiskRecording.Operation]

    /// The name of the database in its directory.
    static let file = "jobs.db"

    /// Records a number of steps.
    init(_ owner: Owner, steps: Int, seed: UInt64) async throws {
        let recorder = try Recorder(owner, seed)
        try await recorder.open()
        var history = StoreHistory(seed: seed, recorder.subject)
        if let flaw = try await history.run(steps) {
            Issue.record("seed \(seed): \(flaw)\nafter\n\(history.calls.joined(separator: "\n"))")
        }
        (self.owner, machine, operations) = (owner, recorder.machine, recorder.recording.operations)
        moments = recorder.close()
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
}

/// The store of a history, which notes the jobs after each change.
private final class Recorder: Sendable {
    private struct State {
        var moments = [RecordedHistory.Moment(call: "nothing", end: 0, isDurable: false, jobs: [])]
        var store: SQLiteStore?
        var writer: (any DatabaseWriter)?
        var generator: SeededGenerator
        /// True during a call that only gives jobs back, which may be lost.
        var givesBack = false
    }

    let machine = TestMachine()
    let recording: DiskRecording
    private let owner: RecordedHistory.Owner
    private let directory: TemporaryFolder
    private let state: Mutex<State>

    init(_ owner: RecordedHistory.Owner, _ seed: UInt64) throws {
        self.owner = owner
        directory = try TemporaryFolder(in: TemporaryFolder.memory)
        recording = try DiskRecording(directory.path)
        state = Mutex(State(generator: SeededGenerator(seed: seed)))
    }

    private var path: String { directory.path + "/" + RecordedHistory.file }

    private var store: SQLiteStore {
        guard let store = state.withLock({ $0.store }) else { preconditionFailure("no call comes while the store is closed") }
        return store
    }

    private func pick<Value: Sendable>(_ values: [Value]) -> Value {
        state.withLock { values[Int.random(in: 0..<values.count, using: &$0.generator)] }
    }

    // MARK: - Opening

    func open() async throws {
        let store: SQLiteStore
        var writer: (any DatabaseWriter)?
        if owner == .ownFile {
            store = try SQLiteStore(path: path, machine: machine.machine)
        } else {
            // Checkpoints in the middle of everything.
            let own = try RecordedHistory.writer(owner, path) { try $0.execute(sql: "PRAGMA wal_autocheckpoint = 12") }
            if owner == .callersQueue {
                let mode = pick(["DELETE", "TRUNCATE", "PERSIST"])
                try await own.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(mode)") }
            }
            store = try SQLiteStore(writer: own, machine: machine.machine)
            if pick([true, false]) {
                try await own.writeWithoutTransaction { [level] in try $0.execute(sql: "PRAGMA synchronous = \(level)") }
            }
            writer = own
        }
        state.withLock { [writer] in ($0.store, $0.writer) = (store, writer) }
        try await note("open")
    }

    /// Closes the store; returns the moments of the history.
    func close() -> [RecordedHistory.Moment] {
        state.withLock { state in
            state.store = nil
            return state.moments
        }
    }

    private func reopen() async throws {
        guard let writer = state.withLock({ $0.writer }) else { return try await checkpoint() }
        _ = close()
        try writer.close()
        try await open()
    }

    /// Copies the log to the database, as a process does that opens it for a moment.
    private func checkpoint() async throws {
        guard owner != .callersQueue else { return }
        let other = try DatabaseQueue(path: path)
        let mode = pick(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
        try await other.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_checkpoint(\(mode))") }
        try other.close()
    }

    // MARK: - Calls

    private static let reading = ["find(_:)", "explain(_:)", "workers(of:)", "count(queue:)"]
    /// The calls whose changes survive a power failure.
    private static let durable = ["push(_:limit:)", "finish(_:by:)", "cancel(_:)", "retry(_:limit:)", "endBackoff(_:)"]

    private func note(_ call: String) async throws {
        let (end, jobs) = (recording.count, try await store.find(JobFilter()))
        state.withLock { state in
            defer { state.givesBack = false }
            let changed = Set(jobs).subtracting(state.moments.last?.jobs ?? [])
            // SQLite writes and synchronizes nothing for a call that changes nothing, and such a call acknowledges nothing.
            let isNews = jobs != state.moments.last?.jobs
            guard isNews || state.moments.count == 1 else { return }
            // An attempt that must not be repeated must not come again after a power failure.
            let isOnlyStart = call == "start(_:by:)" && changed.contains { !$0.isRepeatable }
            let isDurable = isNews && (isOnlyStart || Self.durable.contains(call) && !state.givesBack)
            state.moments.append(.init(call: call, end: end, isDurable: isDurable, jobs: jobs))
        }
    }

    /// The value of `synchronous` with which a caller's transactions survive a power failure.
    private var level: Int { owner == .callersQueue ? 3 : 2 }

    /// Pushes, if possible in a transaction of the caller's.
    private func push(_ jobs: [NewJob], limit: Int?) async throws -> [PushReceipt] {
        let store = store
        guard let writer = state.withLock({ $0.writer }),
            try await writer.writeWithoutTransaction({ try Int.fetchOne($0, sql: "PRAGMA synchronous") }) == level
        else { return try await store.push(jobs, limit: limit) }
        return try await writer.write { db in try store.push(jobs, limit: limit, in: db) }
    }

    var subject: StoreHistory.Subject {
        var noted = WarpedStore(self.store)
        noted.onPush = { try await self.push($0, limit: $1) }
        noted.onFinish = { results, worker in
            self.state.withLock { $0.givesBack = results.allSatisfy { $0.outcome == .givenBack } }
            return try await self.store.finish(results, by: worker)
        }
        noted.onReturn = { if !Self.reading.contains($0) { try await self.note($0) } }
        let store = noted
        return StoreHistory.Subject(
            store: store, heartbeats: 3,
            passTime: { duration in
                self.machine.pass(duration)
                if self.pick([true, false]) { try await self.checkpoint() }
            },
            notice: { await store.notice() },
            crash: { worker in
                self.store.abandon(worker)
                await store.notice()
            },
            reboot: {
                self.machine.endBoot()
                try await self.reopen()
                await store.notice()
            })
    }
}
#endif
