import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// The rules of the executor, with the test's own thread as the reader.
@Suite(.timeLimit(.minutes(10))) struct ReaderExecutorTests {
    private let wakes = Counter()
    private let ran = Counter()
    private let executor: ReaderExecutor

    init() {
        let wakes = wakes
        executor = ReaderExecutor { wakes.add() }
    }

    private func start() -> Task<Void, Never> {
        Task(executorPreference: executor) { [ran] in ran.add() }
    }

    @Test func readersJobsWaitForTheirRoundWithoutAWakeUp() {
        executor.open()
        defer { executor.close() }
        for _ in 0..<3 { _ = start() }
        #expect(ran.value == 0 && wakes.value == 0)
        #expect(!executor.runJobs())
        #expect(ran.value == 3 && wakes.value == 0)
    }

    @Test func otherThreadsWakeTheReaderOnce() {
        executor.open()
        defer { executor.close() }
        for round in 1...2 {
            onAnotherThread { for _ in 0..<10 { _ = start() } }
            #expect(wakes.value == round)
            #expect(!executor.runJobs())
            #expect(ran.value == round * 10)
        }
    }

    @Test func jobsOfAllThreadsRunInOrder() {
        let order = Recorder<Int>()
        executor.open()
        defer { executor.close() }
        let append = { @Sendable [executor] (number: Int) in
            _ = Task(executorPreference: executor) { order.record(number) }
        }
        append(1)
        onAnotherThread { append(2) }
        append(3)
        #expect(!executor.runJobs())
        #expect(order.value == [1, 2, 3])
    }

    @Test func nestedJobRunsInALaterRound() {
        executor.open()
        defer { executor.close() }
        _ = Task(executorPreference: executor) { [ran] in
            ran.add()
            // Enqueues the rest of the task as another job.
            await Task.yield()
            ran.add()
        }
        #expect(executor.runJobs())
        #expect(ran.value == 1)
        while executor.runJobs() {}
        #expect(ran.value == 2 && wakes.value == 0)
    }

    @Test func withoutAReaderJobsRunOnTheDefaultPool() async {
        await start().value
        executor.open()
        executor.close()
        await start().value
        #expect(ran.value == 2 && wakes.value == 0)
    }

    @Test func waitingJobsMoveToTheDefaultPool() async {
        let tasks = enqueueAndLeave()
        for task in tasks { await task.value }
        #expect(ran.value == 5)
    }

    /// Not in the test itself: the reader's thread must not change in between.
    private func enqueueAndLeave() -> [Task<Void, Never>] {
        executor.open()
        let tasks = (0..<5).map { _ in start() }
        #expect(ran.value == 0)
        executor.close()
        return tasks
    }
}

/// The same with the kernel's reader.
@Suite(.timeLimit(.minutes(10))) struct KernelExecutorTests {
    @Test func tasksRunOnTheThreadThatDelivers() async throws {
        let kernel = KernelNetwork()
        let threads = AsyncStream.makeStream(of: pthread_t.self)
        let running = Task {
            try await kernel.run { _ in
                threads.continuation.yield(pthread_self())
                return nil
            }
        }
        var iterator = threads.stream.makeAsyncIterator()
        let reader = try #require(await iterator.next(isolation: #isolation))
        let task = Task(executorPreference: kernel.executor) {
            let first = currentThread()
            // Enqueues the rest of the task as another job.
            await Task.yield()
            return [first, currentThread()]
        }
        #expect(await task.value == [reader, reader])
        running.cancel()
        _ = await running.result
        let late = Task(executorPreference: kernel.executor) { currentThread() }
        #expect(await late.value != reader)
    }

    /// A job is no reason to call the monitor.
    @Test func jobsAloneMakeNoBatches() async throws {
        let kernel = KernelNetwork()
        let batches = AsyncStream.makeStream(of: NetworkEventBatch.self)
        let running = Task {
            try await kernel.run { batch in
                batches.continuation.yield(batch)
                return nil
            }
        }
        var iterator = batches.stream.makeAsyncIterator()
        _ = await iterator.next(isolation: #isolation)
        for _ in 0..<100 { await Task(executorPreference: kernel.executor) {}.value }
        running.cancel()
        _ = await running.result
        batches.continuation.finish()
        // Other events of this machine make batches, too, some of them empty.
        var empty = 0
        while let batch = await iterator.next(isolation: #isolation) { empty += batch.events.isEmpty ? 1 : 0 }
        #expect(empty < 50)
    }

    @Test func hoppingTasksEndWhileTheReaderChanges() async throws {
        let kernel = KernelNetwork()
        let hoppers = (0..<20).map { _ in
            Task(executorPreference: kernel.executor) {
                // Each of them enqueues a job, with the reader or without it.
                for _ in 0..<200 { await Task.yield() }
                return 1
            }
        }
        for _ in 0..<10 {
            let (started, continuation) = AsyncStream.makeStream(of: Void.self)
            let running = Task {
                try await kernel.run { _ in
                    continuation.yield()
                    return nil
                }
            }
            for await _ in started { break }
            running.cancel()
            _ = await running.result
        }
        var ended = 0
        for hopper in hoppers { ended += await hopper.value }
        #expect(ended == 20)
    }
}
