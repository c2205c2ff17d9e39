internal import Glibc
internal import Reachability
internal import Synchronization

/// Runs the tasks of a ``TestWorld`` one at a time on its own thread, and knows when all of them are idle.
///
/// Resuming one of these tasks enqueues it at once: nothing is in transit while the queue is empty and no job runs. Safe to use
/// from any thread.
final class WorldExecutor: TaskExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        /// The thread, while it runs a job.
        var runner: pthread_t?
        /// True once the thread has ended or could not be started: jobs then run on the default pool.
        var isClosed = false
        /// The tasks that wait until the executor is idle.
        var idleWaiters: [UnsafeContinuation<Void, Never>] = []

        var isIdle: Bool { jobs.isEmpty && runner == nil }
    }

    private let state = Mutex(State())
    /// Counts the jobs that the thread has not taken, and the close.
    ///
    /// Unsafe only for the compiler: sem_post(3) and sem_wait(3) may be called from any thread, and `deinit` frees it.
    private nonisolated(unsafe) let semaphore: UnsafeMutablePointer<sem_t>

    init() {
        semaphore = .allocate(capacity: 1)
        sem_init(semaphore, 0, 0)
        // The thread retains the executor until it is closed.
        if SystemThread.start({ [self] in serve() }) != 0 { state.withLock { $0.isClosed = true } }
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isTaken = state.withLock { state in
            if !state.isClosed { state.jobs.append(job) }
            return !state.isClosed
        }
        if isTaken { sem_post(semaphore) } else { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
    }

    /// True if no job runs or waits, apart from the calling task's.
    var isIdleButForCaller: Bool {
        state.withLock { state in state.jobs.isEmpty && (state.runner.map { pthread_equal($0, pthread_self()) != 0 } ?? true) }
    }

    /// Suspends until no job runs or waits, apart from the calling task's.
    func untilIdle() async {
        await withUnsafeContinuation { continuation in
            let isIdle = state.withLock { state in
                if !state.isIdle { state.idleWaiters.append(continuation) }
                return state.isIdle
            }
            if isIdle { continuation.resume() }
        }
    }

    /// Ends the thread after the waiting jobs; later jobs run on the default pool.
    func close() {
        state.withLock { $0.isClosed = true }
        sem_post(semaphore)
    }

    private func serve() {
        let executor = asUnownedTaskExecutor()
        while true {
            // A signal interrupts the wait.
            while sem_wait(semaphore) != 0 {}
            let job = state.withLock { state -> UnownedJob? in
                guard !state.jobs.isEmpty else { return nil }
                state.runner = pthread_self()
                return state.jobs.removeFirst()
            }
            guard let job else { return }
            job.runSynchronously(on: executor)
            let waiters = state.withLock { state in
                state.runner = nil
                guard state.isIdle else { return [UnsafeContinuation<Void, Never>]() }
                defer { state.idleWaiters = [] }
                return state.idleWaiters
            }
            for waiter in waiters { waiter.resume() }
        }
    }
}
