package import Glibc
internal import Synchronization

/// Starts a thread that runs `body`.
///
/// - Returns: The thread, to be detached or joined; `nil` if the system has none left (pthread_create(3)).
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(body))
    let code = pthread_create(
        &thread, nil,
        { argument in
            if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
            return nil
        }, box.toOpaque())
    guard code == 0 else {
        box.release()
        return nil
    }
    return thread
}

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
            let thread = startThread { [self] in
                body()
                finishOne()
                whenFinished()
            }
            if let thread { pthread_detach(thread) } else { finishOne() }
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
        let thread = startThread { [self] in
            // On Linux, niceness is a property of a thread (setpriority(2)).
            if niceness > 0 { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness) }
            withExtendedLifetime(self) { job.runSynchronously(on: executor) }
        }
        if let thread { pthread_detach(thread) } else { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
    }
}
