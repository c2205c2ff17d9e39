import Synchronization

/// Runs tasks in the calling thread, in the order in which they became ready, until none is.
///
/// A herd of thousands of tasks on it does the same each time, and what happens at a moment has settled when ``drain()`` returns:
/// there is no other thread that could still be at work.
final class HerdExecutor: TaskExecutor {
    private let ready = Mutex<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        ready.withLock { $0.append(job) }
    }

    func drain() {
        while true {
            let jobs = ready.withLock { ready in
                defer { ready = [] }
                return ready
            }
            guard !jobs.isEmpty else { return }
            for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
    }
}
