internal import FoundationEssentials
internal import Glibc

/// The reasons why jobs do not run, and the workers.
extension MemoryStoreState {
    /// Returns the store's part of why jobs do not run; `nil` for unknown jobs.
    func explain(_ ids: [DurableJobID]) -> [JobStanding?] {
        var workerCounts: [Int32: Int] = [:]
        for worker in workers.values { workerCounts[worker.queue, default: 0] += 1 }
        return ids.map { id in
            guard let position = positions[id] else { return nil }
            let stored = jobs[position]
            let lane = lanes[Int(stored.lane)]
            let hold = holds[Int(lane.hold)].until
            var job = durable(stored)
            job.payload = Data()
            let history = stored.history
            let isCutOff = history.softDelay.map { $0.isNetwork && $0.until > now } ?? false
            return JobStanding(
                job: job, isPaused: queues[Int(lane.queue)].isPaused, workers: workerCounts[lane.queue] ?? 0,
                holdUntil: hold > now ? hold : nil, blockers: stored.state == .available ? blockers(of: stored) : [],
                worker: stored.worker > 0 ? WorkerID(rawValue: stored.worker) : nil, isStarted: stored.isStarted, now: now,
                boundNode: isCutOff ? history.boundNode : nil,
                undecodableBy: stored.state == .available ? history.undecodableBy.filter { workers[$0] != nil } : [])
        }
    }

    /// Returns the workers of a queue, or of all for `nil`, by number.
    func registeredWorkers(of queue: String?) -> [RegisteredWorker] {
        workers.sorted { $0.key.rawValue < $1.key.rawValue }.compactMap { id, worker in
            let name = queues[Int(worker.queue)].name
            guard queue == nil || queue == name else { return nil }
            return RegisteredWorker(
                id: id, queue: name, node: worker.node, host: NodeName.hostName, process: Int(getpid()),
                claims: worker.claims.count, sinceHeartbeat: worker.seen.duration(to: now))
        }
    }

    /// Returns the job that each of a job's chains lets go first, unless that is the job itself.
    private func blockers(of job: StoredJob) -> [JobStanding.Blocker] {
        keys(of: job).compactMap { key in
            guard let chain = chains[key], !chain.admits(job.position) else { return nil }
            let position = chain.first == job.position ? chain.running : chain.first
            return position.map {
                JobStanding.Blocker(id: jobs[$0].id, state: jobs[$0].state, key: key.kind == nil ? .serial : .unique)
            }
        }
    }
}
