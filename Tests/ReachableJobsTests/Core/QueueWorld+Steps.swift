import ReachableRetry

@testable import ReachableJobs

/// The steps of explorations, and of the end of histories.
extension QueueWorld {
    enum Step {
        case endBatch(Int)
        case failBatch(Int, after: Int)
        /// Takes the task of a claim one stage further.
        case advance(Int, job: Int, claim: Int64, succeeds: Bool)
        case setOpen(Int, Bool)
        case setStopped(Int, Bool)
        case crash(Int)
        /// Starts a process again that has ended.
        case restart(Int)
        case reboot
        case cancel(Int)
        case shutDown(Int, drain: Int64)
        /// Time passes to the next moment.
        case pass
        case wait(Int64)
        case suspend(Int64)
        case stepClock(Int64)
    }

    mutating func play(_ step: Step) throws {
        switch step {
        case .endBatch(let number): try endBatch(of: number)
        case .failBatch(let number, let parts): try endBatch(of: number, failingAfter: parts)
        case .advance(let number, let job, let claim, let succeeds):
            try self.step(JobTicket(id: ids[job], claim: claim), of: number, succeeds: succeeds)
        case .setOpen(let number, let isOpen): try setOpen(isOpen, of: number)
        case .setStopped(let number, let isStopped): try setStopped(isStopped, of: number)
        case .crash(let number), .restart(let number): try crash(number)
        case .reboot: try crash(0, reboots: true)
        case .cancel(let number): try cancel(number)
        case .shutDown(let number, let drain): try shutDown(number, drain: drain)
        case .pass: try nextMoment.map { try advance(to: $0) }
        case .wait(let seconds): try advance(by: seconds)
        case .suspend(let seconds): try suspend(for: seconds)
        case .stepClock(let seconds): stepClock(by: seconds)
        }
    }

    /// The steps that a worker's tasks can take by themselves, in the order of their claims.
    func advances(of number: Int) -> [Step] {
        let worker = workers[number]
        guard !worker.isStopped, !worker.hasEnded else { return [] }
        let ready = worker.tasks.filter { _, task in
            switch task.stage {
            case .waiting: task.isCancelled || worker.isOpen && hasPlace(number)
            case .asking: false
            case .running: true
            }
        }
        return ready.keys.sorted { $0.claim < $1.claim }.map { ticket in
            .advance(number, job: ids.firstIndex(of: ticket.id) ?? 0, claim: ticket.claim, succeeds: true)
        }
    }

    /// The next time at which something happens by itself: a timer fires, a lease ends, or a delay.
    var nextMoment: Int64? {
        var moments: [Int64] = []
        for worker in workers where !worker.isStopped && !worker.hasEnded && !worker.wakeAt.isNever {
            moments.append(worker.wakeAt.nanoseconds)
        }
        for worker in store.workers.values { moments.append(worker.leaseEnd.nanoseconds + suspended) }
        for job in ids.lazy.compactMap(row).map(\.job) where job.state == .available {
            if let delay = job.softDelay { moments.append(now + store.now.duration(to: delay.until).nanoseconds) }
        }
        return moments.lazy.filter { $0 > now }.min()
    }
}
