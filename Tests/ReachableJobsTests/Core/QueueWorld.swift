import Foundation
import ReachableRetry

@testable import ReachableJobs

/// Two workers on one store, without threads and clocks: every step is a choice of the caller.
///
/// The store is the state of ``MemoryStore``. The rules that it checks are those that a queue promises, not those of the code.
struct QueueWorld {
    struct Broken: Error, CustomStringConvertible {
        var description: String
    }

    /// The stage of a job's task, which the bus and the handler take part in.
    enum TaskStage {
        /// Waits on the bus.
        case waiting
        /// Waits for the store to record the start.
        case asking
        /// The handler runs.
        case running
    }

    struct RunningTask {
        var claimed: ClaimedJob
        var stage = TaskStage.waiting
        var isCancelled = false
    }

    struct Worker {
        var core: QueueCore
        var id: WorkerID?
        var batch: StoreBatch?
        var tasks: [JobTicket: RunningTask] = [:]
        var wakeAt = BusTime.never
        var isOpen = true
        /// Stopped, as by SIGSTOP: takes part in nothing.
        var isStopped = false
        var hasHint = false
        /// Ends after its running attempts.
        var isShuttingDown = false
        var hasEnded = false
        /// The store failed in its last batch.
        var isFailing = false
        /// The store's time of the last edge; the beginning counts as one.
        var edge: StoreInstant?
        var followed: Set<QueueCore.KindScope> = []
        var backlogs: Set<QueueCore.Gate> = []
        /// True if the bus has not changed since it was last asked for room, and will tell of its next change.
        var awaitsRoom = false
    }

    private(set) var store = MemoryStoreState()
    /// The claims whose attempts were allowed to start.
    private(set) var started: [JobTicket: WorkerID] = [:]
    /// The claims whose handlers were called.
    private(set) var ran: Set<JobTicket> = []
    /// The claims of whose attempts the store has a result.
    private(set) var resolved: Set<JobTicket> = []
    /// The number of crashes between the start of an attempt and the record of its result.
    private(set) var crashes: [DurableJobID: Int] = [:]
    /// The time for which the machine was suspended, in nanoseconds: leases stand still meanwhile.
    private(set) var suspended: Int64 = 0
    /// The wall clock's error, in seconds.
    private var clockError: Int64 = 0
    private var boots = 0
    private var bootBegan: Int64 = 0
    private(set) var clock = StoreClock(StoreClock.Reading(bootID: "0", boot: 0, wall: Self.firstWall))
    /// The time in nanoseconds; workers of every boot use it.
    private(set) var now: Int64 = 0
    private(set) var workers: [Worker] = []
    private(set) var ids: [DurableJobID] = []
    /// The number of successes that the store has accepted: those whose claim was still valid.
    private(set) var done: [DurableJobID: Int] = [:]
    private(set) var refused: Set<JobTicket> = []
    /// The jobs whose cancellation was answered with `cancelled`.
    private(set) var cancelled: Set<DurableJobID> = []
    private var generator: SplitMix64
    private(set) var overlaps = 0
    /// The effects that are left to carry out, with the numbers of their workers.
    private var effects: [(QueueCore.Effect, Int)] = []
    private var carriesOut = false
    /// The most attempts that run on the bus of each worker.
    let places: Int

    init(workers count: Int, seed: UInt64, places: Int = .max) {
        self.places = places
        generator = SplitMix64(seed: seed)
        for _ in 0..<count { workers.append(Worker(core: Self.core())) }
    }

    /// The most jobs that a worker holds.
    static let window = 2

    private static func core() -> QueueCore {
        // Times are whole seconds here.
        var core = QueueCore(window: window, firstWaitingLimit: window, patience: .seconds(1))
        core.register(QueueCore.Kind(versions: [1], limit: nil, maxAttempts: nil), name: "kind")
        return core
    }

    private var busTime: BusTime { BusTime(nanoseconds: now) }
    /// The wall-clock time of the start, after which ``StoreClock`` believes the wall clock: in 2026.
    private static let firstWall: Int64 = 1_770_000_000_000_000_000
    private static let second: Int64 = 1_000_000_000

