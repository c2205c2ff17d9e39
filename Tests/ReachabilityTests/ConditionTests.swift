import Reachability
import ReachabilityTesting
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct ConditionTests {
    @Test func sourceSetsLevelAndEpoch() {
        let source = ConditionSource("login", isSatisfied: false)
        #expect(source.condition.state == .init() && source.condition.name == "login")
        source.set(true)
        source.set(true)
        #expect(source.condition.state == .init(isSatisfied: true, epoch: 1))
        source.set(false)
        source.advanceEpoch()
        #expect(source.condition.state == .init(isSatisfied: false, epoch: 2))
        source.set(true)
        source.finish()
        source.set(false)
        source.advanceEpoch()
        #expect(source.condition.state == .init(isSatisfied: true, epoch: 3, isFinished: true))
    }

    @Test func satisfiedConditionStartsWithEpochOne() {
        let source = ConditionSource("login", isSatisfied: true)
        #expect(source.condition.state == .init(isSatisfied: true, epoch: 1))
        withExtendedLifetime(source) {}
    }

    @Test(arguments: [true, false]) func aReleasedSourceFinishesItsCondition(isSatisfied: Bool) async {
        var source: ConditionSource? = ConditionSource("login", isSatisfied: isSatisfied)
        guard let condition = source?.condition else { return }
        var updates = condition.updates.makeAsyncIterator()
        #expect(await updates.next()?.isFinished == false)
        source = nil
        #expect(await updates.next() == .init(isSatisfied: isSatisfied, epoch: isSatisfied ? 1 : 0, isFinished: true))
        #expect(await updates.next() == nil)
    }

    @Test func updatesEndWithTheFinishedState() async {
        let source = ConditionSource("login", isSatisfied: false)
        var updates = source.condition.updates.makeAsyncIterator()
        #expect(await updates.next() == .init())
        source.set(true)
        #expect(await updates.next() == .init(isSatisfied: true, epoch: 1))
        source.finish()
        #expect(await updates.next() == .init(isSatisfied: true, epoch: 1, isFinished: true))
        #expect(await updates.next() == nil)
    }

    @Test func slowListenerSeesTheLatestState() async {
        let source = ConditionSource("login", isSatisfied: false)
        var updates = source.condition.updates.makeAsyncIterator()
        for _ in 0..<100 {
            source.set(true)
            source.set(false)
        }
        #expect(await updates.next() == .init(isSatisfied: false, epoch: 100))
    }

    @Test func lateListenersGetTheFinishedState() async {
        let source = ConditionSource("login", isSatisfied: true)
        source.finish()
        var states: [Condition.State] = []
        for await state in source.condition.updates { states.append(state) }
        #expect(states == [.init(isSatisfied: true, epoch: 1, isFinished: true)])
    }

    @Test func conditionFollowsASequence() async {
        let (levels, levelsIn) = AsyncStream.makeStream(of: Bool.self)
        let condition = Condition("charger", levels)
        var updates = condition.updates.makeAsyncIterator()
        #expect(await updates.next() == .init())
        levelsIn.yield(true)
        #expect(await updates.next() == .init(isSatisfied: true, epoch: 1))
        levelsIn.finish()
        #expect(await updates.next() == .init(isSatisfied: true, epoch: 1, isFinished: true))
    }

    @Test func observersMayChangeTheCondition() {
        let storage = ConditionStorage(.init())
        let seen = Recorder<Condition.State>()
        let id = storage.observe {
            seen.record(storage.state)
            if storage.state.epoch < 3 {
                storage.set(false)
                storage.set(true)
            }
        }
        storage.set(true)
        #expect(seen.value.last == .init(isSatisfied: true, epoch: 3))
        storage.removeObserver(id)
        storage.set(false)
        #expect(seen.value.last?.epoch == 3 && storage.listenerCount == 0)
    }

    /// A listener that hears of a change from a stream finds the jobs of a bus awake.
    @Test func observersHearBeforeStreams() async {
        let storage = ConditionStorage(.init())
        let (states, stream) = AsyncStream.makeStream(of: Condition.State.self, bufferingPolicy: .bufferingOldest(1))
        storage.subscribe(stream)
        var iterator = states.makeAsyncIterator()
        #expect(await iterator.next() == .init())
        let streamWasEmpty = Mutex<Bool?>(nil)
        _ = storage.observe {
            let result = stream.yield(.init())
            streamWasEmpty.withLock { if case .enqueued = result { $0 = true } else { $0 = false } }
        }
        storage.set(true)
        #expect(streamWasEmpty.withLock(\.self) == true)
    }

    @Test func concurrentChangesArePublishedInOrder() async {
        let source = ConditionSource("login", isSatisfied: false)
        let epochs = Recorder<UInt64>()
        _ = source.condition.storage.observe {
            let epoch = source.condition.state.epoch
            epochs.record(epoch)
        }
        await withDiscardingTaskGroup { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<500 { source.advanceEpoch() } } }
        }
        let published = epochs.value
        #expect(published == published.sorted() && published.last == 4000)
    }

    @Test func endedListenersAreForgotten() async {
        let source = ConditionSource("login", isSatisfied: false)
        await withDiscardingTaskGroup { group in
            for _ in 0..<100 { group.addTask { for await _ in source.condition.updates { break } } }
        }
        let waiting = Task { for await _ in source.condition.updates {} }
        waiting.cancel()
        await waiting.value
        #expect(source.condition.storage.listenerCount == 0)
    }

    /// Starts to wait, and returns when the waiter is known.
    private func wait(for storage: ConditionStorage) -> Task<Condition.State?, Never> {
        let count = storage.listenerCount
        let waiting = Task.immediate { await storage.satisfiedOrFinished() }
        #expect(storage.listenerCount == count + 1)
        return waiting
    }

    @Test func waitEndsWhenTheConditionIsSatisfied() async {
        let storage = ConditionStorage(.init())
        let waiting = [wait(for: storage), wait(for: storage)]
        storage.advanceEpoch()
        #expect(storage.listenerCount == 2, "another epoch ends no wait")
        storage.set(true)
        for task in waiting { #expect(await task.value == .init(isSatisfied: true, epoch: 2)) }
        #expect(storage.listenerCount == 0)
        #expect(await storage.satisfiedOrFinished() == .init(isSatisfied: true, epoch: 2), "at once")
    }

    @Test func waitEndsWhenTheConditionIsFinished() async {
        let storage = ConditionStorage(.init())
        let waiting = wait(for: storage)
        storage.finish()
        #expect(await waiting.value == .init(isFinished: true))
        #expect(await storage.satisfiedOrFinished() == .init(isFinished: true), "at once")
        #expect(storage.listenerCount == 0)
    }

    @Test func waitEndsWhenItsTaskIsCancelled() async {
        let storage = ConditionStorage(.init())
        let waiting = wait(for: storage)
        let other = wait(for: storage)
        waiting.cancel()
        #expect(await waiting.value == nil)
        #expect(storage.listenerCount == 1, "only one was cancelled")
        storage.set(true)
        #expect(await other.value?.isSatisfied == true)
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await storage.satisfiedOrFinished()
        }
        #expect(await late.value == nil, "a cancelled task does not wait")
        #expect(storage.listenerCount == 0)
    }

    @Test func concurrentCancellationsEndEachWaitOnce() async {
        let storage = ConditionStorage(.init())
        let waiting = (0..<400).map { _ in Task { await storage.satisfiedOrFinished() } }
        // Waiting, cancelling and changes race.
        await withDiscardingTaskGroup { group in
            for (number, task) in waiting.enumerated() {
                group.addTask {
                    if number.isMultiple(of: 2) { task.cancel() }
                    storage.set(true)
                    storage.set(false)
                }
            }
        }
        // Some began to wait after the last of these changes.
        storage.set(true)
        for (number, task) in waiting.enumerated() {
            let state = await task.value
            #expect(number.isMultiple(of: 2) || state?.isSatisfied == true, "waiter \(number)")
        }
        #expect(storage.listenerCount == 0)
    }
}
