import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// The times of jobs, beside a sorted list of them.
struct TimerQueueTests {
    /// A queue with what the core keeps beside it: each job's token.
    private struct Owner {
        var queue = TimerQueue()
        var tokens: [JobIndex: TimerQueue.Token] = [:]

        mutating func arm(_ job: JobIndex, at time: Int64) {
            cancel(job)
            tokens[job] = queue.arm(job, at: BusTime(nanoseconds: time))
        }

        mutating func cancel(_ job: JobIndex) {
            guard tokens.removeValue(forKey: job) != nil else { return }
            queue.cancel { [tokens] in tokens[$0.job] == $0.token }
        }

        mutating func next() -> (JobIndex, Int64)? {
            queue.first { [tokens] in tokens[$0.job] == $0.token }.map { ($0.job, $0.time.nanoseconds) }
        }

        mutating func pop() -> (JobIndex, Int64)? {
            guard let next = next() else { return nil }
            queue.removeFirst()
            tokens[next.0] = nil
            return next
        }
    }

    @Test func theEarliestComesFirstAndOfTheSameTimeTheOldest() {
        var owner = Owner()
        for (job, time) in [(1, 30), (2, 10), (3, 20), (4, 10)] as [(JobIndex, Int64)] { owner.arm(job, at: time) }
        #expect([owner.pop(), owner.pop(), owner.pop(), owner.pop()].map { $0?.0 } == [2, 4, 3, 1])
        #expect(owner.pop() == nil && owner.queue.count == 0)
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func itAgreesWithASortedList(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var owner = Owner()
        var list: [JobIndex: (time: Int64, order: Int)] = [:]
        for step in 0..<20_000 {
            let forgotten = owner.queue.storedCount - owner.queue.count
            #expect(forgotten <= 32 || forgotten <= owner.queue.storedCount / 2 + 1, "seed \(seed), step \(step)")
            let job = JobIndex.random(in: 0..<50, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                let time = Int64.random(in: 0..<100, using: &random)
                owner.arm(job, at: time)
                list[job] = (time, step)
            case 6..<8:
                owner.cancel(job)
                list[job] = nil
            default:
                let expected = list.min { ($0.value.time, $0.value.order) < ($1.value.time, $1.value.order) }
                let popped = owner.pop()
                #expect(popped?.0 == expected?.key && popped?.1 == expected?.value.time, "seed \(seed), step \(step)")
                if let expected { list[expected.key] = nil }
            }
            #expect(owner.queue.count == list.count, "seed \(seed), step \(step)")
        }
    }

    @Test func whatIsForgottenTakesNoMemory() {
        var owner = Owner()
        owner.arm(0, at: 1_000_000)
        var most = 0
        for time in 0..<1_000_000 {
            owner.arm(1, at: Int64(time))
            owner.cancel(1)
            most = max(most, owner.queue.storedCount)
        }
        #expect(owner.queue.count == 1 && most <= 70)
        #expect(owner.pop()?.0 == 0 && owner.pop() == nil)
    }

    /// Times that were taken back lie behind those that come up, and are not waited for.
    @Test func whatIsForgottenIsNotKeptUntilItsTime() {
        var owner = Owner()
        for job in 0..<1000 as Range<JobIndex> { owner.arm(job, at: Int64(job)) }
        for job in 510..<1000 as Range<JobIndex> { owner.cancel(job) }
        for job in 0..<509 as Range<JobIndex> { #expect(owner.pop()?.0 == job) }
        #expect(owner.next()?.0 == 509 && owner.queue.count == 1)
        #expect(owner.queue.storedCount <= 70)
    }

    @Test func noTokenIsGivenTwiceOrMeansNone() {
        var queue = TimerQueue()
        let tokens = (0..<1000).map { _ in queue.arm(7, at: .start) }
        #expect(Set(tokens).count == 1000 && !tokens.contains(0))
    }
}
