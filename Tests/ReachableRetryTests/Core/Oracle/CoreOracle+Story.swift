@testable import ReachableRetry

/// The description of a job.
extension CoreOracle {
    struct Story: Equatable {
        var state: PendingJob.State
        var unmet: [Int]
        var softDelay: Duration?
        var hardDelay: Duration?
        var timeLeft: Duration?
        /// The attempt that runs.
        var start: Start?
    }

    func report(_ index: Int) -> Story {
        let job = jobs[index]
        let isRunning = job.state == .running
        let missing = unmet(job)
        let state: PendingJob.State =
            switch job.place {
            case _ where isRunning: .running
            case _ where job.isPaused: .paused
            case .inLine where missing.isEmpty: .queued
            case .inLine, .waiting: .waiting
            case .nowhere, .resting, .backingOff: .backingOff
            }
        let soft = isVoided(job) ? .past : job.soft
        let limit = min(job.deadline, job.variant.timeout.map { job.startedAt + .milliseconds($0) } ?? .never)
        return Story(
            state: state, unmet: job.place == .resting || state == .waiting ? missing : [],
            softDelay: !isRunning && soft > now ? soft - now : nil,
            hardDelay: !isRunning && job.hard > now ? job.hard - now : nil,
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            start: isRunning
                ? Start(number: job.started, epoch: job.armedEpoch, limit: limit.isNever ? nil : max(.zero, limit - now)) : nil)
    }
}
