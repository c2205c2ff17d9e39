import Testing

@testable import ReachableFleet

@Suite struct ReconnectDelayTests {
    @Test func pauseGrowsWithEachShortConnection() {
        var longest: [Duration] = Array(repeating: .zero, count: 5)
        var total = Duration.zero
        for seed: UInt64 in 0..<1000 {
            var delay = ReconnectDelay(seed: seed)
            for index in longest.indices {
                let pause = delay.next(after: .seconds(1))
                longest[index] = max(longest[index], pause)
                if index == 0 { total += pause }
            }
        }
        for (most, limit) in zip(longest, [1, 2, 4, 5, 5]) {
            #expect(most <= .seconds(limit) && most > .seconds(limit) * 0.95, "limit \(limit)")
        }
        #expect(total > .seconds(450) && total < .seconds(550))
    }

    @Test func longConnectionStartsAfresh() {
        var delay = ReconnectDelay(seed: 1)
        for _ in 0..<5 { _ = delay.next(after: .seconds(59)) }
        #expect(delay.limit == .seconds(5))
        #expect(delay.next(after: .seconds(60)) <= .seconds(1))
    }
}
