internal import HeapModule

/// The decisions of a retry bus when time passes, conditions change and attempts end.
///
/// Pure: times and levels are arguments, and effects are returned. A job's life:
///
/// ```
/// submitted → waiting ⇄ backing off → running → ended
///                 ↑          ↑           │
///                 └──────────┴── failed ─┘
/// ```
package struct RetryBusCore: Sendable {
    private(set) var release: ReleasePolicy
    var jobs: [JobState?] = []
    private var freeJobs: [JobIndex] = []
    private(set) var generations: [UInt32] = []
    /// The first generation of new places, above all earlier ones.
    private var firstGeneration: UInt32 = 0
    /// The number of places in use, with those of ended jobs.
    package private(set) var usedPlaces = 0
    var conditions: [ConditionRecord?] = []
    private var freeConditions: [ConditionIndex] = []
    private var idle: [ConditionIndex] = []
    var gates = GateTable()
    var timers = TimerQueue()
    /// The timers of the gates.
    var gateTimers = TimerQueue()
    /// The ends of scopes' losses.
    var lossTimers = TimerQueue()
    /// The gates that changed since jobs were last released, and those with a job to release.
    var dirtyGates: [Int32] = []
    var candidates = Heap<Candidate>()
    /// The number of candidates so far.
    var candidateCount: UInt64 = 0
    var loans = LoanTable()
    /// The number of attempts with a place, and its limits in all and per destination.
    package internal(set) var running = 0
    let maxConcurrent: Int
    let maxConcurrentPerDestination: Int
    /// The limit of attempts after a shortage on this machine; `nil` without one.
    var shortage: Shortage?
    var random: SplitMix64
    private var nextPosition: UInt64 = 0
    var effects: [Effect] = []
    var retryNows: UInt64 = 0
    /// True if a gate has changed: see ``takeRoomNews()``.
    var hasRoomNews = false
    /// The number of jobs that have not ended.
    package private(set) var count = 0
    /// True after the shutdown began, when no job starts.
    package internal(set) var isShutDown = false
    /// The time at which a shutdown cancels running attempts.
    var drainEnd = BusTime.never

    /// - Parameters:
    ///   - maxConcurrent: The most attempts that run at a time; `nil` sets no limit. Values below 1 are treated as 1.
    ///   - maxConcurrentPerDestination: The same for one destination.
    ///   - seed: The seed of random numbers.
    package init(
        release: ReleasePolicy = .immediate, maxConcurrent: Int? = nil, maxConcurrentPerDestination: Int? = nil,
        seed: UInt64 = 0
    ) {
        self.release = release
        self.maxConcurrent = max(1, maxConcurrent ?? .max)
        self.maxConcurrentPerDestination = max(1, maxConcurrentPerDestination ?? .max)
        random = SplitMix64(seed: seed)
    }

    /// The number of machines that regain the same servers at an edge, this one included.
    package var fleetSize: Int {
        get { release.rules.fleetSize }
        set { release.rules.fleetSize = newValue }
    }

    // MARK: - Conditions

    /// Begins to follow a condition.
    ///
    /// - Parameters:
    ///   - isReachability: True for a monitor's condition, whose jobs start if the monitor has no verdict.
    ///   - unknownUntil: The end of the wait for the first verdict.
    package mutating func addCondition(_ level: Level, isReachability: Bool, unknownUntil: BusTime) -> ConditionIndex {
        let record = ConditionRecord(level, isReachability: isReachability, unknownUntil: unknownUntil)
        if let index = freeConditions.popLast() {
            conditions[Int(index)] = record
            return index
        }
        conditions.append(record)
        return ConditionIndex(conditions.count - 1)
    }

    /// Removes a condition that no job uses; returns `false` if a job uses it.
    package mutating func removeCondition(_ index: ConditionIndex) -> Bool {
        guard conditions[Int(index)]?.uses == 0 else { return false }
        conditions[Int(index)] = nil
        lossTimers.cancel(index)
        gates.removeAll(of: index)
        freeConditions.append(index)
        return true
    }

    // MARK: - The life of a job

    /// Adds a job.
    ///
    /// - Parameters:
    ///   - lenders: The attempts that wait for it.
    ///   - hasEventReader: True if a reader follows its events, and each attempt waits for it.
    ///   - notBefore: The start of its life, if later than now.
    ///   - past: The attempts of earlier lives; given, a failure ends this life.
    package mutating func submit(
        _ rules: RetryPolicy.Rules, scope: ConditionIndex, conditions others: [ConditionIndex] = [], destination: String? = nil,
        priority: JobPriority = .normal, lenders: [AttemptKey] = [], hasEventReader: Bool = false, notBefore: BusTime = .past,
        past: JobPast? = nil, at now: BusTime
    ) -> (key: JobKey, number: UInt64, effects: [Effect]) {
        let index = freeJobs.popLast() ?? JobIndex(jobs.count)
        if index == jobs.count {
            jobs.append(nil)
            generations.append(firstGeneration)
        }
        let gate = useGate(scope, destination, at: now)
        let (key, rank) = (key(index), takePosition(priority))
        let submitted = past.map { now + (.zero - $0.elapsed) } ?? max(now, notBefore)
        jobs[Int(index)] = JobState(rules, scope: scope, conditions: others, gate: gate, rank: rank, submitted: submitted)
        if let past {
            jobs[Int(index)]?.history = JobHistory(past)
            jobs[Int(index)]?.history.handsBack = true
            if past.isNetworkFailure { jobs[Int(index)]?.history.lastFault = .network }
        }
        if notBefore > now { jobs[Int(index)]?.history.hard = notBefore }
        if !lenders.isEmpty { jobs[Int(index)]?.history.lenders = lenders }
        if hasEventReader { jobs[Int(index)]?.history.hasEventReader = true }
        (count, usedPlaces) = (count + 1, usedPlaces + 1)
        for condition in CollectionOfOne(scope) + others { retain(condition) }
        advance(index, at: now)
        releaseJobs(at: now)
        return (key, rank.number, takeEffects())
    }

    /// Returns the gate of a job.
    ///
    /// A gate that is created soon after an edge or during flapping probes as if it had seen the edge.
    private mutating func useGate(_ scope: ConditionIndex, _ destination: String?, at now: BusTime) -> Int32 {
        let known = gates.count
        let gate = gates.use(scope, destination)
        if gates.count > known, let record = conditions[Int(scope)], isNewGateProbing(record, at: now) {
            noteEdge(at: gate, record, at: now)
        }
        return gate
    }

    func isNewGateProbing(_ record: ConditionRecord, at now: BusTime) -> Bool {
        record.isUnsteady || record.edgeAt != .past && now <= record.edgeAt + GateState.settlingTime
    }

    /// Records that more jobs for a gate are stored elsewhere than were submitted, or that no more are.
    ///
    /// They pass the gate as jobs do that wait in its queue. Each call with `true` needs one with `false`.
    package mutating func setStoredBacklog(
        _ isThere: Bool, scope: ConditionIndex, destination: String?, at now: BusTime
    ) -> [Effect] {
        let gate = useGate(scope, destination, at: now)
        if isThere {
            retain(scope)
            gates[gate].storedBacklogs += 1
            noteBacklog(at: gate, at: now)
        } else {
            gates[gate].storedBacklogs -= 1
            // The use of this call, and that of the call with `true`.
            gates.release(gate)
            gates.release(gate)
            release(scope)
            dirtyGates.append(gate)
        }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Ends a job whose running attempt succeeded.
    package mutating func succeed(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], let attempt = job.attempt else { return [] }
        noteEndOfAttempt(key.index, job, attempt)
        noteAnswer(to: job, in: attempt.scopeEpoch)
        gates[job.gate].notePassage(of: attempt.round, release.rules)
        noteSuccess(job)
        publish(key.index, .succeeded)
        finish(key.index, nil)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Records progress of a running attempt, which proves the path.
    ///
    /// - Parameter attempt: The number of the attempt. An attempt that has ended proves nothing.
    package mutating func noteProgress(_ key: JobKey, of attempt: Int, at now: BusTime) -> [Effect] {
        guard let (job, attempt) = running(key, attempt) else { return [] }
        noteAnswer(to: job, in: attempt.scopeEpoch)
        gates[job.gate].notePassage(of: attempt.round, release.rules)
        makeRoom(key.index, job.gate, attempt)
        dirtyGates.append(job.gate)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Records how much of a transfer is kept; more than ever before proves the path.
    ///
    /// - Parameter attempt: The number of the attempt.
    package mutating func noteKept(_ bytes: Int64, _ key: JobKey, of attempt: Int, at now: BusTime) -> [Effect] {
        guard let (job, _) = running(key, attempt), bytes > job.history.kept else { return [] }
        jobs[Int(key.index)]?.history.kept = bytes
        // What lives before this one have kept.
        guard job.history.kept >= 0 else {
            jobs[Int(key.index)]?.attempt?.keptBefore = bytes
            return []
        }
        return noteProgress(key, of: attempt, at: now)
    }

    /// Publishes a warning about a running attempt.
    package mutating func warn(_ text: String, _ key: JobKey, of attempt: Int) -> [Effect] {
        guard running(key, attempt) != nil else { return [] }
        publish(key.index, .warned(text))
        return takeEffects()
    }

    /// Returns a job whose attempt of this number is running.
    private func running(_ key: JobKey, _ number: Int) -> (JobState, RunningState)? {
        guard let job = self[key], let attempt = job.attempt, Int(job.history.started) == number else { return nil }
        return (job, attempt)
    }

    /// Records that the operation of a running attempt begins: the attempt's time limit counts from now.
    package mutating func begin(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], let attempt = job.attempt, attempt.interruption == nil, attempt.limit.isNever,
            let timeout = job.rules.attemptTimeout
        else { return [] }
        jobs[Int(key.index)]?.attempt?.limit = now + timeout
        arm(key.index)
        return takeEffects()
    }

    /// Takes a running attempt out of the limits, because a sequence that has begun may never end.
    package mutating func leaveLimits(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], let attempt = job.attempt else { return [] }
        givePlaceBack(key.index, job.gate, attempt)
        dirtyGates.append(job.gate)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Resets a job's charged attempts and its backoff.
    package mutating func forgive(_ key: JobKey) {
        guard let job = self[key], job.isRunning else { return }
        jobs[Int(key.index)]?.history.charged = 0
        jobs[Int(key.index)]?.history.failureIndex = 0
        jobs[Int(key.index)]?.history.connectivityIndex = 0
        jobs[Int(key.index)]?.history.previousDelay = nil
    }

    /// Cancels a job.
    ///
    /// A running attempt is cancelled and awaited.
    package mutating func cancel(_ key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key] else { return [] }
        if let attempt = job.attempt {
            guard !attempt.isCancelled else { return [] }
            jobs[Int(key.index)]?.attempt?.isCancelled = true
            interrupt(key.index, .cancelled)
        } else {
            end(key.index, .cancelled, at: now)
            releaseJobs(at: now)
        }
        return takeEffects()
    }

    /// Returns a position behind all others of this priority.
    mutating func takePosition(_ priority: JobPriority) -> QueuePosition {
        nextPosition += 1
        return QueuePosition(priority, nextPosition)
    }

    /// Begins the shutdown: cancels waiting jobs, and running attempts at `drainEnd`.
    package mutating func shutDown(drainEnd: BusTime, at now: BusTime) -> [Effect] {
        isShutDown = true
        // The earliest end of several shutdowns applies.
        self.drainEnd = min(self.drainEnd, drainEnd)
        for index in liveJobs where jobs[Int(index)]?.isRunning == false { end(index, .cancelled, at: now) }
        if self.drainEnd <= now { cancelRunning() }
        return takeEffects()
    }

    /// The conditions of a job, its scope first.
    package func conditions(of key: JobKey) -> [ConditionIndex] { self[key].map { [$0.scope] + $0.conditions } ?? [] }

    func key(_ index: JobIndex) -> JobKey { JobKey(index: index, generation: generations[Int(index)]) }

    /// The job, unless it has ended.
    package subscript(key: JobKey) -> JobState? {
        guard let job = job(key), !job.hasEnded else { return nil }
        return job
    }

    /// Returns the job, also if it has ended and its end has not been read.
    func job(_ key: JobKey) -> JobState? { isPlace(of: key) ? jobs[Int(key.index)] : nil }

    private func isPlace(of key: JobKey) -> Bool {
        Int(key.index) < jobs.count && generations[Int(key.index)] == key.generation
    }

    /// Changes the part of a job's driver in place; returns what `change` returns, or `nil` if the end of the job has been read.
    // Not a subscript: its coroutine would allocate a frame with each access.
    @discardableResult
    mutating func update<Value>(_ key: JobKey, _ change: (inout DriverState) -> Value) -> Value? {
        guard isPlace(of: key) else { return nil }
        return jobs[Int(key.index)]?.apply(change)
    }

    /// Removes and returns a job that has ended.
    ///
    /// To be released outside of the bus's lock: it holds errors and closures of its caller.
    mutating func takeEnded(_ key: JobKey) -> JobState? {
        guard let job = job(key), job.hasEnded else { return nil }
        jobs[Int(key.index)] = nil
        generations[Int(key.index)] &+= 1
        freeJobs.append(key.index)
        usedPlaces -= 1
        return job
    }

    /// All jobs in the order in which they start.
    var liveJobs: [JobIndex] {
        inOrder(jobs.indices.lazy.filter { jobs[$0]?.hasEnded == false }.map(JobIndex.init))
    }

    /// Returns jobs in the order in which they start: by priority, then by age.
    func inOrder(_ indices: some Sequence<JobIndex>) -> [JobIndex] {
        indices.compactMap { index in jobs[Int(index)].map { ($0.rank, index) } }.sorted { $0.0 < $1.0 }.map(\.1)
    }

    mutating func end(_ index: JobIndex, _ ending: Ending, at now: BusTime) {
        guard jobs[Int(index)] != nil else { return }
        leave(index, at: now)
        publish(index, .ended(ending))
        effects.append(.end(key(index), ending))
        finish(index, JobEnd(ending: ending))
    }

    /// Ends a job and frees what it used, but for its place: see ``takeEnded(_:)``.
    ///
    /// - Parameter end: The end that its driver reads; `nil` if the driver knows it.
    mutating func finish(_ index: JobIndex, _ end: JobEnd?) {
        timers.cancel(index)
        unregister(index)
        guard let job = jobs[Int(index)] else { return }
        for condition in CollectionOfOne(job.scope) + job.conditions { release(condition) }
        gates.release(job.gate)
        jobs[Int(index)]?.phase = .ended(end)
        count -= 1
        if count == 0 { shortage = nil }
    }

    /// Begins a use of a condition: by a job, or for jobs that are stored elsewhere, so that their gates see the edges before them.
    package mutating func retain(_ condition: ConditionIndex) { conditions[Int(condition)]?.uses += 1 }

    /// Ends a use of a condition.
    package mutating func release(_ condition: ConditionIndex) {
        conditions[Int(condition)]?.uses -= 1
        if conditions[Int(condition)]?.uses == 0 { idle.append(condition) }
    }

    /// Removes and returns the conditions that lost their last job since the last call.
    ///
    /// Some may have a new job.
    package mutating func takeIdleConditions() -> [ConditionIndex] {
        defer { idle = [] }
        return idle
    }

    mutating func publish(_ index: JobIndex, _ change: JobChange) {
        guard let job = jobs[Int(index)] else { return }
        let changed = ChangedJob(
            key: key(index), number: job.number, scope: job.scope, destination: gates.destination(job.gate),
            started: Int(job.history.started), waited: job.history.waited)
        effects.append(.publish(changed, change))
    }

    mutating func takeEffects() -> [Effect] {
        if usedPlaces == 0, jobs.count > Self.mostIdlePlaces { forgetPlaces() }
        defer { effects = [] }
        return effects
    }

    /// The most places without jobs that are kept.
    private static let mostIdlePlaces = 256

    /// Releases the memory of many jobs that have ended.
    private mutating func forgetPlaces() {
        firstGeneration = (generations.max() ?? 0) &+ 1
        (jobs, generations, freeJobs) = ([], [], [])
        (candidates, loans) = (Heap(), LoanTable())
    }
}

