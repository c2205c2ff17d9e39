import Testing

@testable import ReachableRetry

/// A gate whose jobs other machines of the site may delay.
@Suite struct CoreSiteTests {
    /// A core whose scope becomes satisfied at 100 s, with jobs that wait.
    private struct Bench {
        var core: RetryBusCore
        var now = BusTime.start + .seconds(100)
        var keys: [JobKey] = []
        var started: [JobKey] = []
        var reports: [SiteReport] = []
        private var epoch: UInt64 = 0

        init(jobs: [JobPriority] = [.normal], sharesSite: Bool = true, destination: String? = "server") {
            core = RetryBusCore(release: .gated(jitter: false), sharesSite: sharesSite)
            _ = core.addCondition(Level(isSatisfied: false), isReachability: true, unknownUntil: .start)
            for priority in jobs { submit(priority, destination: destination) }
        }

        mutating func submit(
            _ priority: JobPriority = .normal, destination: String? = "server", conditions: [ConditionIndex] = [],
            notBefore: BusTime = .past
        ) {
            let rules = RetryPolicy.default.connectivity(.wait(upTo: nil)).giveUpAfter(maxAttempts: nil).rules
            let (key, _, effects) = core.submit(
                rules, scope: 0, conditions: conditions, destination: destination, priority: priority, notBefore: notBefore,
                at: now)
            keys.append(key)
            take(effects)
        }

        mutating func take(_ effects: [Effect]) {
            for case .start(let key) in effects { started.append(key) }
            reports += core.takeSiteReports().map(\.report)
        }

        mutating func edge() {
            epoch += 1
            take(core.update(0, Level(isSatisfied: true, epoch: epoch), at: now))
        }

        mutating func lose() { take(core.update(0, Level(isSatisfied: false, epoch: epoch), at: now)) }

        mutating func advise(_ advice: SiteAdvice) { take(core.take(advice, for: "server", at: now)) }

        mutating func pass(_ time: Duration) {
            let end = now + time
            while core.nextTime() <= end {
                now = max(now, core.nextTime())
                take(core.tick(at: now))
            }
            now = end
        }

        mutating func succeed(_ index: Int) { take(core.succeed(keys[index], at: now)) }

        mutating func fail(_ index: Int, _ failure: AttemptFailure, delay: Duration = .zero) {
            fail(index, FailureReport(failure), delay: delay)
        }

        mutating func fail(_ index: Int, _ report: FailureReport, delay: Duration = .zero) {
            let (outcome, effects) = core.fail(keys[index], report, interruption: nil, isGone: false, at: now)
            take(effects)
            if case .backOff = outcome { take(core.park(keys[index], for: delay, at: now)) }
        }
    }

    @Test func pictureIsAwaitedForOneSecond() {
        var bench = Bench()
        bench.edge()
        bench.pass(.milliseconds(999))
        #expect(bench.started.isEmpty && bench.core.description(of: bench.keys[0], at: bench.now)?.queueReason == .site(.hold))
        bench.pass(.milliseconds(1))
        #expect(bench.started == bench.keys)
    }

    @Test func withoutASiteNothingWaitsOrIsReported() {
        var bench = Bench(sharesSite: false)
        bench.edge()
        #expect(bench.started == bench.keys && bench.reports.isEmpty)
        var other = Bench(destination: nil)
        other.edge()
        #expect(other.started == other.keys && other.reports.isEmpty)
    }

    @Test func adviceFreesTheCanaryAtOnce() {
        var bench = Bench()
        bench.edge()
        bench.advise(.free(after: .zero, share: 1))
        #expect(bench.started == bench.keys)
    }

    @Test func othersHoldJobsForFiveSecondsInAll() {
        var bench = Bench()
        bench.edge()
        for _ in 0..<49 {
            bench.advise(.hold(.seconds(1_000_000)))
            bench.pass(.milliseconds(100))
        }
        #expect(bench.started.isEmpty)
        bench.advise(.hold(.seconds(1_000_000)))
        bench.pass(.milliseconds(100))
        #expect(bench.started == bench.keys)
    }

    @Test func nextEdgeGrantsFiveSecondsAgain() {
        var bench = Bench()
        for _ in 0..<2 {
            bench.edge()
            bench.advise(.hold(.seconds(10)))
            bench.pass(.milliseconds(4900))
        }
        #expect(bench.started.isEmpty)
        bench.pass(.milliseconds(100))
        #expect(bench.started == bench.keys)
    }

