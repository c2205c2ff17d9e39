import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Times of jobs, and time itself as the core counts it.
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

        mutating func pop() -> (JobIndex, Int64)? {
            guard let entry = queue.first(isCurrent: { [tokens] in tokens[$0.job] == $0.token }) else { return nil }
            queue.removeFirst()
            tokens[entry.job] = nil
            return (entry.job, entry.time.nanoseconds)
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
        for time in 0..<100_000 {
            owner.arm(1, at: Int64(time))
            owner.cancel(1)
            #expect(owner.queue.storedCount <= 70)
        }
        #expect(owner.queue.count == 1)
    }

    @Test func timesAreRoundedUpAndSaturate() {
        #expect(BusTime(.nanoseconds(5)).nanoseconds == 5)
        #expect(BusTime(Duration(attoseconds: 1)).nanoseconds == 1, "nothing happens before its time")
        #expect(BusTime(Duration(attoseconds: -1)).nanoseconds == 0)
        #expect(BusTime(Duration(attoseconds: .max)) == .never && BusTime(Duration(attoseconds: .min)) == .past)
        #expect(BusTime.start + .seconds(1) == BusTime(.seconds(1)))
        #expect(BusTime(nanoseconds: .max - 1) + .seconds(1) == .never)
        #expect(BusTime(nanoseconds: .min + 1) + .seconds(-1) == .past)
        #expect(BusTime.never + .seconds(-1) == .never)
        #expect(BusTime.never - .past < .seconds(600 * 366 * 86_400), "many such spans can be added up")
        #expect(BusTime(nanoseconds: 7) - BusTime(nanoseconds: 9) == .nanoseconds(-2))
    }
}
