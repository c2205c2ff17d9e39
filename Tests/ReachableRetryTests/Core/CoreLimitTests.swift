import Testing

@testable import ReachableRetry

/// The limits of running attempts: of the bus, of a destination, and of an attempt that submits jobs.
struct CoreLimitTests {
    private func running(_ bench: CoreBench, _ jobs: [JobKey]) -> [Int] {
        jobs.indices.filter { bench.state(jobs[$0]) == .running }
    }

    // MARK: - Destinations

    @Test func aDestinationRunsNoMoreThanItsLimit() {
        var bench = CoreBench(maxConcurrentPerDestination: 2)
        let slow = RetryPolicy.plain.backoff(.constant(.seconds(60)))
        let jobs = (0..<4).map { _ in bench.submit(slow, destination: "nas") }
        let others = [bench.submit(destination: "web"), bench.submit(), bench.submit(), bench.submit()]
        #expect(running(bench, jobs) == [0, 1] && running(bench, others) == [0, 1, 2, 3])
        #expect(bench.core.description(of: jobs[2], at: .start)?.queueReason == .destinationFull(2))
        bench.succeed(jobs[1])
        #expect(running(bench, jobs) == [0, 2])
        bench.fail(jobs[0])
        #expect(running(bench, jobs) == [2, 3])
    }

    @Test func aJobMayAllowItsDestinationLess() {
        var bench = CoreBench(maxConcurrentPerDestination: 3)
        let jobs = (0..<3).map { _ in bench.submit(.plain.maxConcurrentPerDestination(1), destination: "nas") }
        #expect(running(bench, jobs) == [0])
        bench.succeed(jobs[0])
        #expect(running(bench, jobs) == [1])
    }

    @Test func jobCannotExceedTheBusLimit() {
        var bench = CoreBench(maxConcurrentPerDestination: 1)
        let jobs = (0..<3).map { _ in bench.submit(.plain.maxConcurrentPerDestination(2), destination: "nas") }
        #expect(running(bench, jobs) == [0])
    }

    @Test func limitAppliesToUrgentAndBypassingJobs() {
        var bench = CoreBench(.gated, maxConcurrentPerDestination: 1)
        let first = bench.submit(destination: "nas")
        let others = [
            bench.submit(destination: "nas", priority: .interactive), bench.submit(.plain.bypassesGate(), destination: "nas"),
            bench.submit(.plain.connectivity(.ignore), destination: "nas"),
        ]
        #expect(running(bench, others).isEmpty)
        bench.succeed(first)
        #expect(running(bench, others).count == 1)
    }

    @Test func destinationGetsHalfWhileAnotherWaits() {
        var bench = CoreBench(online: false, maxConcurrent: 4)
        let slow = (0..<6).map { _ in bench.submit(destination: "slow") }
        let idle = (0..<3).map { _ in bench.submit(destination: "idle") }
        bench.up()
        #expect(running(bench, slow) == [0, 1] && running(bench, idle) == [0, 1])
        bench.succeed(idle[0])
        #expect(running(bench, slow) == [0, 1] && running(bench, idle) == [1, 2])
        bench.succeed(idle[1])
        #expect(running(bench, slow) == [0, 1, 2], "no other job waits")
        bench.succeed(idle[2])
        #expect(running(bench, slow) == [0, 1, 2, 3])
        let late = bench.submit(destination: "idle")
        bench.succeed(slow[0])
        #expect(running(bench, slow) == [1, 2, 3] && bench.state(late) == .running)
    }

    @Test func jobsWithoutADestinationMayExceedTheHalf() {
        var bench = CoreBench(online: false, maxConcurrent: 4)
        let jobs = (0..<3).map { _ in bench.submit() }
        let idle = (0..<3).map { _ in bench.submit(destination: "idle") }
        bench.up()
        #expect(running(bench, jobs) == [0, 1, 2] && running(bench, idle) == [0])
    }

    @Test func interactiveJobsMayExceedTheHalf() {
        var bench = CoreBench(online: false, maxConcurrent: 4)
        let urgent = (0..<3).map { _ in bench.submit(destination: "slow", priority: .interactive) }
        let idle = (0..<3).map { _ in bench.submit(destination: "idle") }
        bench.up()
        #expect(running(bench, urgent) == [0, 1, 2] && running(bench, idle) == [0])
    }

    @Test(arguments: [ReleasePolicy.immediate, .gated, .paced(perSecond: 100, burst: 100)])
    func serverDelayOutlastsItsJob(release: ReleasePolicy) {
        var bench = CoreBench(release)
        let delayed = bench.submit(.plain.giveUpAfter(maxAttempts: 1), destination: "nas")
        bench.fail(delayed, FailureReport(.classified(.overload(retryAfter: .seconds(30)))))
        #expect(bench.result(delayed) != nil)
        let jobs = [
            bench.submit(destination: "nas"), bench.submit(destination: "nas", priority: .interactive),
            bench.submit(.plain.connectivity(.ignore), destination: "nas"),
            bench.submit(.plain.bypassesGate(), destination: "nas"),
        ]
        let outer = bench.submit(destination: "web")
        let nested = [bench.submit(destination: "nas", in: outer)]
        #expect(running(bench, jobs + nested).isEmpty && bench.state(outer) == .running)
        bench.pass(to: 29.9)
        #expect(running(bench, jobs + nested).isEmpty)
        bench.pass(to: 30)
        #expect(running(bench, jobs) == [0, 1, 2, 3] || release == .gated && running(bench, jobs).count >= 3)
        #expect(running(bench, nested) == [0])
    }

