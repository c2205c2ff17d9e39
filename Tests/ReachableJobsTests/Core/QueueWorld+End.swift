import ReachableRetry

@testable import ReachableJobs

/// The promises for the moment at which nothing more happens.
extension QueueWorld {
    /// Returns the next step if everything goes well; `nil` if nothing is left to do.
    ///
    /// Batches and attempts end before time passes.
    func stepTowardsTheEnd() throws -> Step? {
        for (number, worker) in workers.enumerated() {
            if worker.isStopped { return .setStopped(number, false) }
            if worker.hasEnded { return .restart(number) }
            if !worker.isOpen { return .setOpen(number, true) }
            if worker.batch != nil { return .endBatch(number) }
            if let advance = advances(of: number).first { return advance }
        }
        try checkThatNoJobIsForgotten()
        guard ids.contains(where: { row($0)?.job.state.isFinal == false }) else { return nil }
        return nextMoment.map { _ in .pass }
    }

    /// Checks that no worker with room for it overlooks a job that may run now.
    private func checkThatNoJobIsForgotten() throws {
        let isReserved = workers.contains { $0.tasks.values.contains { Crashes.runsAlone($0.claimed.job.counters) } }
        for worker in workers {
            let most = min(Self.window, places)
            guard !worker.isFailing, !worker.isShuttingDown, !isReserved, worker.tasks.count < most else { continue }
            // It claims again a moment after it gave jobs back.
            guard worker.core.stalled.values.allSatisfy({ $0.nanoseconds <= now }) else { continue }
            for (number, id) in ids.enumerated() {
                guard row(id)?.job.state == .available, let job = job(id), !job.isBlocked else { continue }
                if let soft = job.softDelay, soft.until > store.now, !(worker.edge.map { $0 > soft.since } ?? false) { continue }
                throw Broken(description: "job \(number) may run now, and nothing happens")
            }
        }
    }

    /// Checks the promises when nothing more happens.
    func checkEnd() throws {
        for (number, id) in ids.enumerated() {
            guard let job = job(id) else { throw Broken(description: "job \(number) is lost") }
            if !job.state.isFinal { throw Broken(description: "job \(number) never ends: \(job.state), \(job.counters)") }
            if job.state == .failed, job.isRepeatable || job.failureReason != "outcomeUnknown" || !mayHaveRun(id) {
                throw Broken(description: "job \(number) fails: \(job.failureReason ?? "-")")
            }
            if job.state == .succeeded, done[id] != 1 {
                throw Broken(description: "\(done[id] ?? 0) successes of job \(number) were accepted")
            }
            if job.counters.crashes != crashes[id] ?? 0 {
                throw Broken(description: "job \(number) had \(crashes[id] ?? 0) crashes, not \(job.counters.crashes)")
            }
        }
    }

    /// True if an attempt may have run whose result the store does not have.
    func mayHaveRun(_ id: DurableJobID) -> Bool {
        started.keys.contains { $0.id == id && !resolved.contains($0) }
    }

    /// Lets everything go well until nothing more happens.
    mutating func finish() throws {
        var left = 2000
        while left > 0, let step = try stepTowardsTheEnd() {
            try play(step)
            left -= 1
        }
        try checkEnd()
    }
}
