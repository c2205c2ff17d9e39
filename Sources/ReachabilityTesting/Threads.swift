internal import Glibc
internal import Reachability
internal import Synchronization

/// Several threads that do the same at the same time.
final class ThreadGroup: Sendable {
    private let running: Mutex<Int>

    /// Starts threads; threads that cannot be started are left out.
    ///
    /// - Parameters:
    ///   - count: The number of threads.
    ///   - body: The work of each thread.
    ///   - whenFinished: Called by each thread after it stopped counting as running.
    init(_ count: Int, _ body: @escaping @Sendable () -> Void, whenFinished: @escaping @Sendable () -> Void = {}) {
        running = Mutex(count)
        for _ in 0..<count {
            let error = SystemThread.start { [self] in
                body()
                finishOne()
                whenFinished()
            }
            if error != 0 { finishOne() }
        }
    }

    /// True once all threads have finished.
    var isFinished: Bool { running.withLock { $0 <= 0 } }

    private func finishOne() { running.withLock { $0 -= 1 } }
}

/// Runs each job of a task on a thread of its own.
///
/// For tests that block in system calls, or compute for seconds: the default pool has one thread per processor, and a test that
/// keeps one of them may wait for a task that needs it.
package final class ThreadPerJobExecutor: TaskExecutor {
    private let niceness: Int32

    /// Creates an executor.
    ///
    /// - Parameter niceness: The value of its threads (sched(7)); those with a higher one leave the processor to the others.
    package init(niceness: Int32 = 0) { self.niceness = niceness }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        let error = SystemThread.start { [self] in
            // On Linux, niceness is a property of a thread (setpriority(2)).
            if niceness > 0 { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness) }
            withExtendedLifetime(self) { job.runSynchronously(on: executor) }
        }
        if error != 0 { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
    }
}
