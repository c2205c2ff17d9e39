import ReachabilityTesting
import ReachableRetry
import Testing

struct BackoffTests {
    @Test func exponentialDelaysDoubleUpToTheCap() {
        let backoff = Backoff.exponential(initial: .milliseconds(100), maximum: .seconds(10))
        var generator = SeededGenerator(seed: 1)
        let delays = (1...9).map { backoff.delay(afterFailure: $0, using: &generator) }
        #expect(delays == [100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000].map { .milliseconds($0) })
    }
}
