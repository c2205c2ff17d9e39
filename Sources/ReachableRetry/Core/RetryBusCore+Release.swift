internal import HeapModule

/// Letting jobs go that stand in line.
extension RetryBusCore {
    /// A gate with a job that may go.
    struct Candidate: Comparable, Sendable {
        var position: QueuePosition
        var gate: Int32

        static func < (left: Candidate, right: Candidate) -> Bool { left.position < right.position }
    }

    /// The job that a gate lets go next.
    private struct Head {
        var position: QueuePosition
        var job: JobIndex
        var pass: GateState.Pass
    }

    /// Lets go what may go: of all gates at which something has happened, the most urgent and oldest jobs first.
    ///
    /// Costs as much as there are such gates and jobs let go, however many stand in line. A destination that has its share goes
    /// last.
    mutating func releaseJobs(at now: BusTime) {
        while let gate = dirtyGates.popLast() {
            startNested(of: gate, at: now)
            present(gate, at: now)
        }
        for mustShare in [true, false] {
            var later: [Candidate] = []
            while running < limit(at: now), let candidate = candidates.popMin() {
                // Left over: the gate has presented another job since, or has none.
                guard gates[candidate.gate].ready == candidate.position else { continue }
                if mustShare, candidate.position.priority != .interactive, hasItsShare(candidate.gate) {
                    later.append(candidate)
                    continue
                }
                gates[candidate.gate].ready = .none
                guard let head = head(of: candidate.gate, at: now) else { continue }
                if head.position == candidate.position { proceed(head.job, head.pass, at: now) }
                present(candidate.gate, at: now)
            }
            if later.isEmpty { return }
            for candidate in later { candidates.insert(candidate) }
        }
    }

    /// If true, a destination holds half of the places, and another one that has less goes first.
    private func hasItsShare(_ gate: Int32) -> Bool {
        maxConcurrent < .max && gates[gate].running >= max(1, maxConcurrent / 2) && gates.destination(gate) != nil
    }

    /// If true, a destination has as many attempts as this job's bus and policy allow.
    func isFull(_ gate: Int32, for job: JobState) -> Bool {
        let limit = min(maxConcurrentPerDestination, job.rules.maxConcurrentPerDestination ?? .max)
        return limit < .max && gates[gate].running >= limit && gates.destination(gate) != nil
    }

    // MARK: - Nested jobs

    /// If true, the attempt that submitted the job runs, and lends it its place.
    func usesPlaceOfParent(_ job: JobState) -> Bool {
        guard let parent = job.history.parent, let other = self[parent.job] else { return false }
        return other.phase == .running && other.history.started == parent.number
    }

    /// Starts the jobs that running attempts wait for; those whose attempts have ended stand in line like others.
    private mutating func startNested(of gate: Int32, at now: BusTime) {
        guard !gates[gate].queues[.nested].isEmpty, conditions[Int(gates.scope(gate))]?.isOpen == true else { return }
        while let entry = gates[gate].queues[.nested].first(isCurrent: { [jobs] in jobs[Int($0.job)]?.isQueued(as: $0) == true }) {
            guard let job = jobs[Int(entry.job)] else { return }
            if usesPlaceOfParent(job) {
                proceed(entry.job, .free, at: now)
            } else {
                leave(entry.job, at: now)
                jobs[Int(entry.job)]?.history.parent = nil
                advance(entry.job, at: now)
            }
        }
    }

    /// How many attempts may run now.
    func limit(at now: BusTime) -> Int { min(maxConcurrent, shortage?.limit(at: now) ?? .max) }

    /// If true, a job that a shortage held back may start.
    func hasPlace(at now: BusTime) -> Bool {
        let time = timeOfNextPlace
        return !time.isNever && time <= now && running < limit(at: now)
    }

    /// When one more may run, if a shortage holds jobs back.
    var timeOfNextPlace: BusTime {
        guard let shortage, running < maxConcurrent else { return .never }
        let hasCandidate = candidates.unordered.contains { gates[$0.gate].ready == $0.position }
        return hasCandidate ? shortage.time(of: running) : .never
    }

    /// Whether a job that may start may still have to wait for others.
    private var isLimited: Bool {
        release.rules.hasCanaries || release.rules.pace != nil || maxConcurrent < .max || shortage != nil
    }

    /// Makes a gate's first job a candidate.
    private mutating func present(_ gate: Int32, at now: BusTime) {
        guard let head = head(of: gate, at: now), head.position != gates[gate].ready else { return }
        gates[gate].ready = head.position
        candidates.insert(Candidate(position: head.position, gate: gate))
    }