// MARK: - Changes of submitted jobs

extension RetryBusCore {
    /// Pauses a job: it starts no attempt until it is resumed.
    ///
    /// A running attempt, delays and deadlines continue. The job leaves its queue or wait.
    package mutating func pause(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], !job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.insert(pauser)
        advance(key.index, at: now)
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Resumes a paused job, which sees the edges that came meanwhile.
    package mutating func resume(_ key: JobKey, by pauser: JobState.Pausers = .owner, at now: BusTime) -> [Effect] {
        guard let job = self[key], job.pausers.contains(pauser) else { return [] }
        jobs[Int(key.index)]?.pausers.remove(pauser)
        // The reader of a job's events asks for each attempt.
        if pauser == .owner { letGo([key.index], at: now) } else { advance(key.index, at: now) }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Replaces a job's conditions besides its scope.
    ///
    /// An edge that came before still ends its delay.
    package mutating func setConditions(_ new: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key] else { return [] }
        let missed = epoch(of: job) &- job.history.armedEpoch
        // A queued job is registered only with its gate, and keeps its wait.
        if job.isRunning { unwatchLosses(of: key.index, job) } else if !job.isQueued { leave(key.index, at: now) }
        for condition in new { retain(condition) }
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
        case .queued: advance(key.index, at: now)
        case .resting, .waiting, .backingOff: letGo([key.index], at: now)
        case .ended: break
        }
        releaseJobs(at: now)
        return takeEffects()
    }

    /// Sets the source addresses of a running attempt; once per attempt, and only with a rule that depends on them.
    package mutating func setSources(_ sources: [ConditionIndex], of key: JobKey, at now: BusTime) -> [Effect] {
        guard let job = self[key], let attempt = job.attempt, job.rules.interruption?.heedsSource == true,
            attempt.sources.isEmpty, !sources.isEmpty
        else { return [] }
        jobs[Int(key.index)]?.attempt?.sources = sources
        for source in sources {
            retain(source)
            conditions[Int(source)]?.interruptible.insert(key.index)
        }
        reconsiderInterruption(key.index, at: now)
        return takeEffects()
    }
}

