import Testing

@testable import ReachableRetry

/// Interruptions of attempts whose source address is lost.
struct CoreSourceTests {
    private static func policy(_ grace: Double = 3) -> RetryPolicy {
        .plain.interruptsAttempt(.whenSourceIsLost(grace: .milliseconds(Int(grace * 1000))))
    }

    /// A job whose attempt has run for 1 s, from one of two addresses.
    private struct Situation {
        var bench = CoreBench()
        let source: ConditionIndex
        let other: ConditionIndex
        let job: JobKey

        init(_ policy: RetryPolicy, hasBoth: Bool = false) {
            source = bench.add(Level(isSatisfied: true, epoch: 1), isReachability: true)
            other = bench.add(Level(isSatisfied: true, epoch: 1), isReachability: true)
            job = bench.submit(policy)
            if hasBoth { bench.connect(job, from: source, other) } else { bench.connect(job, from: source) }
            bench.pass(to: 1)
        }

        var interruptions: [String] { bench.interruptions(job) }
    }

    @Test(arguments: [0, 0.5, 3]) func aLostSourceInterruptsTheAttemptAfterItsGrace(grace: Double) {
        var now = Situation(Self.policy(grace).giveUpAfter(maxAttempts: 1))
        now.bench.down(now.source)
        // Traffic moves to another cable: the scope is satisfied before and after.
        now.bench.edge()
        now.bench.pass(to: 10)
        #expect(now.interruptions == ["loss at \(1 + grace)"])
        now.bench.fail(now.job)
        #expect(now.bench.failures(now.job) == ["network"], "it is not charged")
        #expect(now.bench.starts(now.job) == [0, 10], "it restarts at once")
    }

    /// The change after 2 s, for an attempt with a grace of 3 s.
    private enum Event: CaseIterable {
        case anotherCable
        case outage
        case lossOfAnotherAddress
        case renewal
        case returnWithinTheGrace
        case lossAndReturnAtOnce
        case endOfTheMonitor
        case endOfTheAttempt

        func happens(to now: inout Situation) {
            switch self {
            case .anotherCable: now.bench.edge()
            case .outage: now.bench.down()
            case .lossOfAnotherAddress: now.bench.down(now.other)
            case .renewal: now.bench.evaluate(now.source)
            case .returnWithinTheGrace:
                now.bench.down(now.source)
                now.bench.pass(to: 3.9)
                now.bench.up(now.source)
            case .lossAndReturnAtOnce: now.bench.edge(now.source)
            case .endOfTheMonitor:
                now.bench.down(now.source)
                now.bench.finish(now.source)
            case .endOfTheAttempt:
                now.bench.fail(now.job)
                now.bench.down(now.source)
            }
        }
    }

    @Test(arguments: Event.allCases) private func onlyTheSourceInterrupts(event: Event) {
        var now = Situation(Self.policy())
        event.happens(to: &now)
        now.bench.pass(to: 100)
        #expect(now.interruptions.isEmpty)
    }

    @Test func interruptionNeedsTheLossOfBothSources() {
        var now = Situation(Self.policy(), hasBoth: true)
        now.bench.down(now.source)
        now.bench.pass(to: 10)
        #expect(now.interruptions.isEmpty, "the attempt may use the other family")
        now.bench.down(now.other)
        now.bench.pass(to: 20)
        #expect(now.interruptions == ["loss at 13.0"])
    }

    @Test func eachLossHasItsOwnGrace() {
        var now = Situation(Self.policy())
        now.bench.down(now.source)
        now.bench.pass(to: 3.9)
        now.bench.up(now.source)
        now.bench.down(now.source)
        now.bench.pass(to: 20)
        #expect(now.interruptions == ["loss at 6.9"])
    }

    @Test func eachAttemptHasItsOwnSource() {
        var now = Situation(Self.policy())
        now.bench.fail(now.job)
        now.bench.pass(to: 2)
        #expect(now.bench.starts(now.job) == [0, 2])
        now.bench.connect(now.job, from: now.other)
        now.bench.connect(now.job, from: now.source)
        now.bench.down(now.source)
        now.bench.pass(to: 10)
        #expect(now.interruptions.isEmpty)
        now.bench.down(now.other)
        now.bench.pass(to: 20)
        #expect(now.interruptions == ["loss at 13.0"])
    }

    @Test(arguments: [true, false]) func theAddressIsFollowedUntilTheAttemptEnds(succeeds: Bool) {
        var now = Situation(Self.policy())
        #expect(now.bench.takeIdleConditions().isEmpty && !now.bench.removeCondition(now.source))
        if succeeds { now.bench.succeed(now.job) } else { now.bench.fail(now.job) }
        #expect(now.bench.takeIdleConditions().contains(now.source) && now.bench.removeCondition(now.source))
    }

    @Test(arguments: [RetryPolicy.InterruptionRule.never, .whenUnsatisfied(grace: .zero)])
    func otherRulesIgnoreTheSource(rule: RetryPolicy.InterruptionRule) {
        var now = Situation(.plain.interruptsAttempt(rule))
        now.bench.down(now.source)
        now.bench.pass(to: 10)
        #expect(now.interruptions.isEmpty && now.bench.removeCondition(now.source))
    }

    @Test func changedConditionsKeepTheSource() {
        var now = Situation(Self.policy())
        let login = now.bench.add(isSatisfied: false)
        now.bench.need(login, now.job)
        now.bench.down(now.source)
        now.bench.pass(to: 10)
        #expect(now.interruptions == ["loss at 4.0"])
    }
}
