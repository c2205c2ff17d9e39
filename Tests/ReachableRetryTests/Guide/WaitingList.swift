import ReachableRetry

func waitingList(of bus: RetryBus) -> [String] {
    bus.pending.map { job in
        switch job.state {
        case .running: "\(job.id): attempt \(job.attempts)"
        case .waiting: "\(job.id): waits for \(job.unmet.joined(separator: ", "))"
        case .queued: "\(job.id): waits for its turn"
        default: "\(job.id): again in \(max(job.softDelay ?? .zero, job.hardDelay ?? .zero))"
        }
    }
}

func retryNow(_ bus: RetryBus) {
    bus.retryNow()
}