    /// The reading of the machine's clocks.
    var reading: StoreClock.Reading {
        StoreClock.Reading(bootID: "\(boots)", boot: now - bootBegan, wall: Self.firstWall + now + clockError * Self.second)
    }

    private mutating func touchStore() {
        let (time, reading) = (StoreInstant(nanoseconds: now), reading)
        store.advance(
            to: clock.advance(to: reading), leaseTime: time.advanced(by: .nanoseconds(-suspended)), nodeTime: reading.boot,
            date: reading.date)
    }

    func job(_ id: DurableJobID) -> DurableJob? {
        store.find(JobFilter(ids: [id])).first
    }

    /// The store's row of a job, which is quicker than its public form.
    func row(_ id: DurableJobID) -> MemoryStoreState.Entry? { store.index(of: id).map { store.entries[$0] } }

    // MARK: - Steps

    /// Adds a job, which may have crashed before.
    mutating func push(
        serialKey: String? = nil, unique: JobQueue.Unique? = nil, crashes: Int = 0, isRepeatable: Bool = true
    ) throws {
        var job = NewJob(queue: "default", kind: "kind", payload: Data())
        job.id = DurableJobID(milliseconds: UInt64(ids.count), using: &generator)
        (job.serialKey, job.unique, job.isRepeatable) = (serialKey, unique, isRepeatable)
        touchStore()
        let receipt = try store.push([job], limit: nil)[0]
        if receipt.id == job.id { ids.append(job.id) }
        if crashes > 0, let index = store.index(of: receipt.id) {
            store.entries[index].job.counters.crashes = crashes
            store.entries[index].job.counters.started = crashes
            self.crashes[receipt.id] = crashes
        }
        try hint()
    }

    mutating func cancel(_ number: Int) throws {
        touchStore()
        let outcome = store.cancel(ids[number])
        if outcome == .cancelled { cancelled.insert(ids[number]) }
        try hint()
    }

    /// Tells every worker that the store has changed.
    mutating func hint() throws {
        store.hint = false
        for worker in workers.indices {
            // The kernel keeps it for a stopped process.
            if workers[worker].isStopped { workers[worker].hasHint = true } else { try send(.hint, to: worker) }
        }
    }

    mutating func begin(_ worker: Int) throws {
        workers[worker].edge = store.now
        try send(.began(nodeOffset: -bootBegan), to: worker)
    }

    /// Carries a worker's batch out, or lets it fail after some of its parts.
    ///
    /// - Parameter parts: The number of parts that succeed before it fails; `nil` if it does not fail.
    mutating func endBatch(of number: Int, failingAfter parts: Int? = nil) throws {
        guard let batch = workers[number].batch, !workers[number].isStopped else { return }
        workers[number].batch = nil
        touchStore()
        var reply = StoreBatch.Reply(rest: batch)
        do throws(JobStoreError) {
            try run(batch, parts ?? .max, &reply)
            if let id = reply.worker { workers[number].id = id }
        } catch {
            reply.error = error
        }
        // A replacement can bring an earlier job its key between its claim and its start.
        if let job = reply.claims?.jobs.first(where: { isBehind($0.job) }) {
            throw Broken(description: "\(job.ticket) is claimed before an earlier job with its serial key")
        }
        try send(.batchEnded(reply), to: number)
        try tellHints()
    }

    private mutating func tellHints() throws { if store.hint { try hint() } }

