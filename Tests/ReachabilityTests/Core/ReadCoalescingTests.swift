import Reachability
import Testing

@Suite struct ReadCoalescingTests {
    private var coalescing = ReadCoalescing()
    private var now: Duration = .seconds(1000)

    private mutating func read(_ datagrams: Int, after time: Duration) {
        now += time
        coalescing.note(datagrams, at: now)
    }

    @Test mutating func fewEventsAreNoFlood() {
        for _ in 0..<1000 {
            read(3, after: .microseconds(50))
            #expect(!coalescing.isFlood)
        }
    }

    @Test mutating func burstAfterARestIsNoFlood() {
        read(256, after: .seconds(5))
        #expect(!coalescing.isFlood)
        read(1, after: .seconds(5))
        #expect(!coalescing.isFlood)
    }

    @Test mutating func floodIsDetectedWithinTwoMilliseconds() {
        read(1, after: .seconds(5))
        for _ in 0..<100 { read(2, after: .microseconds(20)) }
        #expect(coalescing.isFlood)
    }

    @Test mutating func firstEventAfterAFloodEndsIt() {
        read(1, after: .seconds(5))
        for _ in 0..<10 { read(250, after: .microseconds(250)) }
        #expect(coalescing.isFlood)
        read(1, after: .milliseconds(50))
        #expect(!coalescing.isFlood)
    }

    @Test mutating func rateDecides() {
        read(1, after: .seconds(5))
        read(640, after: .milliseconds(10))
        #expect(coalescing.isFlood)
        read(640, after: .milliseconds(11))
        #expect(!coalescing.isFlood)
    }

    @Test mutating func backwardClockDoesNotTrap() {
        read(64, after: .milliseconds(1))
        coalescing.note(64, at: .zero)
        coalescing.note(.zero, at: .seconds(Int64.max))
        #expect(!coalescing.isFlood)
    }
}
