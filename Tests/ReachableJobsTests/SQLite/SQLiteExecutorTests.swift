#if SQLite
import Foundation
import GRDB
import Reachability
import ReachabilityTesting
import ReachableJobs
import ReachableRetry
import Synchronization
import TestSupport
import Testing

/// The threads on which a store's transactions run.
@Suite(.timeLimit(.minutes(5)))
struct SQLiteExecutorTests {
    /// The databases that a store may be in.
    enum Place: CaseIterable {
        case ownFile, pool, queue, impatientQueue
    }

    /// The threads that a transaction has seen: it reads the machine's clock of leases.
    private final class Log: Sendable {
        struct Entry {
            var thread: pthread_t
            var isOnExecutor: Bool
        }

        private let executor = Mutex<BlockingExecutor?>(nil)
        private let entries = Mutex<[Entry]>([])

        var all: [Entry] { entries.withLock { $0 } }
        var threads: Set<pthread_t> { Set(all.map(\.thread)) }

        /// Notes transactions from now on.
        func begin(_ store: SQLiteStore) {
            executor.withLock { $0 = store.executor as? BlockingExecutor }
            entries.withLock { $0 = [] }
        }

        func note() {
            guard let executor = executor.withLock({ $0 }) else { return }
            entries.withLock { $0.append(Entry(thread: currentThread(), isOnExecutor: executor.isCurrent)) }
        }
    }

    private let directory: TemporaryFolder
    private let log = Log()

    init() throws { directory = try TemporaryFolder() }

    private var path: String { directory.path + "/jobs.db" }

    private func makeStore(_ place: Place = .ownFile) throws -> SQLiteStore {
        var machine = TestMachine().machine
        let monotonic = machine.monotonic
        machine.monotonic = { [log] in
            log.note()
            return monotonic()
        }
        var configuration = Configuration()
        configuration.busyMode = place == .impatientQueue ? .immediateError : .timeout(60)
        let store =
            switch place {
            case .ownFile: try SQLiteStore(path: path, machine: machine)
            case .pool: try SQLiteStore(writer: DatabasePool(path: path, configuration: configuration), machine: machine)
            case .queue, .impatientQueue:
                try SQLiteStore(writer: DatabaseQueue(path: path, configuration: configuration), machine: machine)
            }
        log.begin(store)
        return store
    }

    /// Pushes a job and runs it.
    private func pushAndRun(_ store: SQLiteStore, _ worker: WorkerID) async throws {
        _ = try await store.push([.named("a")], limit: nil)
        let claimed = try #require(try await store.claim(worker).jobs.first)
        #expect(try await store.start([claimed.ticket], by: worker) == [true])
        #expect(try await store.succeed([claimed], by: worker) == [.recorded])
        _ = try await store.extend(worker)
    }

    @Test(arguments: Place.allCases) func aTaskOnTheExecutorKeepsItsThread(place: Place) async throws {
        let store = try makeStore(place)
        let worker = try await store.register()
        log.begin(store)
        try await withTaskExecutorPreference(store.executor) {
            let thread = currentThread()
            for _ in 0..<3 { try await pushAndRun(store, worker) }
            #expect(log.threads == [thread])
            #expect(currentThread() == thread)
        }
        #expect(log.all.count >= 15)
        #expect(try await store.find(JobFilter()).map(\.state) == [.succeeded, .succeeded, .succeeded])
    }

    @Test(arguments: Place.allCases) func aTaskElsewhereBlocksNoThread(place: Place) async throws {
        let store = try makeStore(place)
        let thread = await Task.detached {
            let thread = currentThread()
            // The transaction reads the clocks while the task is suspended.
            _ = try? await store.push([.named("a")], limit: nil)
            return thread
        }.value
        #expect(log.all.count > 0)
        #expect(!log.threads.contains(thread))
        #expect(log.all.allSatisfy { !$0.isOnExecutor })
    }

    @Test func tasksOfTheExecutorTakeTurns() async throws {
        let store = try makeStore()
        try await withTaskExecutorPreference(store.executor) {
            let order = Rendezvous<[String]>([])
            let other = Task(executorPreference: store.executor) { order.change { $0.append("other") } }
            for number in 0..<2 {
                _ = try await store.push([.named("a")], limit: nil)
                order.change { $0.append("push \(number)") }
            }
            await other.value
            #expect(order.value == ["other", "push 0", "push 1"])
        }
    }

    @Test func cancellationDoesNotEndAPush() async throws {
        let store = try makeStore()
        let task = Task(executorPreference: store.executor) {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await store.push([.named("a")], limit: nil)
        }
        #expect(try await task.value.map(\.outcome) == [.added])
        #expect(try await store.find(JobFilter()).count == 1)
    }