    private mutating func run(_ batch: StoreBatch, _ parts: Int, _ reply: inout StoreBatch.Reply) throws(JobStoreError) {
        var left = parts
        func part() throws(JobStoreError) {
            if left == 0 { throw JobStoreError(.busy, "busy", next: "wait") }
            left -= 1
        }
        let unknown = JobStoreError(.unknownWorker, "unknown", next: "register")
        if batch.registers {
            try part()
            reply.worker = store.register(queue: "default", node: "node")
        }
        guard let worker = batch.worker else { return }
        if !batch.writes.results.isEmpty {
            try part()
            reply.results = batch.writes.results.map { store.finish($0, by: worker) }
            for (result, outcome) in zip(batch.writes.results, reply.results) where outcome != .refused {
                if result.outcome == .succeeded { done[result.ticket.id, default: 0] += 1 }
                if !result.hasUnknownOutcome { resolved.insert(result.ticket) }
            }
            reply.rest.writes.results = []
        }
        if !batch.writes.starts.isEmpty {
            try part()
            let answers = batch.writes.starts.map { store.start($0, by: worker) }
            for (ticket, mayStart) in zip(batch.writes.starts, answers) where mayStart { started[ticket] = worker }
            (reply.starts, reply.rest.writes.starts) = (answers, [])
        }
        if batch.extends {
            try part()
            guard let cancelled = store.extend(worker) else { throw unknown }
            (reply.cancelled, reply.rest.extends) = (cancelled, false)
        }
        if batch.expires {
            try part()
            reply.expired = store.expire(queue: "default", limit: 10)
            reply.rest.expires = false
        }
        if let request = batch.claim {
            try part()
            guard let claims = store.claim(request) else { throw unknown }
            (reply.claims, reply.rest.claim) = (claims, nil)
            reply.cancelled += claims.cancelled
        }
        if batch.prunes { reply.pruned = 0 }
        if batch.unregisters {
            try part()
            store.end(worker, .unregistered)
            reply.rest.unregisters = false
        }
    }

    /// Takes a task one stage further; `succeeds` decides how its handler ends.
    mutating func step(_ ticket: JobTicket, of number: Int, succeeds: Bool) throws {
        guard let task = workers[number].tasks[ticket], !workers[number].isStopped else { return }
        switch task.stage {
        case .waiting:
            if task.isCancelled {
                workers[number].tasks[ticket] = nil
                try send(.withdrawn(ticket), to: number)
            } else if workers[number].isOpen, hasPlace(number) {
                workers[number].tasks[ticket]?.stage = .asking
                try send(.wantsStart(ticket), to: number)
            }
        case .asking: break
        case .running:
            workers[number].tasks[ticket] = nil
            try noteChangeOfBus(of: number)
            guard !task.isCancelled else { return try send(.withdrawn(ticket), to: number) }
            var counters = task.claimed.job.counters
            counters.started += 1
            let time = workers[number].core.storeTime(busTime)
            if succeeds {
                try send(.ended(AttemptResult(ticket, .succeeded, counters: counters, time: time)), to: number)
            } else {
                counters.networkFailures += 1
                let outcome = AttemptResult.Outcome.again(soft: .seconds(5), isNetwork: true, hard: nil)
                try send(.ended(AttemptResult(ticket, outcome, counters: counters, error: "x", time: time)), to: number)
            }
        }
    }

    /// Ends a task whose job cannot be decoded: it does not reach the bus.
    mutating func failToDecode(_ ticket: JobTicket, of number: Int) throws {
        workers[number].tasks[ticket] = nil
        try send(.undecodable(ticket), to: number)
    }

    /// True if the bus of a worker can start one more attempt.
    func hasPlace(_ number: Int) -> Bool { workers[number].tasks.values.count { $0.stage != .waiting } < places }

    /// Opens or closes the network of a worker.
    mutating func setOpen(_ isOpen: Bool, of number: Int) throws {
        guard workers[number].isOpen != isOpen, !workers[number].isStopped else { return }
        workers[number].isOpen = isOpen
        if isOpen, !workers[number].followed.isEmpty { workers[number].edge = store.now }
        if !workers[number].tasks.isEmpty { try noteChangeOfBus(of: number) }
        for kindScope in workers[number].followed { try send(.conditions(kindScope, isOpen: isOpen, isEdge: isOpen), to: number) }
    }

    /// Suspends the machine, and resumes it.
    mutating func suspend(for seconds: Int64) throws {
        suspended += seconds * Self.second
        try advance(by: seconds)
    }

    mutating func advance(by seconds: Int64) throws {
        try advance(to: now + seconds * Self.second)
    }

    /// Lets time pass, and runs the timers that are due.
    mutating func advance(to time: Int64) throws {
        now = time
        touchStore()
        for number in workers.indices where !workers[number].isStopped && workers[number].wakeAt <= busTime {
            workers[number].wakeAt = .never
            try send(.timer, to: number)
        }
        try tellHints()
    }

    /// The duration of a reboot in seconds, which only the wall clock tells.
    private static let bootTime: Int64 = 2

