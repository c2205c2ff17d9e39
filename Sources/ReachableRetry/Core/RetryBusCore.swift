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
    var dirtyGates: [Int32] = []
    var candidates = Heap<Candidate>()
    /// How many attempts have a place, and how many may: in all, and of each destination.
    package internal(set) var running = 0
    let maxConcurrent: Int
    let maxConcurrentPerDestination: Int
    /// How many attempts may run since this machine ran out of something; `nil` if it has not.
    var shortage: Shortage?
    var random: SplitMix64
    private var nextPosition: UInt64 = 0
    var effects: [Effect] = []
    var retryNows: UInt64 = 0
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
        random = SplitMix64(seed: seed)
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
        let (key, rank) = (key(index), takePosition(priority))
        jobs[Int(index)] = JobState(rules, scope: scope, conditions: others, gate: gate, rank: rank, submitted: max(now, notBefore))
        if notBefore > now { jobs[Int(index)]?.history.hard = notBefore }
        if let parent { jobs[Int(index)]?.history.parent = parent }
        count += 1
        for condition in CollectionOfOne(scope) + others { conditions[Int(condition)]?.uses += 1 }
        advance(index, at: now)
        releaseJobs(at: now)
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
        publish(key.index, .succeeded)
        remove(key.index)
        releaseJobs(at: now)
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
        dirtyGates.append(job.gate)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// The running attempt leaves the limits: a sequence that has begun may go on for ever.
    package mutating func leaveLimits(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running else { return [] }
        givePlaceBack(key.index, job)
        dirtyGates.append(job.gate)
        releaseJobs(at: now)
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
            releaseJobs(at: now)
        }
        return takeEffects()
    }

    /// A place behind all that have one of this priority.
    mutating func takePosition(_ priority: JobPriority) -> QueuePosition {
        nextPosition += 1
        return QueuePosition(priority, nextPosition)
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
        publish(index, .ended(ending))
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

    mutating func publish(_ index: JobIndex, _ change: JobChange) {
        guard let job = jobs[Int(index)] else { return }
        let subject = Subject(
            key: key(index), number: job.number, scope: job.scope, destination: gates.destination(job.gate),
            started: Int(job.history.started), waited: job.history.waited)
        effects.append(.publish(subject, change))
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

/// What is changed about jobs after they were submitted.
extension RetryBusCore {
    /// Lets a job start no attempt until it is resumed.
    ///
    /// A running attempt goes on, and delays, deadlines and the clock of its life do. What it waited for is forgotten until then.
    package mutating func pause(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], !job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.insert(pauser)
        // One whose delay is being computed comes here when it is parked.
        if job.phase != .failed { advance(key.index, at: now) }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Lets a paused job go on: what happened meanwhile counts as if it had been there.
    package mutating func resume(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.remove(pauser)
        if job.phase != .failed { advance(key.index, at: now) }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Has a job need other conditions besides its scope, from now on.
    ///
    /// An edge that its delay has not met yet still ends it.
    package mutating func setConditions(_ new: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key] else { return [] }
        let missed = epoch(of: job) &- job.history.armedEpoch
        // In line it is registered with nothing but its gate, and goes on waiting for as long as it has.
        if !job.isQueued { leave(key.index, at: now) }
        for condition in new { conditions[Int(condition)]?.uses += 1 }
        for condition in job.conditions { release(condition) }
        jobs[Int(key.index)]?.conditions = new
        if let changed = self[key], changed.history.started > 0 {
            let armedEpoch = epoch(of: changed) &- missed
            jobs[Int(key.index)]?.history.armedEpoch = armedEpoch
        }
        switch job.phase {
        case .running:
            if job.rules.interruption?.heedsConditions == true {
                watchForLosses(key.index)
                reconsiderInterruption(key.index, at: now)
            }
        case .waiting, .backingOff: advance(key.index, at: now)
        case .failed: break
        }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Tells from which addresses the running attempt connects; once for each attempt, and only with a rule that heeds them.
    package mutating func setSources(_ sources: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.phase == .running, job.rules.interruption?.heedsSource == true,
            job.history.sources.isEmpty, !sources.isEmpty
        else { return [] }
        jobs[Int(key.index)]?.history.sources = sources
        for source in sources {
            conditions[Int(source)]?.uses += 1
            conditions[Int(source)]?.interruptible.insert(key.index)
        }
        reconsiderInterruption(key.index, at: now)
        return takeEffects()
    }

    /// The attempt is over, and its connections with it.
    mutating func dropSources(_ index: JobIndex) {
        guard let sources = jobs[Int(index)]?.history.sources, !sources.isEmpty else { return }
        jobs[Int(index)]?.history.sources = []
        for source in sources {
            conditions[Int(source)]?.interruptible.remove(index)
            release(source)
        }
    }
}

/// What the passing of time leads to.
extension RetryBusCore {
    /// When something happens next by itself: the one timer that a bus needs.
    package func nextTime() -> BusTime {
        min(
            timers.earliest, gateTimers.earliest, lossTimers.earliest, timeOfNextPlace, count == 0 ? .never : drainEnd)
    }

    /// Time has passed: everything happens that is due.
    package mutating func tick(at now: BusTime) -> [Effect] {
        if drainEnd <= now { cancelRunning() }
        while true {
            var found: [ConditionIndex] = []
            while let scope = lossTimers.popDue(at: now) { found.append(scope) }
            for scope in found.sorted() { endLoss(of: scope, at: now) }
            var due: [JobIndex] = []
            while let job = timers.popDue(at: now) { due.append(job) }
            while let gate = gateTimers.popDue(at: now) { dirtyGates.append(gate) }
            guard !due.isEmpty || !dirtyGates.isEmpty || hasPlace(at: now) else { return takeEffects() }
            // Their times are all over: whose was the first does not matter any more.
            for job in inOrder(due) { timeCame(job, at: now) }
            releaseJobs(at: now)
        }
    }

    /// The scopes of the jobs that are about to start because of the time.
    package func dueScopes(at now: BusTime) -> Set<ConditionIndex> {
        var scopes: Set<ConditionIndex> = []
        for case let job? in jobs where job.phase == .backingOff && job.waitsForScope && job.nextTime <= now {
            scopes.insert(job.scope)
        }
        if min(gateTimers.earliest, lossTimers.earliest) <= now {
            for case let job? in jobs where job.isQueued && job.waitsForScope { scopes.insert(job.scope) }
        }
        return scopes
    }

    private mutating func timeCame(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        switch job.phase {
        case .running:
            if job.deadline <= now {
                interrupt(index, .deadline)
            } else if job.limit <= now {
                interrupt(index, .timeout)
            } else if job.history.interruptAt <= now {
                interrupt(index, .loss)
            }
        case .waiting where job.deadline > now:
            guard job.waitsFor >= 0, let record = conditions[Int(job.waitsFor)] else { return arm(index) }
            if record.isUnknown, record.unknownUntil <= now {
                conditions[Int(job.waitsFor)]?.stopWaitingForTheFirstLook(at: now)
                conditionChanged(job.waitsFor, since: record, at: now)
                // It may still be its turn that it waits for.
                if jobs[Int(index)]?.phase == .waiting { arm(index) }
            } else if job.limit <= now {
                reconsiderLimit(index, job, record, at: now)
            } else {
                arm(index)
            }
        case .waiting, .backingOff, .failed:
            advance(index, at: now)
        }
    }

    /// A job has waited for long, or has stood in line for long.
    ///
    /// A loss tells those who stand in line nothing: their time is over only if the scope has been away for all of it.
    private mutating func reconsiderLimit(_ index: JobIndex, _ job: JobState, _ record: ConditionRecord, at now: BusTime) {
        let end = record.isOpen ? now + job.longestWait : record.unchangedSince + job.longestWait
        guard job.isQueued, end > now else { return giveUp(index, .waitLimit, at: now) }
        jobs[Int(index)]?.limit = end
        arm(index)
    }

    /// Has a running attempt cancelled.
    ///
    /// What happens to it after that no longer depends on time.
    mutating func interrupt(_ index: JobIndex, _ interruption: JobState.Interruption) {
        guard jobs[Int(index)]?.phase == .running, jobs[Int(index)]?.interruption == nil else { return }
        jobs[Int(index)]?.interruption = interruption
        timers.cancel(index)
        effects.append(.interrupt(key(index), interruption))
    }

    mutating func cancelRunning() {
        drainEnd = .never
        for index in liveJobs {
            jobs[Int(index)]?.isCancelled = true
            interrupt(index, .cancelled)
        }
    }

    /// Sets the job's timer to what it waits for now.
    mutating func arm(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        var time = job.nextTime
        // A monitor that is starting is not waited for as long as a network that is gone.
        if job.phase == .waiting, job.waitsFor >= 0, let record = conditions[Int(job.waitsFor)], record.isUnknown {
            time = min(time, record.unknownUntil)
        }
        if time.isNever { timers.cancel(index) } else { timers.arm(index, at: time) }
    }
}

/// A small random number generator, so that what a core decides follows from what it was given.
///
/// SplitMix64 by Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014), with the constants of
/// Stafford's variant 13.
package struct SplitMix64: RandomNumberGenerator, Hashable, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        // 2^64 divided by the golden ratio, odd: the state visits every value once.
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
