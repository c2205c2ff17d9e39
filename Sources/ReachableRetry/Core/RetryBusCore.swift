internal import HeapModule

/// The decisions of a retry bus: what becomes of jobs when time passes, conditions change and attempts end.
///
/// Pure: it is told the time and what conditions say, and returns what is to be done. A job's life:
///
/// ```
/// submitted → waiting ⇄ backing off → running → ended
///                 ↑          ↑           │
///                 └──────────┴─ judged ←─┘ failed
/// ```
package struct RetryBusCore: Sendable {
    let release: ReleasePolicy
    var jobs: [JobState?] = []
    private var freeJobs: [JobIndex] = []
    private(set) var generations: [UInt32] = []
    /// Where the generations of new places begin: above all that were.
    private var firstGeneration: UInt32 = 0
    var conditions: [ConditionRecord?] = []
    private var freeConditions: [ConditionIndex] = []
    private var idle: [ConditionIndex] = []
    var gates = GateTable()
    var timers = TimerQueue()
    /// The times of the gates.
    var gateTimers = TimerQueue()
    /// The times at which scopes count as lost no more.
    var lossTimers = TimerQueue()
    /// The gates at which something has happened since jobs were last let go, and those with a job to let go.
    var stirred: [Int32] = []
    var candidates = Heap<Candidate>()
    /// How many attempts have a place, and how many may: in all, and of each destination.
    package internal(set) var running = 0
    let maxConcurrent: Int
    let maxConcurrentPerDestination: Int
    /// How many attempts may run since this machine ran out of something; `nil` if it has not.
    var shortage: Shortage?
    var chance: SplitMix64
    private var nextTurn: UInt64 = 0
    var effects: [Effect] = []
    var nudges: UInt64 = 0
    /// How many jobs there are.
    package private(set) var count = 0
    /// Whether no job may start any more.
    package internal(set) var isShutDown = false
    /// When attempts that still run after the end are cancelled.
    var drainEnd = BusTime.never

    /// - Parameters:
    ///   - maxConcurrent: how many attempts may run at a time; `nil` sets no limit, and less than 1 counts as 1.
    ///   - maxConcurrentPerDestination: the same of the attempts of one destination.
    ///   - seed: where chance begins.
    package init(
        release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil, maxConcurrentPerDestination: Int? = nil, seed: UInt64 = 0
    ) {
        self.release = release
        self.maxConcurrent = max(1, maxConcurrent ?? .max)
        self.maxConcurrentPerDestination = max(1, maxConcurrentPerDestination ?? .max)
        chance = SplitMix64(seed: seed)
    }

    // MARK: - Conditions

    /// Begins to follow a condition.
    ///
    /// - Parameters:
    ///   - isReachability: whether it is a monitor's: without one that sees, its jobs go ahead.
    ///   - unknownUntil: how long to wait for the first look at it.
    package mutating func addCondition(_ level: Level, isReachability: Bool, unknownUntil: BusTime) -> ConditionIndex {
        let record = ConditionRecord(level, isReachability: isReachability, unknownUntil: unknownUntil)
        if let index = freeConditions.popLast() {
            conditions[Int(index)] = record
            return index
        }
        conditions.append(record)
        return ConditionIndex(conditions.count - 1)
    }

    /// Forgets a condition that no job uses.
    ///
    /// Returns whether it was forgotten.
    package mutating func removeCondition(_ index: ConditionIndex) -> Bool {
        guard conditions[Int(index)]?.uses == 0 else { return false }
        conditions[Int(index)] = nil
        lossTimers.cancel(index)
        gates.removeAll(of: index)
        freeConditions.append(index)
        return true
    }

    // MARK: - The life of a job

    /// Takes in a job.
    ///
    /// - Parameters:
    ///   - parent: the attempt that submits it.
    ///   - notBefore: when its life begins, if that is later than now.
    package mutating func submit(
        _ rules: RetryPolicy.Rules, scope: ConditionIndex, conditions others: [ConditionIndex] = [], destination: String? = nil,
        priority: JobPriority = .normal, parent: ParentAttempt? = nil, notBefore: BusTime = .past, at now: BusTime
    ) -> (key: JobKey, number: UInt64, effects: [Effect]) {
        let index = freeJobs.popLast() ?? JobIndex(jobs.count)
        if index == jobs.count {
            jobs.append(nil)
            generations.append(firstGeneration)
        }
        let gate = useGate(scope, destination, at: now)
        // It may end here and now, and its place with it.
        let (key, rank) = (key(index), takeTurn(priority))
        jobs[Int(index)] = JobState(rules, scope: scope, conditions: others, gate: gate, rank: rank, submitted: max(now, notBefore))
        if notBefore > now { jobs[Int(index)]?.history.hard = notBefore }
        if let parent { jobs[Int(index)]?.history.parent = parent }
        count += 1
        for condition in CollectionOfOne(scope) + others { conditions[Int(condition)]?.uses += 1 }
        advance(index, at: now)
        letGo(at: now)
        return (key, rank.number, takeEffects())
    }

    /// The gate for a job; one that is made soon after an edge or while the path flaps has to try the way as if it had been there.
    private mutating func useGate(_ scope: ConditionIndex, _ destination: String?, at now: BusTime) -> Int32 {
        let known = gates.count
        let gate = gates.use(scope, destination)
        if gates.count > known, let record = conditions[Int(scope)],
            record.isUnsteady || record.edgeAt != .past && now <= record.edgeAt + GateState.settlingTime
        {
            gates[gate].noteEdge(isUnsteady: record.isUnsteady, spreadUntil: record.spreadUntil, release.rules)
        }
        return gate
    }

    /// The running attempt succeeded.
    package mutating func succeed(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running else { return [] }
        dropSources(key.index)
        noteEndOfAttempt(key.index, job)
        noteAnswer(to: job)
        gates[job.gate].notePassage(of: job.history.round, release.rules)
        noteSuccess(job)
        tell(key.index, .succeeded)
        remove(key.index)
        letGo(at: now)
        return takeEffects()
    }

    /// The running attempt got something done, and goes on: that proves the way.
    ///
    /// - Parameter attempt: the number of the attempt that says so; one that has ended proves nothing.
    package mutating func noteProgress(_ key: JobKey, of attempt: Int, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running, Int(job.history.started) == attempt else { return [] }
        noteAnswer(to: job)
        gates[job.gate].notePassage(of: job.history.round, release.rules)
        makeRoom(key.index, job)
        stirred.append(job.gate)
        letGo(at: now)
        return takeEffects()
    }

    /// The running attempt leaves the limits: a sequence that has begun may go on for ever.
    package mutating func leaveLimits(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running else { return [] }
        givePlaceBack(key.index, job)
        stirred.append(job.gate)
        letGo(at: now)
        return takeEffects()
    }

    /// What was charged to a job before counts no more, and its delays start again from the first.
    package mutating func forgive(_ key: JobKey) {
        guard let job = self[key], job.phase == .running else { return }
        jobs[Int(key.index)]?.history.charged = 0
        jobs[Int(key.index)]?.history.failureIndex = 0
        jobs[Int(key.index)]?.history.connectivityIndex = 0
        jobs[Int(key.index)]?.history.previousDelay = nil
    }

    /// The caller no longer wants a job.
    ///
    /// A running attempt is cancelled and awaited.
    package mutating func cancel(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], !job.isCancelled else { return [] }
        if job.phase == .running {
            jobs[Int(key.index)]?.isCancelled = true
            interrupt(key.index, .cancelled)
        } else {
            end(key.index, .cancelled, at: now)
            letGo(at: now)
        }
        return takeEffects()
    }

    /// A place behind all that have one of this priority.
    mutating func takeTurn(_ priority: JobPriority) -> Turn {
        nextTurn += 1
        return Turn(priority, nextTurn)
    }

    /// Lets no job start any more: those that wait are cancelled, running attempts have until `drainEnd`.
    package mutating func shutDown(drainEnd: BusTime, at now: BusTime) -> [Effect] {
        isShutDown = true
        // Of several who end it, the least patient counts.
        self.drainEnd = min(self.drainEnd, drainEnd)
        for index in liveJobs where jobs[Int(index)]?.phase != .running { end(index, .cancelled, at: now) }
        if self.drainEnd <= now { cancelRunning() }
        return takeEffects()
    }

    /// The conditions of a job, its scope first.
    package func conditions(of key: JobKey) -> [ConditionIndex] { self[key].map { [$0.scope] + $0.conditions } ?? [] }

    func key(_ index: JobIndex) -> JobKey { JobKey(index: index, generation: generations[Int(index)]) }

    /// The job, unless it has ended.
    package subscript(key: JobKey) -> JobState? {
        guard Int(key.index) < jobs.count, generations[Int(key.index)] == key.generation else { return nil }
        return jobs[Int(key.index)]
    }

    /// All jobs, in the order in which they may start.
    var liveJobs: [JobIndex] {
        inOrder(jobs.indices.lazy.filter { jobs[$0] != nil }.map(JobIndex.init))
    }

    /// Jobs in the order in which they may start: by priority, and of the same priority the oldest first.
    func inOrder(_ indices: some Sequence<JobIndex>) -> [JobIndex] {
        indices.compactMap { index in jobs[Int(index)].map { ($0.rank, index) } }.sorted { $0.0 < $1.0 }.map(\.1)
    }

    mutating func end(_ index: JobIndex, _ ending: Ending, at now: BusTime) {
        guard jobs[Int(index)] != nil else { return }
        leave(index, at: now)
        tell(index, .ended(ending))
        effects.append(.end(key(index), ending))
        remove(index)
    }

    /// Frees what a job used.
    private mutating func remove(_ index: JobIndex) {
        timers.cancel(index)
        unregister(index)
        guard let job = jobs[Int(index)] else { return }
        for condition in CollectionOfOne(job.scope) + job.conditions { release(condition) }
        gates.release(job.gate)
        jobs[Int(index)] = nil
        generations[Int(index)] &+= 1
        freeJobs.append(index)
        count -= 1
        if count == 0 { shortage = nil }
    }

    mutating func release(_ condition: ConditionIndex) {
        conditions[Int(condition)]?.uses -= 1
        if conditions[Int(condition)]?.uses == 0 { idle.append(condition) }
    }

    /// The conditions that lost their last job since the last call; some may have a new one.
    package mutating func takeIdleConditions() -> [ConditionIndex] {
        defer { idle = [] }
        return idle
    }

    mutating func tell(_ index: JobIndex, _ news: News) {
        guard let job = jobs[Int(index)] else { return }
        let subject = Subject(
            key: key(index), number: job.number, scope: job.scope, destination: gates.destination(job.gate),
            started: Int(job.history.started), waited: job.history.waited)
        effects.append(.tell(subject, news))
    }

    mutating func takeEffects() -> [Effect] {
        if count == 0, jobs.count > Self.mostIdlePlaces { forgetPlaces() }
        defer { effects = [] }
        return effects
    }

    /// How many places without jobs are kept for the next ones.
    private static let mostIdlePlaces = 256

    /// Gives back the memory of a crowd that is gone.
    private mutating func forgetPlaces() {
        firstGeneration = (generations.max() ?? 0) &+ 1
        (jobs, generations, freeJobs) = ([], [], [])
        candidates = Heap()
    }
}