    /// Kills a worker's process, and starts another one.
    mutating func crash(_ number: Int, reboots: Bool = false) throws {
        touchStore()
        if reboots {
            now += Self.bootTime * Self.second
            (boots, bootBegan) = (boots + 1, now)
            touchStore()
            store.reboot()
            for other in workers.indices { workers[other] = Worker(core: Self.core()) }
            for other in workers.indices { try begin(other) }
        } else {
            if let id = workers[number].id {
                for (ticket, worker) in started where worker == id && isValid(ticket) { crashes[ticket.id, default: 0] += 1 }
                store.end(id, .crashed)
            }
            workers[number] = Worker(core: Self.core())
            try begin(number)
        }
        try tellHints()
    }

    /// Ends a worker after its running attempts, which it cancels after a time.
    mutating func shutDown(_ number: Int, drain: Int64) throws {
        guard !workers[number].isStopped, !workers[number].hasEnded else { return }
        workers[number].isShuttingDown = true
        try send(.shutDown(drainEnd: BusTime(nanoseconds: now + drain * Self.second)), to: number)
    }

    /// Moves the wall clock, and no other one.
    mutating func stepClock(by seconds: Int64) {
        // Nanoseconds since 1970 have 64 bits.
        clockError = min(max(clockError + seconds, -3_000_000_000), 3_000_000_000)
        touchStore()
    }

    /// Stops a worker, or lets it go on.
    mutating func setStopped(_ isStopped: Bool, of number: Int) throws {
        guard workers[number].isStopped != isStopped else { return }
        workers[number].isStopped = isStopped
        if !isStopped, workers[number].hasHint {
            workers[number].hasHint = false
            try send(.hint, to: number)
        }
        if !isStopped, workers[number].wakeAt <= busTime {
            workers[number].wakeAt = .never
            try send(.timer, to: number)
        }
    }

    // MARK: - Effects

    private mutating func send(_ event: QueueCore.Event, to number: Int) throws {
        guard !workers[number].isStopped, !workers[number].hasEnded else { return }
        let running = workers[number].tasks.values.count { $0.stage != .waiting }
        let room = Room(count: places == .max ? .max : places - running)
        var asksForRoom = false
        let new = workers[number].core.handle(event, at: busTime) { lanes in
            asksForRoom = true
            return (room, lanes.map { _ in Room() })
        }
        if asksForRoom { workers[number].awaitsRoom = true }
        effects += new.map { ($0, number) }
        guard !carriesOut else { return }
        carriesOut = true
        defer { carriesOut = false }
        while !effects.isEmpty {
            let (effect, number) = effects.removeFirst()
            try take(effect, number)
        }
    }

    /// Sends ``QueueCore/Event/room`` as the bus does: once after each time that it was asked for room, at its next change.
    ///
    /// Its gates change when a job is submitted, when an attempt ends, and with the network of its jobs; not when a job leaves that
    /// has not started.
    private mutating func noteChangeOfBus(of number: Int) throws {
        guard workers[number].awaitsRoom else { return }
        workers[number].awaitsRoom = false
        try send(.room, to: number)
    }