    @Test func longestServerDelayCounts() {
        var bench = CoreBench()
        let delayed = (0..<2).map { _ in bench.submit(.plain.giveUpAfter(maxAttempts: 1), destination: "nas") }
        bench.fail(delayed[0], .classified(.overload(retryAfter: .seconds(30))))
        bench.fail(delayed[1], .classified(.overload(retryAfter: .seconds(10))))
        let next = bench.submit(destination: "nas")
        bench.pass(to: 40)
        #expect(bench.starts(next) == [30])
    }

    @Test(arguments: [nil, 0] as [ConditionIndex?]) func insistingRetryNowEndsServerDelays(scope: ConditionIndex?) {
        var bench = CoreBench()
        let elsewhere = bench.add(Level(isSatisfied: true, epoch: 1), isReachability: true)
        let jobs = [bench.submit(destination: "nas"), bench.submit(to: elsewhere, destination: "nas")]
        for job in jobs { bench.fail(job, .classified(.overload(retryAfter: .seconds(30)))) }
        let others = [bench.submit(destination: "nas"), bench.submit(to: elsewhere, destination: "nas")]
        let later = bench.submit(destination: "web", notBefore: 60)
        let alone = bench.submit(to: elsewhere)
        bench.fail(alone, .classified(.overload(retryAfter: .seconds(30))))
        bench.retryNow(scope)
        #expect(running(bench, jobs + others).isEmpty)
        bench.retryNow(scope, ignoringServerDelays: true)
        bench.edge(elsewhere)
        #expect(running(bench, jobs + others) == (scope == nil ? [0, 1, 2, 3] : [0, 2]))
        #expect(bench.state(alone) == (scope == nil ? .running : .backingOff))
        #expect(bench.state(later) == .backingOff, "when its life begins is no server's order")
    }

    // MARK: - Sequences and nested jobs

    @Test func aSequenceThatHasBegunLeavesTheLimits() {
        var bench = CoreBench(maxConcurrent: 1, maxConcurrentPerDestination: 1)
        let (sequence, next) = (bench.submit(destination: "nas"), bench.submit(destination: "nas"))
        #expect(bench.state(next) == .queued)
        bench.leaveLimits(sequence)
        #expect(bench.state(next) == .running && bench.state(sequence) == .running)
        let third = bench.submit(destination: "nas")
        bench.succeed(sequence)
        #expect(bench.state(third) == .queued, "what it had given back is not given back again")
        bench.succeed(next)
        #expect(bench.state(third) == .running)
    }

    @Test func aNestedJobUsesThePlaceOfItsAttempt() {
        var bench = CoreBench(online: false, .gated, maxConcurrent: 1, maxConcurrentPerDestination: 1)
        let outer = bench.submit(destination: "nas")
        bench.up()
        let inner = bench.submit(destination: "nas", in: outer)
        let innermost = bench.submit(destination: "nas", in: inner)
        let other = bench.submit(destination: "nas")
        #expect([outer, inner, innermost].allSatisfy { bench.state($0) == .running } && bench.state(other) == .queued)
        bench.succeed(innermost)
        bench.succeed(inner)
        #expect(bench.state(other) == .queued)
        bench.succeed(outer)
        #expect(bench.state(other) == .running)
    }

    @Test func aNestedJobLeavesOthersTheirPlaces() {
        var bench = CoreBench(maxConcurrent: 2)
        let outer = bench.submit()
        let jobs = [bench.submit(in: outer), bench.submit(), bench.submit()]
        #expect(running(bench, jobs) == [0, 1])
    }

    @Test func aNestedJobWaitsForTheNetwork() {
        var bench = CoreBench(.gated, maxConcurrent: 1)
        let outer = bench.submit()
        bench.down()
        let inner = bench.submit(.plain.backoff(.constant(.seconds(10))), in: outer)
        #expect(bench.state(inner) == .waiting)
        bench.up()
        #expect(bench.state(inner) == .running)
        bench.fail(inner)
        #expect(bench.state(inner) == .backingOff)
        bench.pass(to: 10)
        #expect(bench.state(inner) == .running, "its second attempt, too")
    }

    @Test(arguments: [ReleasePolicy.immediate, .gated]) func nestedJobsOfAnEndedAttemptStartAfterAReconnect(
        release: ReleasePolicy
    ) {
        var bench = CoreBench(release)
        let outer = bench.submit()
        let jobs = [bench.submit(in: outer), bench.submit(in: outer)]
        bench.succeed(outer)
        bench.down()
        for job in jobs { bench.fail(job) }
        bench.up()
        #expect(jobs.contains { bench.state($0) == .running })
        for job in jobs { bench.succeed(job) }
        for job in jobs { bench.succeed(job) }
        #expect(jobs.allSatisfy { bench.result($0) == "ok" } && bench.core.running == 0)
    }

