internal import Glibc
internal import Synchronization

/// Runs the jobs of tasks on the reader's thread, between deliveries and between their phases.
///
/// Jobs from the reader's own thread, such as a listener that a transition resumed, run at the end of the phase without a wake-up.
/// Other threads wake the reader once for all jobs that they enqueue before it looks. While no reader runs, jobs run on the default
/// pool: no job is lost. Safe to use from any thread.
package final class ReaderExecutor: TaskExecutor {
    private struct State {
        /// The thread that runs the jobs; `nil` while no reader runs.
        var reader: pthread_t?
        var jobs: [UnownedJob] = []
        /// An empty array with capacity, for jobs that arrive while others run.
        var spare: [UnownedJob] = []
        /// `true` if the reader was woken since it last looked.
        var isWoken = false
    }

    private enum Destination {
        case reader(needsWaking: Bool)
        case pool
    }

    private let state = Mutex(State())
    private let wake: @Sendable () -> Void

    /// Creates an executor without a reader.
    ///
    /// - Parameter wake: wakes the reader, which then calls ``runJobs()``; called outside locks, from any thread but the reader's.
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

    /// Runs jobs on the calling thread from now on, until ``close()``.
    package func open() { state.withLock { $0.reader = pthread_self() } }

    /// Runs the waiting jobs, and returns `true` if more arrived meanwhile: the caller looks at the network first.
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

    /// Moves the waiting jobs, and all later ones, to the default pool.
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