    /// The job that a gate may let go now; otherwise its timer is set.
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
            guard let entry else { continue }
            // The end of another attempt tells when there is a place.
            guard let job = jobs[Int(entry.job)], !isFull(gate, for: job) else { continue }
            // Alone, it has only its own delays to keep.
            let hasPaused = gates[gate].uses == 1 && job.lastWasCharged
            switch gates[gate].permission(queueClass, hasPaused: hasPaused, release.rules, at: now) {
            case .granted(let pass):
                let head = Head(position: entry.position, job: entry.job, pass: pass)
                // Lanes that are not gated have jobs of all priorities.
                if best.map({ head.position < $0.position }) ?? true { best = head }
                if queueClass.isGated { return best }
            case .later(let time, _): earliest = min(earliest, time)
            }
        }
        if let best { return best }
        if earliest.isNever { gateTimers.cancel(gate) } else { gateTimers.arm(gate, at: earliest) }
        return nil
    }

    /// Attempts that have run for long make room, and prove nothing: packets that are dropped look the same.
    private mutating func retireLongRuns(of gate: Int32, at now: BusTime) {
        // Not a call of a subscript of the whole: that would be used twice at a time.
        let long = gates[gate].takeLongRuns(at: now) { [jobs, generations] key, attempt in
            guard Int(key.index) < jobs.count, generations[Int(key.index)] == key.generation, let job = jobs[Int(key.index)]
            else { return false }
            return job.phase == .running && job.history.started == attempt
        }
        for key in long {
            if let job = jobs[Int(key.index)] { makeRoom(key.index, job) }
        }
    }

    /// An attempt that goes on limits the others no more.
    mutating func makeRoom(_ index: JobIndex, _ job: JobState) {
        guard job.history.pass != .free else { return }
        gates[job.gate].noteEnd(job.history.pass, of: job.history.round)
        jobs[Int(index)]?.history.pass = .free
    }

    /// A running attempt has ended: what it held is free.
    mutating func noteEndOfAttempt(_ index: JobIndex, _ job: JobState) {
        givePlaceBack(index, job)
        gates[job.gate].noteEnd(job.history.pass, of: job.history.round)
        dirtyGates.append(job.gate)
    }

    mutating func takePlace(_ index: JobIndex, _ gate: Int32) {
        running += 1
        gates[gate].running += 1
        jobs[Int(index)]?.history.hasPlace = true
    }

    mutating func givePlaceBack(_ index: JobIndex, _ job: JobState) {
        guard job.history.hasPlace else { return }
        running -= 1
        gates[job.gate].running -= 1
        jobs[Int(index)]?.history.hasPlace = false
    }
}

/// Why jobs are not running.
extension RetryBusCore {
    /// A job's state in words and numbers.
    struct Description {
        var state: PendingJob.State
        var unmet: [ConditionIndex]
        var softDelay: Duration?
        var hardDelay: Duration?
        var timeLeft: Duration?
        var destination: String?
        /// What it waits for in line, and for how long if it is a time.
        var queueReason: QueueReason?
        var queueDelay: Duration?
    }

    func description(of key: JobKey, at now: BusTime) -> Description? {
        guard let job = self[key] else { return nil }
        let isWaiting = job.phase == .waiting
        let isHeld = job.isQueued && allUnmet(job).isEmpty
        let isResting = job.isPaused && job.phase != .running
        let (queueReason, end) = isHeld ? queueReason(of: job, at: now) : (nil, .never)
        return Description(
            state: isResting ? .paused : isHeld ? .queued : isWaiting ? .waiting : job.phase == .running ? .running : .backingOff,
            unmet: isWaiting ? allUnmet(job) : [],
            softDelay: isVoided(job) ? nil : delay(job, until: job.history.soft, at: now),
            hardDelay: delay(job, until: job.history.hard, at: now),
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            destination: gates.destination(job.gate), queueReason: queueReason,
            queueDelay: end.isNever || end <= now ? nil : end - now)
    }

    /// Why a job in line has not been let go.
    private func queueReason(of job: JobState, at now: BusTime) -> (QueueReason?, BusTime) {
        let queueClass = QueueClass(job)
        let hasPaused = gates[job.gate].uses == 1 && job.lastWasCharged
        if isFull(job.gate, for: job) { return (.destinationFull(gates[job.gate].running), .never) }
        switch gates[job.gate].permission(queueClass, hasPaused: hasPaused, release.rules, at: now) {
        case .later(let end, let queueReason): return (queueReason, end)
        case .granted: return (running >= limit(at: now) ? .crowded(running) : nil, .never)
        }
    }

    /// What a job that is not running has to wait for, its scope first.
    func unmetConditions(of key: JobKey) -> [ConditionIndex] {
        guard let job = self[key], job.phase != .running else { return [] }
        return allUnmet(job)
    }

    private func allUnmet(_ job: JobState) -> [ConditionIndex] {
        let scope = job.waitsForScope && conditions[Int(job.scope)]?.isOpen == false ? [job.scope] : []
        return scope + job.conditions.filter { conditions[Int($0)]?.isOpen == false }
    }

    private func delay(_ job: JobState, until time: BusTime, at now: BusTime) -> Duration? {
        job.phase != .running && time > now ? time - now : nil
    }

    /// For how long a job only waits for a time; `nil` if it waits for anything else, or does not wait.
    func delay(of key: JobKey, at now: BusTime) -> Duration? {
        guard let job = self[key], job.phase == .backingOff else { return nil }
        return delay(job, until: max(job.history.soft, job.history.hard), at: now)
    }

    /// The jobs that have not ended, by priority and age.
    package var liveKeys: [JobKey] { liveJobs.map(key) }

    /// How many jobs have a time at which something happens by itself.
    package var timerCount: Int { timers.count }
}

/// What keeps a job in line that could start.
package enum QueueReason: Hashable, Sendable {
    /// Another job tries the way first.
    case canary
    /// So many run already, as many as have proved possible.
    case full(Int)
    /// The network or the server failed those who tried.
    case failed
    /// The server wants to be left alone: it told this job.
    case throttled(by: JobID?)
    /// The network has come and gone too often.
    case unsteady
    /// The job's part of the time over which many machines come back.
    case spread
    /// So many a second, and not more.
    case pace
    /// So many run already, of all jobs of the bus.
    case crowded(Int)
    /// So many run already to the same destination.
    case destinationFull(Int)
}
