internal import Dispatch
internal import Glibc
internal import Reachability
internal import Synchronization

/// Runs the jobs of tasks one at a time, on threads that may block, and also while handlers block all threads of Swift's pool.
///
/// Dispatch adds threads for serial queues that block, while the default pool has one thread per processor for good. No thread
/// belongs to the executor: none has to end with it, and a task may prefer it for as long as it likes. Safe to use from any thread.
package final class BlockingExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "reachability.jobs.executor")
    private let waiting = Atomic(0)
    /// The thread that runs a job; 0 between two jobs.
    private let thread = Atomic<pthread_t>(0)

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        waiting.add(1, ordering: .relaxed)
        queue.async { [self] in
            waiting.subtract(1, ordering: .relaxed)
            thread.store(pthread_self(), ordering: .relaxed)
            job.runSynchronously(on: asUnownedTaskExecutor())
            thread.store(0, ordering: .relaxed)
        }
    }

    /// Calls back after a time without suspensions of the machine, for Dispatch's clock is CLOCK_MONOTONIC.
    ///
    /// - Returns: Cancels the call.
    func callBack(after duration: Duration, _ action: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        // Not `asyncAfter`: the timer of a cancelled item would still wake a thread. Any thread may cancel a source.
        nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.schedule(deadline: .now() + .nanoseconds(Int(clamping: duration.nanoseconds)))
        timer.setEventHandler(handler: action)
        timer.activate()
        return { timer.cancel() }
    }

    // Relaxed: a thread reads its own number only after it has written it itself.
    package var isCurrent: Bool { thread.load(ordering: .relaxed) == pthread_self() }

    var hasWaitingJobs: Bool { waiting.load(ordering: .relaxed) > 0 }
}