    @Test func anAttemptLendsItsPlaceToOneJobAtATime() {
        var bench = CoreBench(online: false, .gated, maxConcurrent: 4)
        let canary = bench.submit()
        bench.up()
        let jobs = (0..<100).map { _ in bench.submit(in: canary) }
        #expect(running(bench, jobs) == [0], "a canary has proven nothing")
        bench.succeed(jobs[0])
        #expect(running(bench, jobs).first == 1 && bench.core.running <= 4)
        var ended = 1
        while let next = jobs.first(where: { bench.state($0) == .running }) {
            #expect(bench.core.running <= 4 && jobs.count { bench.state($0) == .running } <= 4)
            bench.succeed(next)
            ended += 1
        }
        #expect(ended == 100 && bench.state(canary) == .running && bench.core.running == 1)
    }

    @Test func aSubmittedJobIsLikeAnyOther() {
        var bench = CoreBench(maxConcurrent: 1)
        let outer = bench.submit()
        let inner = bench.submit()
        #expect(bench.state(inner) == .queued)
        bench.join(inner, by: outer)
        #expect(bench.state(inner) == .running && bench.core.running == 1)
        bench.succeed(outer)
        let other = bench.submit()
        #expect(bench.state(other) == .queued && bench.core.running == 1, "it keeps the place of the attempt")
        bench.succeed(inner)
        #expect(bench.state(other) == .running && bench.core.running == 1)
    }

    @Test func attemptsThatJoinAQueuedJobLendItAPlace() {
        var bench = CoreBench(maxConcurrent: 2, maxConcurrentPerDestination: 1)
        let busy = [bench.submit(destination: "a"), bench.submit(destination: "b")]
        let token = bench.submit(destination: "a")
        #expect(bench.state(token) == .queued)
        for job in busy { bench.join(token, by: job) }
        #expect(bench.state(token) == .running && bench.core.running == 2)
        // One of the two has got its place back.
        bench.succeed(token)
        for job in busy { bench.succeed(job) }
        #expect(bench.core.running == 0)
    }

    @Test func aPausedJobLeavesNoEntryBehind() {
        var bench = CoreBench(maxConcurrent: 1)
        let busy = bench.submit()
        let (paused, other) = (bench.submit(), bench.submit())
        for _ in 0..<1000 {
            bench.pause(paused)
            bench.resume(paused)
        }
        #expect(bench.core.presented < 100)
        bench.succeed(busy)
        #expect([bench.state(paused), bench.state(other)] == [.running, .queued])
        bench.succeed(paused)
        #expect(bench.state(other) == .running)
    }

    // MARK: - Readers of events

    @Test func aReaderHoldsNoPlace() {
        var bench = CoreBench(maxConcurrent: 1)
        let (job, other) = (bench.submit(hasEventReader: true), bench.submit())
        #expect(bench.announcements(job) == [0] && bench.starts(job).isEmpty)
        #expect([bench.state(job), bench.state(other)] == [.paused, .running])
        bench.read(job)
        #expect(bench.state(job) == .queued)
        bench.pass(to: 5)
        bench.succeed(other)
        #expect(bench.starts(job) == [5] && bench.announcements(job) == [0])
        bench.fail(job)
        bench.pass(to: 6)
        #expect(bench.announcements(job) == [0, 6] && bench.starts(job) == [5])
    }

    @Test func anAttemptsTimeLimitBeginsWithItsOperation() {
        var bench = CoreBench()
        bench.beginsAttempts = false
        let job = bench.submit(.plain.attemptTimeout(.seconds(5)))
        bench.pass(to: 20)
        #expect(bench.interruptions(job).isEmpty)
        bench.begin(job)
        bench.pass(to: 24)
        bench.begin(job)
        bench.pass(to: 30)
        #expect(bench.interruptions(job) == ["timeout at 25.0"])
    }

    @Test func nestedJobOfAnEndedAttemptIsQueued() {
        var bench = CoreBench(maxConcurrent: 1)
        let outer = bench.submit()
        bench.down()
        let (inner, other) = (bench.submit(in: outer), bench.submit())
        bench.succeed(outer)
        bench.up()
        #expect([bench.state(inner), bench.state(other)] == [.running, .queued])
        let late = bench.submit(in: outer)
        bench.succeed(inner)
        #expect([bench.state(other), bench.state(late)] == [.running, .queued])
    }

    @Test func nestedJobOfAnEarlierAttemptIsQueued() {
        var bench = CoreBench(maxConcurrent: 1)
        let outer = bench.submit()
        let inner = bench.submit(.plain.backoff(.constant(.seconds(10))), in: outer)
        bench.fail(inner)
        bench.fail(outer)
        bench.pass(to: 10)
        #expect(bench.starts(outer) == [0, 1] && [bench.state(outer), bench.state(inner)] == [.running, .queued])
        bench.succeed(outer)
        #expect(bench.state(inner) == .running)
    }
}
