internal import HeapModule

/// The release of queued jobs.
extension RetryBusCore {
    /// A gate with a job that may start.
    struct Candidate: Comparable, Sendable {
        var position: QueuePosition
        var gate: Int32
        /// Tells it from an earlier one of the same job.
        var number: UInt64

        static func < (left: Candidate, right: Candidate) -> Bool { left.position < right.position }
    }

    /// The job that a gate releases next.
    private struct Head {
        var position: QueuePosition
        var job: JobIndex
        var pass: GateState.Pass
    }

    /// Starts the jobs that may start at the dirty gates, the most urgent and oldest first.
    ///
    /// The cost depends on the number of dirty gates and started jobs, not of queued ones. A destination that has its share
    /// comes last.
    mutating func releaseJobs(at now: BusTime) {
        if !dirtyGates.isEmpty { hasRoomNews = true }
        lendPlaces(at: now)
        while let gate = dirtyGates.popLast() {
            present(gate, at: now)
        }
        for mustShare in [true, false] {
            var later: [Candidate] = []
            while running < limit(at: now), let candidate = candidates.popMin() {
                // Stale: the gate has presented another job since, or has none.
                guard gates[candidate.gate].ready == candidate else { continue }
                if mustShare, candidate.position.priority != .interactive, hasItsShare(candidate.gate) {
                    later.append(candidate)
                    continue
                }
                gates[candidate.gate].ready = nil
                guard let head = head(of: candidate.gate, at: now) else { continue }
                if head.position == candidate.position { proceed(head.job, head.pass, at: now) }
                present(candidate.gate, at: now)
            }
            if later.isEmpty { return }
            for candidate in later { candidates.insert(candidate) }
        }
    }

    /// Returns true if a destination holds half of the places, so that others come first.
    private func hasItsShare(_ gate: Int32) -> Bool {
        maxConcurrent < .max && gates[gate].running >= max(1, maxConcurrent / 2) && gates.destination(gate) != nil
    }

    /// Returns true if a destination has as many attempts as this job's bus and policy allow.
    func isFull(_ gate: Int32, for job: JobState) -> Bool {
        let limit = min(maxConcurrentPerDestination, job.rules.maxConcurrentPerDestination ?? .max)
        return limit < .max && gates[gate].running >= limit && gates.destination(gate) != nil
    }

    /// Returns the limit of running attempts.
    func limit(at now: BusTime) -> Int { min(maxConcurrent, shortage?.limit(at: now) ?? .max) }

    /// Returns true if a job that a shortage delayed may start.
    func hasPlace(at now: BusTime) -> Bool {
        let time = timeOfNextPlace
        return !time.isNever && time <= now && running < limit(at: now)
    }

    /// The time at which one more attempt may run, if a shortage delays jobs.
    var timeOfNextPlace: BusTime {
        guard let shortage, running < maxConcurrent else { return .never }
        let hasCandidate = candidates.unordered.contains { gates[$0.gate].ready == $0 }
        return hasCandidate ? shortage.time(of: running) : .never
    }

    /// True if jobs may have to wait for others.
    private var isLimited: Bool {
        release.rules.hasCanaries || release.rules.pace != nil || maxConcurrent < .max || shortage != nil
    }

    /// Makes a gate's first job a candidate.
    private mutating func present(_ gate: Int32, at now: BusTime) {
        guard let head = head(of: gate, at: now), head.position != gates[gate].ready?.position else { return }
        candidateCount += 1
        let candidate = Candidate(position: head.position, gate: gate, number: candidateCount)
        gates[gate].ready = candidate
        candidates.insert(candidate)
        // A bus that is full takes none out.
        guard candidates.count > 2 * gates.count + 64 else { return }
        candidates = Heap(candidates.unordered.filter { [gates] in gates[$0.gate].ready == $0 })
    }

    /// Returns the job that a gate may release now; otherwise sets the gate's timer.
    private mutating func head(of gate: Int32, at now: BusTime) -> Head? {
        guard !gates[gate].queues.isEmpty, let record = conditions[Int(gates.scope(gate))] else {
            gates[gate].noteIdle(at: now)
            return nil
        }
        retireLongRuns(of: gate, at: now)
        if gates[gate].queues.gatedCount == 0 { gates[gate].noteIdle(at: now) }
        var earliest = BusTime.never
        var best: Head?
        for queueClass in gates[gate].queueClasses(isLimited: isLimited) where !queueClass.waitsForScope || record.isOpen {
            let entry = gates[gate].queues[queueClass].first { [jobs] in jobs[Int($0.job)]?.isQueued(as: $0) == true }
            guard let entry, let job = jobs[Int(entry.job)] else { continue }
            // A job that is alone keeps only its own delays.
            let hasPaused = gates[gate].uses == 1 && job.history.lastWasCharged
            switch gates[gate].permission(queueClass, hasPaused: hasPaused, release.rules, at: now) {
            // The end of another attempt makes the gate dirty again.
            case .granted where isFull(gate, for: job): continue
            case .granted(let pass):
                let head = Head(position: entry.position, job: entry.job, pass: pass)
                // Classes that are not gated have jobs of all priorities.
                if best.map({ head.position < $0.position }) ?? true { best = head }
                if queueClass.isGated { return best }
            case .later(let time, _): earliest = min(earliest, time)
            }
        }
        if let best { return best }
        if earliest.isNever { gateTimers.cancel(gate) } else { gateTimers.arm(gate, at: earliest) }
        return nil
    }

    /// Moves jobs on that something else than their own time held: those that it lets go are a backlog of their gates.
    mutating func letGo(_ held: some Sequence<JobIndex>, at now: BusTime) {
        for job in inOrder(held) { advance(job, at: now) }
        let queued = held.compactMap { job in jobs[Int(job)].flatMap { $0.isQueued ? $0.gate : nil } }
        for gate in Set(queued) { noteBacklog(at: gate, at: now) }
    }

