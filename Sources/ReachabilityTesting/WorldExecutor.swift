internal import Glibc
internal import Synchronization

/// Runs the tasks of a ``TestWorld`` one at a time on a thread of its own, and knows when none has anything to do.
///
/// Whatever resumes one of these tasks enqueues it before it returns. So nothing is on its way while the queue is empty and no job
/// runs. Safe to use from any thread.
final class WorldExecutor: TaskExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        /// The thread, while it runs a job.
        var runner: pthread_t?
        /// Whether the thread is gone, or there never was one: then jobs run on the default pool.
        var isClosed = false
        /// The tasks that wait until nothing is left to do.
        var idleWitnesses: [UnsafeContinuation<Void, Never>] = []

        var isIdle: Bool { jobs.isEmpty && runner == nil }
    }

    private let state = Mutex(State())
    /// Counts the jobs that the thread has not taken, and the close.
    ///
    /// Unsafe only for the compiler: sem_post(3) and sem_wait(3) may be called from any thread, and it is freed by `deinit`.
    private nonisolated(unsafe) let semaphore: UnsafeMutablePointer<sem_t>

    init() {
        semaphore = .allocate(capacity: 1)
        sem_init(semaphore, 0, 0)
        var thread = pthread_t()
        // The thread keeps the executor until it is closed.
        let box = Unmanaged.passRetained(self)
        let code = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<WorldExecutor>.fromOpaque(argument).takeRetainedValue().serve()
                return nil
            }, box.toOpaque())
        if code == 0 {
            pthread_detach(thread)
        } else {
            box.release()
            state.withLock { $0.isClosed = true }
        }
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

    /// Whether no job runs or waits, that of the calling task apart.
    var isIdleButForCaller: Bool {
        state.withLock { state in state.jobs.isEmpty && (state.runner.map { pthread_equal($0, pthread_self()) != 0 } ?? true) }
    }

    /// Suspends until no job runs or waits, that of the calling task apart.
    func untilIdle() async {
        await withUnsafeContinuation { continuation in
            let isIdle = state.withLock { state in
                if !state.isIdle { state.idleWitnesses.append(continuation) }
                return state.isIdle
            }
            if isIdle { continuation.resume() }
        }
    }

    /// Ends the thread after the jobs that wait; later ones run on the default pool.
    func close() {
        state.withLock { $0.isClosed = true }
        sem_post(semaphore)
    }

    private func serve() {
        let executor = asUnownedTaskExecutor()
        while true {
            // Interrupted by a signal: wait again.
            while sem_wait(semaphore) != 0 {}
            let job = state.withLock { state -> UnownedJob? in
                guard !state.jobs.isEmpty else { return nil }
                state.runner = pthread_self()
                return state.jobs.removeFirst()
            }
            guard let job else { return }
            job.runSynchronously(on: executor)
            let witnesses = state.withLock { state in
                state.runner = nil
                guard state.isIdle else { return [UnsafeContinuation<Void, Never>]() }
                defer { state.idleWitnesses = [] }
                return state.idleWitnesses
            }
            for witness in witnesses { witness.resume() }
        }
    }
}
