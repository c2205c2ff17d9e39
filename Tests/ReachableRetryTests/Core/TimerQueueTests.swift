import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// The timer queue, compared with a table.
struct TimerQueueTests {
    @Test func theEarliestComesFirst() {
        var queue = TimerQueue()
        for (job, time) in [(1, 30), (2, 10), (3, 20)] as [(JobIndex, Int64)] { queue.arm(job, at: BusTime(nanoseconds: time)) }
        #expect(queue.earliest == BusTime(nanoseconds: 10) && queue.popDue(at: BusTime(nanoseconds: 9)) == nil)
        let now = BusTime(nanoseconds: 29)
        #expect([queue.popDue(at: now), queue.popDue(at: now), queue.popDue(at: now)] == [2, 3, nil])
        #expect(queue.count == 1 && !queue.isArmed(2) && queue.isArmed(1))
        #expect(queue.popDue(at: .never) == 1 && queue.popDue(at: .never) == nil && queue.earliest == .never)
    }

    @Test func aNewTimeReplacesTheOldOne() {
        var queue = TimerQueue()
        for job in 0..<10 as Range<JobIndex> { queue.arm(job, at: BusTime(nanoseconds: 10 + Int64(job))) }
        queue.arm(9, at: .start)
        queue.arm(0, at: .never)
        #expect(queue.count == 10 && queue.popDue(at: .never) == 9)
        #expect((0..<9).map { _ in queue.popDue(at: .never) } == [1, 2, 3, 4, 5, 6, 7, 8, 0])
    }

    @Test func postponedJobUncoversNoVacantPlace() {
        var queue = TimerQueue()
        for job in 0..<3 as Range<JobIndex> { queue.arm(job, at: BusTime(nanoseconds: Int64(job))) }
        queue.cancel(1)
        queue.arm(0, at: BusTime(nanoseconds: 9))
        #expect(queue.earliest == BusTime(nanoseconds: 2) && queue.popDue(at: .never) == 2 && queue.popDue(at: .never) == 0)
    }

    @Test func unarmedJobCanBeCancelled() {
        var queue = TimerQueue()
        queue.cancel(7)
        queue.arm(3, at: .start)
        queue.cancel(2)
        queue.cancel(7)
        #expect(queue.count == 1 && !queue.isArmed(7) && !queue.isArmed(100))
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func queueAgreesWithATable(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var queue = TimerQueue()
        var table: [JobIndex: Int64] = [:]
        for step in 0..<3000 {
            let job = JobIndex.random(in: 0..<100, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                let time = Int64.random(in: 0..<1000, using: &random)
                queue.arm(job, at: BusTime(nanoseconds: time))
                table[job] = time
            case 6..<8:
                queue.cancel(job)
                table[job] = nil
            default:
                let earliest = table.values.min()
                #expect(queue.earliest == earliest.map { BusTime(nanoseconds: $0) } ?? .never, "seed \(seed), step \(step)")
                let popped = queue.popDue(at: .never)
                #expect(popped.flatMap { table[$0] } == earliest, "seed \(seed), step \(step)")
                if let popped { table[popped] = nil }
            }
            #expect(queue.count == table.count && queue.isArmed(job) == (table[job] != nil), "seed \(seed), step \(step)")
        }
    }

    @Test func cancelledTimersTakeNoMemory() {
        var queue = TimerQueue()
        for job in 0..<100_000 as Range<JobIndex> { queue.arm(job, at: BusTime(nanoseconds: Int64(job * 7919 % 100_000))) }
        #expect(queue.count == 100_000 && queue.capacity >= 100_000)
        for job in 0..<100_000 as Range<JobIndex> { queue.cancel(job) }
        #expect(queue.count == 0 && queue.capacity == 0)
    }

    @Test func repeatedlyCancelledTimersAreCleared() {
        var queue = TimerQueue()
        queue.arm(0, at: BusTime(nanoseconds: 1))
        for time in 0..<100_000 as Range<Int64> {
            queue.arm(1, at: BusTime(nanoseconds: 2 + time))
            queue.cancel(1)
        }
        #expect(queue.count == 1 && queue.capacity < 1000)
        #expect(queue.popDue(at: .never) == 0 && queue.popDue(at: .never) == nil)
    }

    /// The remaining timers lie behind many cancelled ones.
    @Test func remainingTimersStayInOrder() {
        var queue = TimerQueue()
        for job in 0..<1000 as Range<JobIndex> { queue.arm(job, at: BusTime(nanoseconds: Int64(job * 389 % 1000))) }
        for job in 0..<1000 as Range<JobIndex> where job % 7 != 0 { queue.cancel(job) }
        let rest = (0..<1000 as Range<JobIndex>).filter { $0 % 7 == 0 }.sorted { $0 * 389 % 1000 < $1 * 389 % 1000 }
        #expect(rest.map { _ in queue.popDue(at: .never) } == rest && queue.count == 0)
    }
}