    @Test func aStoreIsReleasedOnItsOwnExecutor() async throws {
        let holder = Mutex<SQLiteStore?>(try makeStore())
        let executor = try #require(holder.withLock { $0?.executor })
        let isGone = try await withTaskExecutorPreference(executor) {
            var store = holder.withLock { $0.take() }
            weak var released: SQLiteStore?
            released = store
            _ = try await store?.push([.named("a")], limit: nil)
            #expect(released != nil)
            store = nil
            return released == nil
        }
        #expect(isGone)
        // The executor goes on, and the file is free.
        let store = try makeStore()
        try await withTaskExecutorPreference(executor) { _ = try await store.push([.named("b")], limit: nil) }
        #expect(try await store.find(JobFilter()).map(\.name) == ["a", "b"])
    }

    @Test func aLockedFileBlocksNoThreadOfTheDefaultPool() async throws {
        let store = try makeStore(.pool)
        let stranger = try Stranger(
            """
            db = sqlite3.connect(sys.argv[1], isolation_level=None)
            db.execute("BEGIN IMMEDIATE"); print(flush=True); sys.stdin.readline()
            """, path)
        let (begun, ended) = (Rendezvous(0), Rendezvous(0))
        let count = ProcessInfo.processInfo.activeProcessorCount + 1
        // The executor's first task keeps its thread until the lock is free; the others wait for it.
        let pushes = (0..<count * 2).map { number in
            Task(executorPreference: number < count ? store.executor : nil) {
                begun.change { $0 += 1 }
                defer { ended.change { $0 += 1 } }
                return try await store.push([.named("\(number)")], limit: nil)
            }
        }
        try await begun.wait { $0 > count }
        await Task.detached {}.value
        #expect(ended.value == 0)
        stranger.go()
        for push in pushes { #expect(try await push.value.map(\.outcome) == [.added]) }
        stranger.wait()
    }

    @Test(arguments: [Place.pool, .queue]) func aPushBegunWithinAWriteWaitsForItsEnd(place: Place) async throws {
        let writer: any DatabaseWriter =
            if place == .pool { try DatabasePool(path: path) } else { try DatabaseQueue(path: path) }
        let store = try SQLiteStore(writer: writer)
        let receipts = try await withTaskExecutorPreference(store.executor) {
            try await beginPush(store, within: writer).value
        }
        #expect(try await store.find(JobFilter()).map(\.id) == receipts.map(\.id))
        #expect(try await writer.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM photos") } == 1)
    }

    /// Begins a push on the calling thread, within a transaction of the caller's.
    private func beginPush(_ store: SQLiteStore, within writer: any DatabaseWriter) throws -> Task<[PushReceipt], any Error> {
        try writer.write { db in
            try db.execute(sql: "CREATE TABLE photos (name TEXT)")
            let task = Task.immediate { try await store.push([.named("a")], limit: nil) }
            try db.execute(sql: "INSERT INTO photos VALUES ('a')")
            return task
        }
    }

    private func pushAndWait(_ queue: JobQueue) async throws {
        let events = queue.events
        try await queue.push(Send("a"))
        for await event in events { if case .succeeded = event.kind { return } }
        Issue.record("the queue has ended")
    }

    @Test func aWorkerUsesTheExecutorForTheStoreAlone() async throws {
        let store = try makeStore()
        let monitor = ReachabilityMonitor(SimulatedNetwork.online())
        let queue = JobQueue(store, bus: RetryBus(monitor, clock: ContinuousClock()))
        let handlers = Log()
        handlers.begin(store)
        queue.registerJob(parameters: Send.self) { _, _ in handlers.note() }
        let tasks: [Task<Void, any Error>] = [Task { try await monitor.run() }, Task { await queue.run() }]
        try await pushAndWait(queue)
        await queue.shutdown()
        for task in tasks { task.cancel() }
        _ = try await tasks[1].value
        #expect(handlers.all.map(\.isOnExecutor) == [false])
        // At least to register, to claim, to start and to finish; the push was this task's, and the worker's loop reads the clock.
        #expect(log.all.count { $0.isOnExecutor } >= 4)
        #expect(log.all.count { !$0.isOnExecutor } == 1)
    }

    @Test func aWorkerInATestsWorldStaysThere() async throws {
        let store = try makeStore()
        try await TestWorld().run { world in
            let queue = JobQueue(store, bus: world.bus)
            queue.registerJob(parameters: Send.self) { _, _ in }
            let running = world.start { await queue.run() }
            try await pushAndWait(queue)
            await queue.shutdown()
            await running.value
        }
        #expect(!log.all.isEmpty && log.all.allSatisfy { !$0.isOnExecutor })
    }
}
#endif