    @Test func turnTakesTenSecondsInAll() {
        var bench = Bench()
        bench.edge()
        for _ in 0..<99 {
            bench.advise(.free(after: .seconds(60), share: 2))
            bench.pass(.milliseconds(100))
        }
        #expect(bench.started.isEmpty && bench.core.description(of: bench.keys[0], at: bench.now)?.queueReason == .site(.turn))
        bench.pass(.milliseconds(100))
        #expect(bench.started == bench.keys)
    }

    @Test func ownAnswerEndsEveryHold() {
        var bench = Bench(jobs: [.interactive, .normal])
        bench.edge()
        bench.advise(.hold(.seconds(5)))
        #expect(bench.started == [bench.keys[0]], "interactive jobs are not held")
        bench.pass(.milliseconds(50))
        bench.succeed(0)
        #expect(bench.started == bench.keys)
        #expect(bench.reports.contains(.answered(after: .milliseconds(50))))
        bench.advise(.hold(.seconds(5)))
        #expect(bench.core.description(of: bench.keys[1], at: bench.now)?.state == .running)
    }

    @Test func adviceAfterAnAnswerDelaysNothing() {
        var bench = Bench(jobs: [.normal, .normal])
        bench.edge()
        bench.advise(.free(after: .zero, share: 1))
        bench.fail(0, .overload(retryAfter: .milliseconds(100)), delay: .seconds(3600))
        bench.advise(.hold(.seconds(5)))
        bench.pass(.seconds(2))
        bench.advise(.free(after: .seconds(5), share: 1))
        #expect(bench.started == bench.keys)
    }

    @Test func shareIsAPauseOfTheAnswersOwnTime() {
        var bench = Bench(jobs: [.normal, .normal, .normal])
        bench.edge()
        bench.advise(.free(after: .zero, share: 5))
        bench.pass(.milliseconds(100))
        bench.succeed(0)
        bench.pass(.milliseconds(399))
        #expect(bench.started.count == 1 && bench.core.description(of: bench.keys[1], at: bench.now)?.queueReason == .site(.share))
        bench.pass(.milliseconds(1))
        #expect(bench.started.count == 2, "one at a time")
        // Others have ended: a wider share ends the pause.
        bench.succeed(1)
        bench.pass(.milliseconds(1))
        bench.advise(.share(1))
        #expect(bench.started.count == 3)
    }

    @Test func ownSuccessesWidenTheShare() {
        var turn = SiteTurn()
        turn.noteEdge(at: .start)
        turn.take(.free(after: .zero, share: 64), at: .start)
        for _ in 0..<24 {
            turn.noteSuccess(after: .milliseconds(10), at: .start)
            turn.take(.share(64), at: .start)
        }
        #expect(turn.share == 1 && turn.pausedUntil <= .start + .milliseconds(10))
    }

    @Test func ownFailuresNarrowTheShareUpToThatOfTheWords() {
        var turn = SiteTurn()
        turn.take(.free(after: .zero, share: 6), at: .start)
        for _ in 0..<4 { turn.noteSuccess(after: .zero, at: .start) }
        #expect(turn.share == 3)
        #expect(turn.noteFailure(at: .start) == 1)
        #expect(turn.share == 6)
        turn.pause(after: .seconds(1), at: .start)
        #expect(turn.pausedUntil == .start + .seconds(6))
        #expect(turn.noteFailure(at: .start + .seconds(5)) == nil, "one pause follows failures of one moment")
        #expect(turn.noteFailure(at: .start + .seconds(6)) == 2)
        #expect(turn.share == 6)
    }

    @Test func pausesAreBounded() {
        var turn = SiteTurn()
        turn.take(.free(after: .zero, share: .max), at: .start)
        #expect(turn.share == SiteTurn.mostSharing)
        turn.noteSuccess(after: .seconds(3600), at: .start)
        #expect(turn.pausedUntil == .start + .seconds(30))
    }

    @Test func retryNowEndsTheHold() {
        var bench = Bench()
        bench.edge()
        bench.advise(.hold(.seconds(5)))
        bench.take(bench.core.retryNow(nil, at: bench.now))
        #expect(bench.started == bench.keys)
    }