    /// Lets the queued jobs of an open gate start in a growing window if they are many.
    mutating func noteBacklog(at gate: Int32, at now: BusTime) {
        guard let record = conditions[Int(gates.scope(gate))] else { return }
        retireLongRuns(of: gate, at: now)
        gates[gate].noteBacklog(isProven: record.isProven, release.rules)
    }

    /// Makes room for others when attempts have run for long.
    ///
    /// They prove nothing, because dropped packets look the same.
    mutating func retireLongRuns(of gate: Int32, at now: BusTime) {
        // Captures parts of self, because a call on self would overlap the access to the gate.
        let long = gates[gate].takeLongRuns(at: now) { [jobs, generations] key, attempt in
            guard Int(key.index) < jobs.count, generations[Int(key.index)] == key.generation, let job = jobs[Int(key.index)]
            else { return false }
            return job.isRunning && job.history.started == attempt
        }
        for key in long {
            if let job = jobs[Int(key.index)], let attempt = job.attempt { makeRoom(key.index, job.gate, attempt) }
        }
    }

    /// Takes an attempt that continues out of its gate's window.
    mutating func makeRoom(_ index: JobIndex, _ gate: Int32, _ attempt: RunningState) {
        guard attempt.pass != .free else { return }
        gates[gate].noteEnd(attempt.pass, of: attempt.round)
        jobs[Int(index)]?.attempt?.pass = .free
    }

    /// Frees the place of an attempt that has ended.
    mutating func noteEndOfAttempt(_ index: JobIndex, _ job: JobState, _ attempt: RunningState) {
        givePlaceBack(index, job.gate, attempt)
        gates[job.gate].noteEnd(attempt.pass, of: attempt.round)
        dirtyGates.append(job.gate)
    }
}

/// The reasons why jobs are not running.
extension RetryBusCore {
    /// A job's state and numbers.
    struct Description {
        var state: PendingJob.State
        var unmet: [ConditionIndex]
        var softDelay: Duration?
        var hardDelay: Duration?
        var timeLeft: Duration?
        var destination: String?
        /// The reason why it is queued, and its duration if known.
        var queueReason: QueueReason?
        var queueDelay: Duration?
    }

    func description(of key: JobKey, at now: BusTime) -> Description? {
        guard let job = self[key] else { return nil }
        let isWaiting = !job.isRunning && !job.isBackingOff
        let isHeld = job.isQueued && allUnmet(job).isEmpty
        let isResting = job.isPaused && !job.isRunning
        let (queueReason, end) = isHeld ? queueReason(of: job, at: now) : (nil, .never)
        return Description(
            state: isResting ? .paused : isHeld ? .queued : isWaiting ? .waiting : job.isRunning ? .running : .backingOff,
            unmet: isWaiting ? allUnmet(job) : [],
            softDelay: isVoided(job) ? nil : delay(job, until: job.history.soft, at: now),
            hardDelay: delay(job, until: job.history.hard, at: now),
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            destination: gates.destination(job.gate), queueReason: queueReason,
            queueDelay: end.isNever || end <= now ? nil : end - now)
    }

    /// Returns the reason why a queued job has not started, and the end of that reason.
    private func queueReason(of job: JobState, at now: BusTime) -> (QueueReason?, BusTime) {
        let queueClass = QueueClass(job)
        let hasPaused = gates[job.gate].uses == 1 && job.history.lastWasCharged
        if isFull(job.gate, for: job) { return (.destinationFull(gates[job.gate].running), .never) }
        switch gates[job.gate].permission(queueClass, hasPaused: hasPaused, release.rules, at: now) {
        case .later(let end, let queueReason): return (queueReason, end)
        case .granted: return (running >= limit(at: now) ? .crowded(running) : nil, .never)
        }
    }

    /// Returns the unmet conditions of a job that is not running, its scope first.
    func unmetConditions(of key: JobKey) -> [ConditionIndex] {
        guard let job = self[key], !job.isRunning else { return [] }
        return allUnmet(job)
    }

    private func allUnmet(_ job: JobState) -> [ConditionIndex] {
        let scope = job.waitsForScope && conditions[Int(job.scope)]?.isOpen == false ? [job.scope] : []
        return scope + job.conditions.filter { conditions[Int($0)]?.isOpen == false }
    }

    private func delay(_ job: JobState, until time: BusTime, at now: BusTime) -> Duration? {
        !job.isRunning && time > now ? time - now : nil
    }

    /// Returns the delay of a job that waits for nothing but a time.
    func delay(of key: JobKey, at now: BusTime) -> Duration? {
        guard let job = self[key], job.isBackingOff else { return nil }
        return delay(job, until: max(job.history.soft, job.history.hard), at: now)
    }

    /// The jobs that have not ended, by priority and age.
    package var liveKeys: [JobKey] { liveJobs.map(key) }

    /// The number of jobs that gates have presented, including stale ones.
    var presented: Int { candidates.count }

    /// The number of jobs with a timer.
    package var timerCount: Int { timers.count }
}

/// The reason why a job that could start is queued.
package enum QueueReason: Hashable, Sendable {
    /// Another job, the canary, tries the path first.
    case canary
    /// This number of attempts fills the window.
    case full(Int)
    /// Earlier attempts failed.
    case failed
    /// The server ordered a delay through this job.
    case throttled(by: JobID?)
    /// The network flaps.
    case unsteady
    /// The spread of a fleet's return.
    case spread
    /// The rate limit.
    case pace
    /// This number of attempts fills the bus's limit.
    case crowded(Int)
    /// This number of attempts fills the destination's limit.
    case destinationFull(Int)
}
