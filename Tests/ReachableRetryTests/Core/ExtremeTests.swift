import ReachabilityTesting
import TestSupport
import Testing

@testable import ReachableRetry

/// Extreme and invalid numbers have defined results and do not trap.
@Suite(.computing) struct ExtremeTests {
    private static let longest = Duration(attoseconds: .max)
    private static let durations = [longest, .seconds(Int64.max), .zero, .nanoseconds(-1), Duration(attoseconds: .min)]

    private static let releases: [ReleasePolicy] =
        durations.map { .spread(over: $0) }
        + durations.map { .tuned(spread: $0, backoff: $0, maximumBackoff: $0) }
        + [0, -1, .min, .max].map { .tuned(maxInFlight: $0, interactiveBypass: $0) }
        + [0, -1, .nan, .infinity, -.infinity, .greatestFiniteMagnitude, .leastNonzeroMagnitude].flatMap { rate in
            [.min, 0, 1, .max].flatMap { burst in
                [ReleasePolicy.paced(perSecond: rate, burst: burst), .tuned(rate: rate, burst: burst)]
            }
        } + [.immediate]

    private static func policies(_ duration: Duration) -> [RetryPolicy] {
        [
            RetryPolicy(.constant(duration)),
            RetryPolicy(.exponential(initial: duration, multiplier: .infinity, maximum: duration)),
            RetryPolicy(.linear(initial: duration, increment: duration)).giveUpAfter(maxAttempts: .max),
            RetryPolicy(.fibonacci(unit: duration)).giveUpAfter(elapsed: duration),
            RetryPolicy(.custom { _ in duration }).giveUpAfter(maxAttempts: .min).attemptTimeout(duration),
            RetryPolicy(.constant(duration).jitter(.decorrelated)).connectivity(.wait(upTo: duration)),
            RetryPolicy.default.interruptsAttempt(.whenUnsatisfied(grace: duration)).attemptTimeout(duration),
        ]
    }

    /// Each plays a job with all kinds of failures, losses and reconnects, up to the largest time.
    @Test(arguments: releases) func noNumberTraps(release: ReleasePolicy) {
        for duration in Self.durations {
            for (number, policy) in Self.policies(duration).enumerated() {
                for limit in [nil, .min] as [Int?] {
                    var life = Life(release, limit, seed: UInt64(number))
                    life.play(policy, duration)
                    #expect(life.core.count == 0 && life.core.running == 0, "\(duration), policy \(number)")
                    #expect(life.core.nextTime().isNever, "\(duration), policy \(number)")
                }
            }
        }
    }

    @Test func theTenThousandthAttemptWaitsAsLongAsTheHundredth() {
        let policy = RetryPolicy(.exponential(initial: .milliseconds(100), multiplier: 2, maximum: .seconds(10)))
            .giveUpAfter(maxAttempts: nil)
        var bench = CoreBench()
        let job = bench.submit(policy)
        for _ in 1..<10_000 {
            bench.fail(job)
            bench.pass(to: bench.next ?? bench.now)
        }
        let starts = bench.starts(job)
        #expect(starts.count == 10_000 && bench.core[job]?.history.charged == 9999)
        let gaps = zip(starts.dropFirst(), starts).map { $0 - $1 }
        #expect(gaps.prefix(7).reduce(0, +) > 12.6 && gaps.dropFirst(7).allSatisfy { abs($0 - 10) < 0.002 })
    }
}

/// A job with all kinds of events.
private struct Life {
    var core: RetryBusCore
    private var now = BusTime.start
    private var epoch: UInt64 = 1
    private let scope: ConditionIndex

    init(_ release: ReleasePolicy, _ maxConcurrent: Int?, seed: UInt64) {
        core = RetryBusCore(release: release, maxConcurrent: maxConcurrent, seed: seed)
        scope = core.addCondition(Level(isSatisfied: true, epoch: 1), isReachability: true, unknownUntil: .never)
    }

    mutating func play(_ policy: RetryPolicy, _ duration: Duration) {
        let failures: [FailureReport] = [
            .unclassified, .classified(.overload(retryAfter: duration)), .unreachable, .refused, .unanswered, .timedOut,
            .classified(.network),
        ]
        var keys: [JobKey] = []
        for priority in JobPriority.allCases {
            keys.append(core.submit(policy.rules, scope: scope, destination: "a", priority: priority, at: now).key)
        }
        for (step, failure) in failures.enumerated() {
            for key in keys where core[key]?.isRunning == true {
                guard let context = core.failureContext(of: key) else { continue }
                let delays = FailureDelays(context, random: 0.99)
                _ = core.fail(key, failure, interruption: core[key]?.attempt?.interruption, isGone: false, delays: delays, at: now)
            }
            set(isSatisfied: step % 3 != 1)
            now = step == 5 ? BusTime(nanoseconds: .max - 1) : min(core.nextTime(), now + .seconds(1_000_000))
            _ = core.tick(at: now)
        }
        set(isSatisfied: true)
        for key in keys { _ = core.cancel(key, at: now) }
        for key in keys {
            _ = core.fail(
                key, .unclassified, interruption: core[key]?.attempt?.interruption, isGone: false, delays: FailureDelays(.zero),
                at: now)
        }
    }

    private mutating func set(isSatisfied: Bool) {
        epoch += isSatisfied ? 1 : 0
        _ = core.update(scope, Level(isSatisfied: isSatisfied, epoch: epoch), at: now)
    }
}
