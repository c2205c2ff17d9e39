/// Where a job that is not running waits, and when it starts.
extension RetryBusCore {
    // MARK: - What a job sees

    /// The sum of the epochs of what the job waits for.
    func epoch(of job: JobState) -> UInt64 {
        var sum: UInt64 = job.heedsScope ? scopeEpoch(of: job) : 0
        for condition in job.conditions { sum &+= conditions[Int(condition)]?.epoch ?? 0 }
        return sum
    }

    func scopeEpoch(of job: JobState) -> UInt64 { conditions[Int(job.scope)]?.epoch ?? 0 }

    func nudges(of job: JobState) -> UInt64 { nudges &+ (conditions[Int(job.scope)]?.nudges ?? 0) }

    /// The first condition that the job has to wait for; `nil` if none.
    func unmet(_ job: JobState) -> ConditionIndex? {
        if job.waitsForScope, conditions[Int(job.scope)]?.isOpen == false { return job.scope }
        return job.conditions.first { conditions[Int($0)]?.isOpen == false }
    }

    // MARK: - Moving on

    /// Decides what a job that is not running does now: waits for a condition, for a time, or starts.
    ///
    /// The one place where that is decided, whatever led here.
    mutating func advance(_ index: JobIndex, at now: BusTime) {
        guard var job = jobs[Int(index)], job.phase != .running else { return }
        if job.deadline <= now { return giveUp(index, .deadline, at: now) }
        if job.conditions.contains(where: { conditions[Int($0)]?.isHopeless == true }) {
            return giveUp(index, .conditionEnded, at: now)
        }
        if epoch(of: job) != job.armedEpoch || nudges(of: job) != job.armedNudges, job.soft != .past {
            // Voided: the edge or the nudge came after the attempt had started. The next attempt is armed anew, so it counts once.
            job.soft = .past
            jobs[Int(index)]?.soft = .past
        }
        if let condition = unmet(job) { return wait(index, for: condition, at: now) }
        if let distrusted = conditions[Int(job.scope)]?.distrustedUntil, distrusted > now, job.waitsForScope {
            job.soft = max(job.soft, distrusted)
            jobs[Int(index)]?.soft = job.soft
        }
        if max(job.soft, job.hard) > now { return backOff(index, at: now) }
        if gates[job.gate].admits(release) { start(index, at: now) }
    }

    private mutating func wait(_ index: JobIndex, for condition: ConditionIndex, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        if job.waitsFor != condition {
            unregister(index)
            conditions[Int(condition)]?.waiting.insert(index)
            // Its wait for the network is limited, whatever else it waits for.
            if condition != job.scope, job.waitsForScope { conditions[Int(job.scope)]?.attentive.insert(index) }
            jobs[Int(index)]?.phase = .waiting
            jobs[Int(index)]?.waitsFor = condition
            jobs[Int(index)]?.limit = .never
            if job.waitBegan.isNever { jobs[Int(index)]?.waitBegan = now }
        }
        // A monitor that has not looked yet does not say that the network is away.
        if condition == job.scope, jobs[Int(index)]?.limit == .never, conditions[Int(condition)]?.isUnknown == false {
            jobs[Int(index)]?.limit = now + job.longestWait
        }
        tellOfWaiting(index)
        arm(index)
    }

    /// Tells that the job waits, once in its life, and not before it is known that it has to.
    private mutating func tellOfWaiting(_ index: JobIndex) {
        guard let job = jobs[Int(index)], !job.hasToldOfWaiting, job.waitsFor >= 0,
            conditions[Int(job.waitsFor)]?.level.isKnown == true
        else { return }
        jobs[Int(index)]?.hasToldOfWaiting = true
        tell(index, .waiting)
    }

    private mutating func backOff(_ index: JobIndex, at now: BusTime) {
        leave(index, at: now)
        guard let job = jobs[Int(index)] else { return }
        if job.phase == .judged { tell(index, .backingOff(max(job.soft, job.hard) - now)) }
        jobs[Int(index)]?.phase = .backingOff
        for condition in CollectionOfOne(job.scope) + job.conditions { conditions[Int(condition)]?.attentive.insert(index) }
        arm(index)
    }