    private mutating func take(_ effect: QueueCore.Effect, _ number: Int) throws {
        switch effect {
        case .batch(let batch):
            if workers[number].batch != nil { throw Broken(description: "two batches of one worker at a time") }
            workers[number].batch = batch
        case .run(let claimed):
            if !workers[number].isOpen { throw Broken(description: "a job runs while its network is away") }
            if workers[number].isShuttingDown { throw Broken(description: "a job runs in a worker that shuts down") }
            let others = workers[number].tasks.values
            let isBesideALonelyOne = others.contains { !$0.isCancelled && Crashes.runsAlone($0.claimed.job.counters) }
            if isBesideALonelyOne || Crashes.runsAlone(claimed.job.counters) && !others.isEmpty {
                throw Broken(description: "a job that ended its process thrice does not run alone")
            }
            if workers[number].tasks.values.count(where: { !$0.isCancelled }) >= places {
                throw Broken(description: "a worker claims more jobs than its bus can start")
            }
            workers[number].tasks[claimed.ticket] = RunningTask(claimed: claimed)
            try noteChangeOfBus(of: number)
        case .cancel(let ticket): workers[number].tasks[ticket]?.isCancelled = true
        case .permit(let ticket, let mayStart): try permit(ticket, mayStart, number)
        case .follow(let kindScope):
            workers[number].followed.insert(kindScope)
            try send(.conditions(kindScope, isOpen: workers[number].isOpen, isEdge: false), to: number)
        case .unfollow(let kindScope): workers[number].followed.remove(kindScope)
        case .backlog(let gate, let isThere):
            let isNews =
                isThere ? workers[number].backlogs.insert(gate).inserted : workers[number].backlogs.remove(gate) != nil
            if !isNews { throw Broken(description: "a gate hears twice of a backlog") }
        case .wake(let time): workers[number].wakeAt = time
        case .ended(let cut):
            if !cut.allSatisfy(ids.contains) { throw Broken(description: "an unknown job was cut") }
            if workers[number].tasks.values.contains(where: { !$0.isCancelled }) {
                throw Broken(description: "a worker ends while its jobs run")
            }
            if !workers[number].backlogs.isEmpty { throw Broken(description: "a gate waits for jobs of a worker that has ended") }
            workers[number].hasEnded = true
        case .storeFails(let error): workers[number].isFailing = error != nil
        case .refused(let ticket):
            if !refused.insert(ticket).inserted { throw Broken(description: "a claim is refused twice") }
        case .gaveUp, .idle: break
        }
    }

    private mutating func permit(_ ticket: JobTicket, _ mayStart: Bool, _ number: Int) throws {
        guard mayStart, let task = workers[number].tasks[ticket], !task.isCancelled else {
            // Its handler is not called.
            guard workers[number].tasks.removeValue(forKey: ticket) != nil else { return }
            try noteChangeOfBus(of: number)
            return try send(.withdrawn(ticket), to: number)
        }
        guard let job = job(ticket.id) else { throw Broken(description: "a job is lost") }
        if cancelled.contains(ticket.id) { throw Broken(description: "a cancelled job starts") }
        let isBeside = workers.contains { worker in
            worker.tasks.values.contains { other in
                other.stage == .running && other.claimed.job.id != job.id && job.serialKey != nil
                    && self.job(other.claimed.job.id)?.serialKey == job.serialKey && isValid(other.claimed.ticket)
            }
        }
        if isBeside, isValid(ticket) { throw Broken(description: "two jobs with one serial key run at the same time") }
        if !job.isRepeatable, hasUnresolvedRun(ticket.id) {
            throw Broken(description: "a job that must not be repeated runs again, and its first outcome is unknown")
        }
        ran.insert(ticket)
        workers[number].tasks[ticket]?.stage = .running
        for (index, worker) in workers.enumerated() {
            for other in worker.tasks.values where other.stage == .running && other.claimed.job.id == ticket.id {
                guard index != number || other.claimed.ticket.claim != ticket.claim else { continue }
                if isUnderLease(other.claimed.ticket) {
                    throw Broken(description: "two attempts of one job run under valid leases")
                }
                // Only a worker that was stopped beyond its lease may overlap.
                overlaps += 1
            }
        }
    }

    /// True if the handler of a job was called, and the store has no result of it.
    func hasUnresolvedRun(_ id: DurableJobID) -> Bool { ran.contains { $0.id == id && !resolved.contains($0) } }

    /// True if an earlier job with the key of this one is unfinished.
    private func isBehind(_ job: DurableJob) -> Bool {
        guard let key = job.serialKey else { return false }
        return ids.contains { self.job($0).map { $0.serialKey == key && $0.position < job.position && !$0.state.isFinal } ?? false }
    }

    /// True if a claim's attempt was started under a lease that has not ended.
    func isUnderLease(_ ticket: JobTicket) -> Bool { started[ticket].map { store.workers[$0] != nil } ?? false }

    /// True if a claim counts.
    func isValid(_ ticket: JobTicket) -> Bool {
        row(ticket.id).map { $0.job.state == .running && $0.claim == ticket.claim } ?? false
    }
}

extension AttemptResult {
    fileprivate var hasUnknownOutcome: Bool { outcome == .failed(reason: "outcomeUnknown") }
}
