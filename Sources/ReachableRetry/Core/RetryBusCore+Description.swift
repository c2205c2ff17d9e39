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
        var hold: Hold?
        var holdDelay: Duration?
    }

    func description(of key: JobKey, at now: BusTime) -> Description? {
        guard let job = self[key] else { return nil }
        let isWaiting = job.phase == .waiting
        let isHeld = job.isInLine && allUnmet(job).isEmpty
        let isResting = job.isPaused && job.phase != .running
        let (hold, end) = isHeld ? hold(of: job, at: now) : (nil, .never)
        return Description(
            state: isResting ? .paused : isHeld ? .queued : isWaiting ? .waiting : job.phase == .running ? .running : .backingOff,
            unmet: isWaiting ? allUnmet(job) : [],
            softDelay: isVoided(job) ? nil : delay(job, until: job.history.soft, at: now),
            hardDelay: delay(job, until: job.history.hard, at: now),
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            destination: gates.destination(job.gate), hold: hold, holdDelay: end.isNever || end <= now ? nil : end - now)
    }

    /// Why a job in line has not been let go.
    private func hold(of job: JobState, at now: BusTime) -> (Hold?, BusTime) {
        let lane = Lane(job)
        let hasPaused = gates[job.gate].uses == 1 && job.lastWasCharged
        if isFull(job.gate, for: job) { return (.destinationFull(gates[job.gate].running), .never) }
        switch gates[job.gate].permission(lane, hasPaused: hasPaused, release.rules, at: now) {
        case .later(let end, let hold): return (hold, end)
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
