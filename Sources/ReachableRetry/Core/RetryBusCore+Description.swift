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
    }

    func description(of key: JobKey, at now: BusTime) -> Description? {
        guard let job = self[key] else { return nil }
        let isWaiting = job.phase == .waiting
        let isHeld = job.isInLine && allUnmet(job).isEmpty
        let isResting = job.isPaused && job.phase != .running
        return Description(
            state: isResting ? .paused : isHeld ? .queued : isWaiting ? .waiting : job.phase == .running ? .running : .backingOff,
            unmet: isWaiting ? allUnmet(job) : [], softDelay: isVoided(job) ? nil : delay(job, until: job.history.soft, at: now),
            hardDelay: delay(job, until: job.history.hard, at: now),
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            destination: gates.destination(job.gate))
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
