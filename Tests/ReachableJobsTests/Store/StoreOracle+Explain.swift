import FoundationEssentials
import ReachableJobs

/// The workers, and the reasons why jobs wait, by a search through all jobs.
extension StoreOracle {
    /// The answers of `explain` for all jobs.
    var standings: [JobStanding] {
        jobs.indices.map { index in
            var job = jobs[index].job
            job.isBlocked = isBlocked(index)
            job.payload = Data()
            let hold = hold(job)
            let isCutOff = job.softDelay.map { $0.isNetwork && $0.until > now } ?? false
            return JobStanding(
                job: job, isPaused: paused.contains(job.queue), workers: workers.values.count { $0.queue == job.queue },
                holdUntil: hold > now ? hold : nil, blockers: job.state == .available ? blockers(of: job) : [],
                worker: jobs[index].worker, isStarted: jobs[index].isStarted, now: now,
                boundNode: isCutOff ? jobs[index].boundNode : nil,
                undecodableBy: job.state == .available ? jobs[index].undecodableBy : [])
        }
    }

    /// The answer of `workers` for all queues, without hosts and processes.
    var registeredWorkers: [RegisteredWorker] {
        workers.sorted { $0.key.rawValue < $1.key.rawValue }.map { id, worker in
            RegisteredWorker(
                id: id, queue: worker.queue, node: worker.node, claims: jobs.count { $0.worker == id },
                sinceHeartbeat: StoreLease.duration - now.duration(to: worker.leaseEnd))
        }
    }

    private func blockers(of job: DurableJob) -> [JobStanding.Blocker] {
        let others = jobs.map(\.job).filter { $0.id != job.id && $0.queue == job.queue }
        var found: [JobStanding.Blocker] = []
        func add(_ key: JobStanding.Blocker.Key, _ chain: [DurableJob], isHolding: (DurableJob) -> Bool) {
            let head = chain.first { $0.position < job.position && isHolding($0) } ?? chain.first { $0.state == .running }
            if let head { found.append(.init(id: head.id, state: head.state, key: key)) }
        }
        if let key = job.serialKey {
            add(.serial, others.filter { $0.serialKey == key }) { other in
                !other.state.isFinal || other.state == .failed && !other.continuesAfterFailure
            }
        }
        if let key = job.uniqueKey {
            add(.unique, others.filter { $0.uniqueKey == key && $0.kind == job.kind }) { !$0.state.isFinal }
        }
        return found
    }
}