    /// The next edge ends its delay, so that it may try with all others.
    @Test func siteIsToldOfJobsThatBackOff() {
        var bench = Bench(jobs: [.normal, .normal])
        bench.edge()
        bench.advise(.free(after: .zero, share: 1))
        bench.succeed(0)
        bench.fail(1, .server, delay: .seconds(3600))
        #expect(bench.reports.last == .waiting(1))
        bench.pass(.seconds(60))
        bench.lose()
        bench.edge()
        bench.advise(.free(after: .zero, share: 1))
        bench.succeed(1)
        #expect(bench.reports.last == .waiting(0))
    }

    @Test func aServerThatFailsFreesNoOtherMachine() {
        for failure in [FailureReport(systemError: 111), FailureReport(AttemptFailure.server)] {
            var bench = Bench(jobs: [.normal, .normal])
            bench.edge()
            bench.advise(.free(after: .zero, share: 1))
            bench.fail(0, failure, delay: .seconds(3600))
            let freesOthers = bench.reports.contains { if case .answered = $0 { true } else { false } }
            #expect(bench.reports.contains(.unreachable) && !freesOthers)
            bench.advise(.hold(.seconds(5)))
            #expect(bench.started == bench.keys, "it is an answer to this machine")
        }
    }

    /// A job that repeats has a reader of its events.
    @Test func aReaderThatPausesAJobForAMomentChangesNothing() {
        var bench = Bench(jobs: [.normal])
        bench.reports = []
        bench.take(bench.core.pause(bench.keys[0], by: .reader, at: bench.now))
        bench.take(bench.core.resume(bench.keys[0], by: .reader, at: bench.now))
        #expect(bench.reports.isEmpty)
    }

    @Test func siteIsNotToldOfJobsThatPassAnOpenGate() {
        var bench = Bench(jobs: [])
        bench.edge()
        for number in 0..<4 {
            bench.submit()
            if number == 0 { bench.pass(.seconds(1)) }
            bench.succeed(number)
            #expect(bench.started.count == number + 1)
            if number == 0 { bench.reports = [] }
        }
        #expect(bench.reports.isEmpty)
    }

    /// An edge starts none of them: the machine would be awaited for nothing.
    @Test func siteIsNotToldOfJobsThatAnEdgeDoesNotStart() {
        var bench = Bench(jobs: [])
        bench.submit(notBefore: bench.now + .seconds(3600))
        bench.submit()
        bench.take(bench.core.pause(bench.keys[1], at: bench.now))
        bench.reports = []
        for _ in 0..<2 {
            bench.edge()
            bench.pass(.seconds(60))
            bench.lose()
        }
        let login = bench.core.addCondition(Level(isSatisfied: false), isReachability: false, unknownUntil: .start)
        bench.edge()
        bench.submit(conditions: [login])
        #expect(bench.started.isEmpty && bench.reports == [.edge, .edge, .edge])
    }

    @Test func siteIsToldOfAJobWhoseTimeComesDuringTheOutage() {
        var bench = Bench(jobs: [])
        bench.submit(notBefore: bench.now + .seconds(60))
        bench.pass(.milliseconds(59_999))
        #expect(bench.reports.isEmpty)
        bench.pass(.milliseconds(1))
        #expect(bench.reports == [.waiting(1)] && bench.started.isEmpty && bench.core.nextTime().isNever)
    }

    @Test func siteIsToldWhatHappens() {
        var bench = Bench(jobs: [.normal, .normal])
        #expect(bench.reports == [.waiting(1), .waiting(2)])
        bench.reports = []
        bench.edge()
        #expect(bench.reports == [.edge])
        bench.advise(.free(after: .zero, share: 1))
        bench.fail(0, .network)
        bench.pass(.seconds(1))
        bench.fail(1, .overload(retryAfter: .seconds(2)))
        #expect(bench.reports == [.edge, .unreachable, .overloaded(for: .seconds(2))])
        bench.reports = []
        bench.pass(.seconds(70))
        for index in [0, 1] { bench.succeed(index) }
        bench.pass(.seconds(70))
        for index in [0, 1] { bench.succeed(index) }
        #expect(bench.reports.last == .waiting(0))
    }
}