// MARK: - Time

extension RetryBusCore {
    /// The time of the bus's next timer.
    package func nextTime() -> BusTime {
        min(
            timers.earliest, gateTimers.earliest, lossTimers.earliest, timeOfNextPlace, count == 0 ? .never : drainEnd)
    }

    /// Runs everything that is due.
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
            // All are due, so their order of times does not matter.
            for job in inOrder(due) { timeCame(job, at: now) }
            releaseJobs(at: now)
        }
    }

    /// Returns the scopes of the jobs that are about to start because of the time.
    package func dueScopes(at now: BusTime) -> Set<ConditionIndex> {
        var scopes: Set<ConditionIndex> = []
        for case let job? in jobs where job.isBackingOff && job.waitsForScope && job.nextTime <= now {
            scopes.insert(job.scope)
        }
        if min(gateTimers.earliest, lossTimers.earliest) <= now {
            for case let job? in jobs where job.isQueued && job.waitsForScope { scopes.insert(job.scope) }
        }
        return scopes
    }

    private mutating func timeCame(_ index: JobIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        if let attempt = job.attempt {
            if job.deadline <= now {
                interrupt(index, .deadline)
            } else if attempt.limit <= now {
                interrupt(index, .timeout)
            } else if attempt.interruptAt <= now {
                interrupt(index, .loss)
            }
            return
        }
        guard job.deadline > now, !job.isBackingOff else { return advance(index, at: now) }
        guard let condition = job.waitsFor, let record = conditions[Int(condition)] else { return arm(index) }
        if record.isUnknown, record.unknownUntil <= now {
            conditions[Int(condition)]?.stopWaitingForTheFirstLook(at: now)
            conditionChanged(condition, since: record, at: now)
            // The job may still wait.
            if jobs[Int(index)]?.waitsFor != nil { arm(index) }
        } else if case .queued(let closedSince, let limit) = job.phase, limit <= now {
            // A loss does not touch queued jobs, so their wait is over only if the scope was closed for all of it.
            let end = record.isOpen ? now + job.longestWait : record.unchangedSince + job.longestWait
            if end <= now { return giveUp(index, .waitLimit, at: now) }
            jobs[Int(index)]?.phase = .queued(closedSince: closedSince, limit: end)
            arm(index)
        } else {
            arm(index)
        }
    }

    /// Cancels a running attempt, and its timer.
    mutating func interrupt(_ index: JobIndex, _ interruption: JobState.Interruption) {
        guard let attempt = jobs[Int(index)]?.attempt, attempt.interruption == nil else { return }
        jobs[Int(index)]?.attempt?.interruption = interruption
        timers.cancel(index)
        effects.append(.interrupt(key(index), interruption))
    }

    mutating func cancelRunning() {
        drainEnd = .never
        for index in liveJobs {
            jobs[Int(index)]?.attempt?.isCancelled = true
            interrupt(index, .cancelled)
        }
    }

    /// Sets the job's timer to what it waits for now.
    mutating func arm(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        var time = job.nextTime
        // The wait for a first verdict is shorter than that for the network.
        if let condition = job.waitsFor, let record = conditions[Int(condition)], record.isUnknown {
            time = min(time, record.unknownUntil)
        }
        if time.isNever { timers.cancel(index) } else { timers.arm(index, at: time) }
    }
}

/// A small random number generator, so that decisions follow from the core's inputs.
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
