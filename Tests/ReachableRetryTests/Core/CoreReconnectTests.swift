import Testing

@testable import ReachableRetry

/// The effect of edges, losses and calls to retry now on delays.
struct CoreReconnectTests {
    private let slow = RetryPolicy.plain.backoff(.constant(.seconds(60)))

    // MARK: - Soft delays

    @Test func anEdgeEndsADelayOncePerEpoch() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job)
        bench.pass(to: 5)
        bench.edge()
        #expect(bench.starts(job) == [0, 5])
        bench.pass(to: 6)
        bench.fail(job)
        for _ in 1...20 { bench.tell(0) { _ in } }
        #expect(bench.starts(job) == [0, 5] && bench.next == 66, "the same edge ends no second delay")
        bench.pass(to: 7)
        bench.edge()
        #expect(bench.starts(job) == [0, 5, 7])
    }

    @Test func lossEndsTheTimerAndReconnectTheDelay() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job)
        bench.down()
        #expect(bench.next == nil && bench.core.timerCount == 0 && bench.state(job) == .waiting)
        bench.pass(to: 3)
        bench.up()
        #expect(bench.starts(job) == [0, 3])
    }

    @Test(arguments: [FailureReport.unclassified, .unreachable, .classified(.server)])
    func anEdgeDuringTheAttemptEndsTheDelayAfterIt(report: FailureReport) {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.pass(to: 1)
        bench.edge()
        bench.pass(to: 2)
        bench.fail(job, report)
        #expect(bench.starts(job) == [0, 2])
        bench.pass(to: 3)
        bench.fail(job, report)
        #expect(bench.starts(job) == [0, 2] && bench.next == 63)
    }

    @Test func edgeDuringAnotherWaitCounts() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(slow, when: [login])
        bench.fail(job)
        bench.down(login)
        bench.edge()
        bench.pass(to: 1)
        bench.up(login)
        #expect(bench.starts(job) == [0, 1])
    }

    @Test func anotherScopesEdgeEndsNothing() {
        var bench = CoreBench()
        let other = bench.add(Level(isSatisfied: true, epoch: 1), isReachability: true)
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(slow)
        bench.fail(job)
        for condition in [other, login] {
            bench.edge(condition)
            bench.down(condition)
            bench.up(condition)
        }
        #expect(bench.starts(job) == [0] && bench.next == 60)
    }

    @Test(arguments: [RetryPolicy.Connectivity.wait(upTo: nil), .accelerate, .ignore])
    func anotherConditionsEdgeEndsADelay(rule: RetryPolicy.Connectivity) {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(slow.connectivity(rule), when: [login])
        bench.fail(job)
        bench.pass(to: 1)
        bench.edge(login)
        #expect(bench.starts(job) == [0, 1])
    }

    @Test func acceleratedJobStartsOfflineAndAtTheReconnect() {
        var bench = CoreBench(online: false)
        let job = bench.submit(slow.connectivity(.accelerate))
        bench.fail(job)
        bench.pass(to: 60)
        bench.fail(job)
        bench.pass(to: 70)
        bench.up()
        #expect(bench.starts(job) == [0, 60, 70])
    }

    @Test func jobThatIgnoresTheNetworkIsNotWoken() {
        var bench = CoreBench(online: false)
        let job = bench.submit(slow.connectivity(.ignore))
        bench.fail(job)
        bench.up()
        bench.pass(to: 100)
        #expect(bench.starts(job) == [0, 60])
    }

    // MARK: - Hard delays

    @Test(arguments: [true, false]) func nothingShortensAServerDelay(isEdge: Bool) {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job, .classified(.overload(retryAfter: .seconds(30))))
        bench.pass(to: 5)
        if isEdge { bench.edge() } else { bench.retryNow() }
        #expect(bench.next == 30, "the soft delay is gone, the order is not")
        bench.pass(to: 100)
        #expect(bench.starts(job) == [0, 30])
    }

    @Test func serverDelayOutlastsAnOutage() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.fail(job, .classified(.overload(retryAfter: .seconds(30))))
        bench.down()
        #expect(bench.next == nil)
        bench.pass(to: 10)
        bench.up()
        #expect(bench.state(job) == .backingOff && bench.next == 30)
        bench.down()
        bench.pass(to: 40)
        bench.up()
        #expect(bench.starts(job) == [0, 40])
    }

    @Test func theLongerDelayCounts() {
        var bench = CoreBench()
        let jobs = [2, 0, -5, 1].map { order in
            let job = bench.submit()
            bench.fail(job, .classified(.overload(retryAfter: .seconds(order))))
            return job
        }
        bench.pass(to: 10)
        #expect(jobs.map { bench.starts($0) } == [[0, 2], [0, 1], [0, 1], [0, 1]])
    }

    // MARK: - The growth of delays

    @Test(arguments: [
        (RetryPolicy.ReconnectRule.automatic, FailureReport.unreachable, 1), (.automatic, .unclassified, 3),
        (.automatic, .refused, 3), (.resetBackoff, .unreachable, 1), (.resetBackoff, .unclassified, 1),
        (.keepBackoff, .unreachable, 2), (.keepBackoff, .unclassified, 3),
    ])
    func reconnectRestartsTheGrowthByRule(rule: RetryPolicy.ReconnectRule, report: FailureReport, index: Int) {
        var bench = CoreBench()
        let job = bench.submit(.plain.onReconnect(rule))
        bench.fail(job)
        bench.pass(to: 1)
        bench.fail(job, report)
        bench.edge()
        #expect(bench.starts(job) == [0, 1, 1])
        let history = bench.core[job]?.history
        #expect(history?.failureIndex == Int32(index - 1))
        #expect(history?.previousDelay == (index == 1 ? nil : .seconds(report == .unreachable ? 1 : 2)))
        bench.fail(job)
        #expect(bench.softDelay(job) == .seconds(1 << (index - 1)))
    }

    @Test func nothingRestartsWithoutAReconnect() {
        for rule in [RetryPolicy.ReconnectRule.automatic, .resetBackoff, .keepBackoff] {
            var bench = CoreBench()
            let job = bench.submit(.plain.onReconnect(rule))
            for report in [FailureReport.unclassified, .unreachable, .unclassified] {
                bench.fail(job, report)
                bench.pass(to: bench.now + 5)
                bench.retryNow()
            }
            #expect(bench.core[job]?.history.previousDelay == .seconds(2))
            bench.fail(job)
            #expect(bench.core[job]?.history.previousDelay == .seconds(4))
        }
    }

    @Test func networkFailuresHaveTheirOwnDelays() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.fail(job)
        bench.pass(to: 1)
        for second in [1, 2, 4] {
            bench.pass(to: Double(second))
            bench.fail(job, .unreachable)
        }
        #expect(bench.starts(job) == [0, 1, 2, 4] && bench.next == 8)
        bench.edge()
        bench.fail(job, .unreachable)
        #expect(bench.next == 5, "an edge resets their growth")
    }

    @Test func networkFailuresDelayAtLeastHalfASecond() {
        var bench = CoreBench()
        let job = bench.submit(.plain.backoff(.immediate))
        bench.fail(job)
        #expect(bench.starts(job) == [0, 0])
        bench.fail(job, .unreachable)
        #expect(bench.next == 0.5)
    }

    // MARK: - Retry now

    @Test func retryNowEndsDelaysOfItsScope() {
        var bench = CoreBench()
        let other = bench.add(Level(isSatisfied: true, epoch: 1), isReachability: true)
        let jobs = [bench.submit(slow), bench.submit(slow, to: other), bench.submit(slow, to: other, when: [0])]
        for job in jobs { bench.fail(job) }
        bench.pass(to: 1)
        bench.retryNow(0)
        #expect(jobs.map { bench.starts($0) } == [[0, 1], [0], [0]])
        bench.retryNow()
        #expect(jobs.map { bench.starts($0) } == [[0, 1], [0, 1], [0, 1]])
    }

    @Test func retryNowDoesNotReplaceTheNetwork() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.fail(job)
        bench.down()
        bench.retryNow()
        #expect(bench.starts(job) == [0] && bench.next == nil)
    }

    @Test func retryNowChangesNoFailure() {
        var bench = CoreBench()
        let job = bench.submit(slow)
        bench.pass(to: 1)
        bench.retryNow()
        bench.fail(job)
        #expect(bench.failures(job) == ["unknown, charged"] && bench.starts(job) == [0, 1])
        bench.fail(job)
        #expect(bench.starts(job) == [0, 1] && bench.next == 61, "it counts once")
    }

    // MARK: - Known loss

    @Test func nothingStartsOnALostScope() {
        var bench = CoreBench()
        let jobs = [bench.submit(), bench.submit(.plain.connectivity(.accelerate)), bench.submit(slow)]
        for job in jobs { bench.fail(job) }
        bench.lose()
        bench.retryNow()
        let late = bench.submit(priority: .interactive)
        #expect([jobs[0], jobs[2], late].map { bench.state($0) } == [.waiting, .waiting, .waiting])
        #expect(bench.unmet(late) == [0] && bench.waits(late) == [0])
        bench.pass(to: 0.999)
        #expect(bench.starts(jobs[0]) == [0] && bench.starts(jobs[1]) == [0, 0] && bench.starts(late).isEmpty)
        bench.pass(to: 1)
        #expect(bench.starts(jobs[0]) == [0, 1] && bench.starts(jobs[2]) == [0, 1] && bench.starts(late) == [1])
        #expect(bench.core.lossTimers.count == 0)
    }

    @Test func anEvaluationEndsALoss() {
        var bench = CoreBench()
        bench.lose()
        let job = bench.submit()
        bench.pass(to: 0.25)
        bench.setUnsteady(true)
        bench.setUnsteady(false)
        #expect(bench.starts(job).isEmpty, "that it has lasted is no evaluation")
        bench.evaluate()
        #expect(bench.starts(job) == [0.25] && bench.next == nil)
    }

    @Test func aConfirmedLossHasNoTimer() {
        var bench = CoreBench()
        bench.lose()
        let job = bench.submit()
        #expect(bench.next == 1)
        bench.down()
        #expect(bench.next == nil && bench.state(job) == .waiting && bench.waits(job) == [0])
        bench.pass(to: 5)
        bench.lose()
        #expect(bench.next == nil, "it is unsatisfied anyway")
        bench.up()
        #expect(bench.starts(job) == [5])
    }

    @Test func aFailureOnALostScopeIsNotCharged() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.lose()
        bench.fail(job)
        #expect(bench.failures(job) == ["network"])
    }

    @Test func unconfirmedLossStillDelaysTheJob() {
        for release in [ReleasePolicy.immediate, .gated] {
            var bench = CoreBench(release)
            let job = bench.submit(.plain.backoff(.immediate))
            bench.lose()
            bench.fail(job, isGone: true)
            bench.pass(to: 0.1)
            bench.evaluate()
            #expect(bench.starts(job) == [0] && bench.next == 0.5)
            bench.pass(to: 0.5)
            #expect(bench.starts(job) == [0, 0.5])
            bench.lose()
            bench.fail(job, isGone: true)
            bench.pass(to: 0.6)
            bench.edge()
            #expect(bench.starts(job) == [0, 0.5, 0.6], "an edge ends that delay")
        }
    }

    @Test func aLossInterruptsAsAnUnsatisfiedScopeDoes() {
        var bench = CoreBench()
        let job = bench.submit(.plain.interruptsAttempt(.whenUnsatisfied(grace: .milliseconds(500))))
        bench.lose()
        bench.pass(to: 0.25)
        bench.evaluate()
        bench.pass(to: 1)
        #expect(bench.interruptions(job).isEmpty)
        bench.lose()
        bench.pass(to: 2)
        #expect(bench.interruptions(job) == ["loss at 1.5"])
    }

    @Test func lateTimerLooksUpScopesOfDueJobs() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.fail(job)
        bench.skip(to: 3600)
        #expect(bench.core.dueScopes(at: BusTime(.seconds(3600))) == [0])
        bench.lose()
        bench.pass(to: 3600)
        #expect(bench.starts(job) == [0] && bench.next == 3601)
        bench.pass(to: 3601)
        #expect(bench.starts(job) == [0, 3601])
    }

    @Test func unmonitoredConditionIsNeverLost() {
        var bench = CoreBench()
        bench.finish()
        bench.lose()
        let job = bench.submit()
        #expect(bench.starts(job) == [0] && bench.next == nil)
    }
}
