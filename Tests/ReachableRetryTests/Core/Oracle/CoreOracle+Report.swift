@testable import ReachableRetry

/// The reports about jobs.
extension CoreOracle {
    struct Report: Equatable {
        var state: PendingJob.State
        var unmet: [Int]
        var softDelay: Duration?
        var hardDelay: Duration?
        var timeLeft: Duration?
        /// The running attempt.
        var start: Start?
    }

    func report(_ index: Int) -> Report {
        let job = jobs[index]
        let isRunning = job.state == .running
        let missing = unmet(job)
        let state: PendingJob.State =
            switch job.place {
            case _ where isRunning: .running
            case _ where job.isPaused: .paused
            case .queued where missing.isEmpty: .queued
            case .queued, .waiting: .waiting
            case .nowhere, .paused, .backingOff: .backingOff
            }
        let soft = isVoided(job) ? .past : job.soft
        let limit = min(job.deadline, job.variant.timeout.map { job.startedAt + .milliseconds($0) } ?? .never)
        return Report(
            state: state, unmet: job.place == .paused || state == .waiting ? missing : [],
            softDelay: !isRunning && soft > now ? soft - now : nil,
            hardDelay: !isRunning && job.hard > now ? job.hard - now : nil,
            timeLeft: job.deadline.isNever ? nil : max(.zero, job.deadline - now),
            start: isRunning
                ? Start(number: job.started, epoch: job.armedEpoch, limit: limit.isNever ? nil : max(.zero, limit - now)) : nil)
    }
}
