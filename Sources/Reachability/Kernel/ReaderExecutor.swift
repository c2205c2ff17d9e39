internal import Glibc
internal import Synchronization

/// Runs the jobs of tasks on the reader's thread, between deliveries and between their phases.
///
/// What the reader's own thread enqueues, such as a listener that a transition has resumed, waits for the end of the phase and
/// costs no wake-up. Other threads wake the reader, once for all they enqueue until it looks. While nobody reads, jobs run on the
/// default pool: none is ever lost. Safe to use from any thread.
package final class ReaderExecutor: TaskExecutor {
    private struct State {
        /// The thread that runs the jobs; `nil` while nobody reads.
        var reader: pthread_t?
        var jobs: [UnownedJob] = []
        /// An empty array with room, for the jobs that come while others run.
        var spare: [UnownedJob] = []
        /// Whether the reader has been woken since it last looked.
        var isWoken = false
    }

    private enum Destination {
        case reader(needsWaking: Bool)
        case pool
    }

    private let state = Mutex(State())
    private let wake: @Sendable () -> Void

    /// Makes an executor that nobody serves yet.
    ///
    /// - Parameter wake: makes the reader call ``runJobs()`` soon; called outside locks, from any thread but the reader's.
    package init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let destination = state.withLock { state -> Destination in
            guard let reader = state.reader else { return .pool }
            state.jobs.append(job)
            guard !state.isWoken, reader != pthread_self() else { return .reader(needsWaking: false) }
            state.isWoken = true
            return .reader(needsWaking: true)
        }
        switch destination {
        case .reader(let needsWaking): if needsWaking { wake() }
        case .pool: globalConcurrentExecutor.enqueue(ExecutorJob(job))
        }
    }

    /// Makes the calling thread the one that jobs run on, until ``close()``.
    package func open() { state.withLock { $0.reader = pthread_self() } }

    /// Runs what is waiting, and returns whether more came meanwhile: the caller looks after the network first.
    package func runJobs() -> Bool {
        var jobs = state.withLock { state in
            state.isWoken = false
            guard !state.jobs.isEmpty else { return [UnownedJob]() }
            defer { state.spare = [] }
            return exchange(&state.jobs, for: state.spare)
        }
        guard !jobs.isEmpty else { return false }
        let executor = asUnownedTaskExecutor()
        for job in jobs { job.runSynchronously(on: executor) }
        jobs.removeAll(keepingCapacity: true)
        return state.withLock { state in
            state.spare = jobs
            return !state.jobs.isEmpty
        }
    }

    /// Hands what is waiting, and what will come, to the default pool.
    package func close() {
        let jobs = state.withLock { state in
            state.reader = nil
            state.isWoken = false
            return exchange(&state.jobs, for: [])
        }
        for job in jobs { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
    }
}

private func exchange<Value>(_ variable: inout Value, for value: consuming Value) -> Value {
    swap(&variable, &value)
    return value
}
