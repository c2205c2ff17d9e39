import ReachableRetry

@testable import ReachableJobs

/// The promises for the moment at which nothing more happens.
extension QueueWorld {
    /// A step towards the end, where everything goes well.
    ///
    /// Turns and attempts end before time passes. Returns false if nothing is left to do.
    mutating func stepTowardsTheEnd() throws -> Bool {
        for number in workers.indices {
            if workers[number].isStopped {
                try setStopped(false, of: number)
                return true
            }
            if workers[number].hasEnded {
                try crash(number)
                return true
            }
            if !workers[number].isOpen {
                try setOpen(true, of: number)
                return true
            }
            if workers[number].turn != nil {
                try endTurn(of: number)
                return true
            }
            let tickets = workers[number].tasks.filter { $0.value.stage != .asking }.keys
            if let ticket = tickets.min(by: { $0.claim < $1.claim }) {
                try step(ticket, of: number, succeeds: true)
                return true
            }
        }
        try checkThatNoJobIsForgotten()
        guard ids.contains(where: { job($0)?.state.isFinal == false }) else { return false }
        try advance(by: 1)
        return true
    }

    /// Checks that no worker with room for it overlooks a job that may run now.
    private func checkThatNoJobIsForgotten() throws {
        let isReserved = workers.contains { $0.tasks.values.contains { Crashes.runsAlone($0.claimed.job.counters) } }
        for worker in workers {
            guard !worker.isFailing, !worker.isShuttingDown, !isReserved, worker.tasks.count < Self.window else { continue }
            for (number, id) in ids.enumerated() {
                guard let job = job(id), job.state == .available, !job.isBlocked else { continue }
                if let soft = job.softDelay, soft.until.nanoseconds > now,
                    !(worker.edge.map { $0 > soft.since.nanoseconds } ?? false)
                {
                    continue
                }
                throw Broken(description: "job \(number) may run now, and nothing happens")
            }
        }
    }

    /// Checks the promises when nothing more happens.
    func checkEnd() throws {
        for (number, id) in ids.enumerated() {
            guard let job = job(id) else { throw Broken(description: "job \(number) is lost") }
            if !job.state.isFinal { throw Broken(description: "job \(number) never ends: \(job.state), \(job.counters)") }
            if job.state == .failed { throw Broken(description: "job \(number) fails: \(job.failureReason ?? "-")") }
            if job.state == .succeeded, done[id] != 1 {
                throw Broken(description: "\(done[id] ?? 0) successes of job \(number) were accepted")
            }
            if job.counters.crashes != crashes[id] ?? 0 {
                throw Broken(description: "job \(number) had \(crashes[id] ?? 0) crashes, not \(job.counters.crashes)")
            }
        }
    }

    /// Lets everything go well until nothing more happens.
    mutating func finish() throws {
        note(Self.finalSteps)
        var left = 2000
        while try stepTowardsTheEnd() {
            left -= 1
            if left == 0 { break }
        }
        try checkEnd()
    }
}
