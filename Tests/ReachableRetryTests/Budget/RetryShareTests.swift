import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableRetry

/// Finagle's retry budget, with the numbers of its own tests.
@Suite(.computing) struct RetryShareTests {
    private func time(_ seconds: Double) -> BusTime { BusTime(.seconds(seconds)) }

    private func granted(_ share: inout RetryShare, of count: Int, at time: BusTime = .start) -> Int {
        (0..<count).count { _ in share.takeRetry(afterTimeout: false, at: time) != nil }
    }

    /// A number of jobs, each of which fails and requests a retry.
    @Test(arguments: [0.01, 0.1, 1, 5, 10, 20, 33.3333, 50, 75, 99.99], [0, 10]) func percentageOfJobsMayRetry(
        percentage: Double, minimum: Int
    ) {
        var share = RetryShare(percentage: percentage, minimumPerSecond: minimum, window: .seconds(10))
        let granted = (0..<10_000).count { _ in
            share.noteFailure(isFirst: true, at: .start)
            return share.takeRetry(afterTimeout: false, at: .start) != nil
        }
        let expected = min(10_000, percentage * 100 + Double(minimum * 10))
        #expect(abs(Double(granted) - expected) <= 1, "\(expected)")
    }

    @Test func aJobMayAllowMoreThanOneRetry() {
        var share = RetryShare(percentage: 200, minimumPerSecond: 0, window: .seconds(10))
        for _ in 0..<10_000 { share.noteSuccess(refund: nil, at: .start) }
        #expect(share.balance == 20_000 * Int64(RetryShare.retry))
        #expect(granted(&share, of: 30_000) == 20_000)
    }

    @Test func minimumIsAllowedWithoutJobs() {
        var none = RetryShare(percentage: 0, minimumPerSecond: 0, window: .seconds(10))
        for _ in 0..<100 { none.noteFailure(isFirst: true, at: .start) }
        #expect(granted(&none, of: 100) == 0)
        var ten = RetryShare(percentage: 0, minimumPerSecond: 10, window: .seconds(1))
        #expect(granted(&ten, of: 100) == 10)
        var hundred = RetryShare(percentage: 20, minimumPerSecond: 10, window: .seconds(10))
        #expect(granted(&hundred, of: 1000) == 100)
        #expect(granted(&hundred, of: 1000, at: time(9.999)) == 0)
        #expect(granted(&hundred, of: 1000, at: time(10)) == 100, "they renew themselves")
    }

    @Test func aJobCountsOnce() {
        var share = RetryShare(percentage: 100, minimumPerSecond: 0, window: .seconds(10))
        share.noteFailure(isFirst: true, at: .start)
        #expect(share.takeRetry(afterTimeout: true, at: .start) == 0)
        share.noteFailure(isFirst: false, at: .start)
        share.noteSuccess(refund: 0, at: .start)
        #expect(granted(&share, of: 2) == 0)
        share.noteSuccess(refund: nil, at: .start)
        #expect(granted(&share, of: 2) == 1)
    }

    @Test(arguments: [(0.0, 9.999, 1), (0, 10, 0), (0.999, 9.999, 1), (0.999, 10, 0), (1, 10.999, 1), (1, 11, 0), (5, 1000, 0)])
    func jobLeavesTheShareAfterTheWindow(deposited: Double, asked: Double, retries: Int) {
        var share = RetryShare(percentage: 100, minimumPerSecond: 0, window: .seconds(10))
        share.noteSuccess(refund: nil, at: time(deposited))
        #expect(granted(&share, of: 2, at: time(asked)) == retries)
    }

    @Test func lateEntryCountsInTheLatestSlice() {
        var share = RetryShare(percentage: 100, minimumPerSecond: 0, window: .seconds(10))
        share.noteSuccess(refund: nil, at: time(12))
        share.noteSuccess(refund: nil, at: .start)
        share.noteSuccess(refund: nil, at: .past)
        #expect(granted(&share, of: 5, at: time(21)) == 3)
        share.noteSuccess(refund: nil, at: .never)
        #expect(granted(&share, of: 5, at: .never) == 1)
    }

    struct Extreme: Sendable {
        var percentage = 20.0
        var minimum = 10
        var window = Duration.seconds(10)
        /// The constant share and the share of each job, in parts of a retry.
        var reserve: Int64 = 100_000_000
        var deposit: Int64 = 200_000
    }

    @Test(arguments: [
        Extreme(),
        Extreme(percentage: -1, deposit: 0), Extreme(percentage: .nan, deposit: 0), Extreme(percentage: -.infinity, deposit: 0),
        Extreme(percentage: 0.0001, deposit: 1), Extreme(percentage: 0.000_09, deposit: 0),
        Extreme(percentage: .infinity, deposit: 21_474_836_470_000),
        Extreme(percentage: .greatestFiniteMagnitude, deposit: 21_474_836_470_000),
        Extreme(minimum: -1, reserve: 0), Extreme(minimum: .min, reserve: 0),
        Extreme(minimum: .max, reserve: 21_474_836_470_000_000),
        Extreme(minimum: .max, window: .longest, reserve: .max, deposit: 0),
        Extreme(window: .zero, reserve: 10_000_000), Extreme(window: .seconds(-1), reserve: 10_000_000),
        Extreme(window: .nanoseconds(1), reserve: 10_000_000),
    ]) func noNumberTrapsTheShare(extreme: Extreme) {
        var share = RetryShare(
            percentage: extreme.percentage, minimumPerSecond: extreme.minimum, window: extreme.window)
        #expect(share.balance == extreme.reserve)
        share.noteFailure(isFirst: true, at: .start)
        #expect(share.balance == extreme.reserve + extreme.deposit)
        for time in [BusTime.past, .start, time(3), .never, time(5)] {
            for _ in 0..<1000 { share.noteSuccess(refund: nil, at: time) }
            _ = granted(&share, of: 1000, at: time)
        }
    }

    /// Compares the share with a list of all deposits and withdrawals.
    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64]) func shareAgreesWithAListOfEvents(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let percentage = Double(Int.random(in: 0...300, using: &random))
        let minimum = Int.random(in: 0...2, using: &random)
        var share = RetryShare(percentage: percentage, minimumPerSecond: minimum, window: .seconds(10))
        var entries: [(second: Int, amount: Int64)] = []
        var now = 0
        for step in 0..<5000 {
            // Mostly within the window, sometimes far beyond.
            now += Int.random(in: 0..<100, using: &random) == 0 ? 30_000 : Int.random(in: 0...300, using: &random)
            let time = BusTime(.milliseconds(now))
            let left =
                Int64(minimum) * 10_000_000
                + entries.filter { $0.second > now / 1000 - 10 }.reduce(0) { $0 + $1.amount }
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                share.noteFailure(isFirst: true, at: time)
                entries.append((now / 1000, Int64(percentage) * 10_000))
            case 1:
                share.noteSuccess(refund: nil, at: time)
                entries.append((now / 1000, Int64(percentage) * 10_000))
            default:
                let isGranted = share.takeRetry(afterTimeout: false, at: time) != nil
                #expect(isGranted == (left >= 1_000_000), "seed \(seed), step \(step), \(percentage) %, \(minimum) a second")
                if isGranted { entries.append((now / 1000, -1_000_000)) }
            }
        }
    }
}