    private mutating func start(_ index: JobIndex, at now: BusTime) {
        leave(index, at: now)
        guard var job = jobs[Int(index)] else { return }
        let epoch = epoch(of: job)
        if epoch != job.armedEpoch {
            if job.resetsOnReconnect { (job.failureIndex, job.previousDelay) = (0, nil) }
            job.connectivityIndex = 0
        }
        job.phase = .running
        job.started = job.started.saturatingIncrement()
        job.armedEpoch = epoch
        job.armedScopeEpoch = scopeEpoch(of: job)
        job.armedNudges = nudges(of: job)
        job.soft = .past
        job.limit = job.rules.attemptTimeout.map { now + $0 } ?? .never
        job.interruptAt = .never
        job.interruption = nil
        jobs[Int(index)] = job
        if job.rules.interruptionGrace != nil {
            if job.waitsForScope { conditions[Int(job.scope)]?.interruptible.insert(index) }
            for condition in job.conditions { conditions[Int(condition)]?.interruptible.insert(index) }
        }
        arm(index)
        tell(index, .started(Int(job.started)))
        effects.append(.start(key(index)))
    }

    /// The attempt that runs, as its operation is told of it.
    package func currentStart(of key: JobKey, at now: BusTime) -> Start? {
        guard let job = self[key], job.phase == .running else { return nil }
        let end = min(job.deadline, job.limit)
        return Start(number: Int(job.started), epoch: job.armedEpoch, limit: end.isNever ? nil : max(.zero, end - now))
    }

    // MARK: - Registration

    /// Ends a wait, and counts it.
    mutating func leave(_ index: JobIndex, at now: BusTime) {
        unregister(index)
        guard let job = jobs[Int(index)], !job.waitBegan.isNever else { return }
        jobs[Int(index)]?.waited = job.waited + (now - job.waitBegan)
        jobs[Int(index)]?.waitBegan = .never
    }

    /// Takes a job out of all lists.
    mutating func unregister(_ index: JobIndex) {
        guard let job = jobs[Int(index)] else { return }
        switch job.phase {
        case .waiting:
            if job.waitsFor >= 0 { conditions[Int(job.waitsFor)]?.waiting.remove(index) }
            conditions[Int(job.scope)]?.attentive.remove(index)
            jobs[Int(index)]?.waitsFor = -1
        case .backingOff:
            for condition in CollectionOfOne(job.scope) + job.conditions { conditions[Int(condition)]?.attentive.remove(index) }
        case .running where job.rules.interruptionGrace != nil:
            for condition in CollectionOfOne(job.scope) + job.conditions {
                conditions[Int(condition)]?.interruptible.remove(index)
            }
        default: break
        }
    }

    func tally(_ job: JobState, at now: BusTime) -> Tally {
        let waiting = job.waitBegan.isNever ? Duration.zero : now - job.waitBegan
        return Tally(
            started: Int(job.started), charged: Int(job.charged), connectivityFailures: Int(job.connectivityFailures),
            waited: job.waited + waiting, elapsed: now - job.submitted)
    }

    mutating func giveUp(_ index: JobIndex, _ reason: GiveUp.Reason, isCut: Bool = false, at now: BusTime) {
        guard let job = jobs[Int(index)] else { return }
        end(index, .gaveUp(reason, tally(job, at: now), isCut: isCut), at: now)
    }
}

extension JobState {
    /// How long it waits for the network at most.
    fileprivate var longestWait: Duration {
        if case .wait(let most?) = rules.connectivity { max(.zero, most) } else { Duration(attoseconds: .max) }
    }

    /// Whether the growth of its delays starts anew after a reconnect.
    fileprivate var resetsOnReconnect: Bool {
        switch rules.reconnect {
        case .automatic: lastWasConnectivity
        case .resetBackoff: true
        case .keepBackoff: false
        }
    }
}
