import Testing

@testable import ReachableRetry

/// The release of jobs by a gate after a reconnect: one first, then growing numbers.
struct CoreGateTests {
    /// Jobs that wait for the network, then a reconnect.
    private func reconnected(
        _ count: Int, _ release: ReleasePolicy = .unjittered, _ priority: JobPriority = .normal, destination: String? = nil
    ) -> (CoreBench, [JobKey]) {
        var bench = CoreBench(online: false, release)
        let jobs = (0..<count).map { _ in bench.submit(destination: destination, priority: priority) }
        bench.pass(to: 10)
        bench.up()
        return (bench, jobs)
    }

    private func running(_ bench: CoreBench, _ jobs: [JobKey]) -> [Int] {
        jobs.indices.filter { bench.state(jobs[$0]) == .running }
    }

    // MARK: - Probing

    @Test func oneCanaryProbesForAllJobs() {
        let (bench, jobs) = reconnected(5)
        #expect(running(bench, jobs) == [0])
        #expect(jobs.dropFirst().allSatisfy { bench.state($0) == .queued && bench.unmet($0).isEmpty })
    }

    @Test func aStoredBacklogKeepsTheGatesSteps() {
        var bench = CoreBench(.unjittered)
        bench.setStoredBacklog(true)
        let first = (0..<2).map { _ in bench.submit() }
        #expect(running(bench, first) == [0], "one tries for those that are stored, too")
        for job in first { bench.succeed(job) }
        let second = (0..<3).map { _ in bench.submit() }
        #expect(running(bench, second) == [0, 1], "no job was queued, but more are stored")
        bench.setStoredBacklog(false)
        for job in second { bench.succeed(job) }
        let third = (0..<5).map { _ in bench.submit() }
        #expect(running(bench, third) == [0, 1, 2, 3, 4])
    }

    @Test func delayThatIsOverIsDue() {
        var bench = CoreBench(.unjittered)
        let job = bench.submit()
        bench.fail(job, delay: .seconds(60))
        let (before, after) = (bench.time + .seconds(59), bench.time + .seconds(61))
        #expect(bench.core.description(of: job, at: before)?.softDelay == .seconds(1))
        let description = bench.core.description(of: job, at: after)
        #expect(description?.softDelay == nil && description?.hardDelay == nil && description?.state == .backingOff)
    }

    @Test func queuedJobHasNoVoidedDelay() {
        var bench = CoreBench(.unjittered)
        let jobs = (0..<2).map { _ in bench.submit() }
        for job in jobs {
            bench.fail(job, delay: .seconds(60))
        }
        bench.down()
        #expect(bench.softDelay(jobs[1]) == .seconds(60), "it goes on if the network does not come back")
        bench.up()
        #expect(running(bench, jobs) == [0] && bench.state(jobs[1]) == .queued && bench.softDelay(jobs[1]) == nil)
    }

    @Test func canaryIsTheMostUrgentAndOldestJob() {
        var bench = CoreBench(online: false, .tuned(interactiveBypass: 0))
        let jobs = [JobPriority.bulk, .normal, .interactive, .interactive].map { bench.submit(priority: $0) }
        bench.up()
        #expect(running(bench, jobs) == [2])
    }

    @Test(arguments: [(0, 1), (1, 2), (2, 3), (9, 5)]) func interactiveJobsBypassTheGateUpToALimit(bypass: Int, expected: Int) {
        var bench = CoreBench(online: false, .tuned(interactiveBypass: bypass))
        let waiting = bench.submit()
        let jobs = (0..<5).map { _ in bench.submit(priority: .interactive) }
        bench.up()
        #expect(running(bench, jobs).count == expected && bench.state(waiting) == .queued)
        // The first success opens the gate.
        bench.succeed(jobs[expected - 1])
        #expect(running(bench, jobs + [waiting]).count > expected - 1)
    }

    @Test func failedCanaryIsReplaced() {
        var (bench, jobs) = reconnected(3)
        for (canary, pause) in [(0, 1.0), (1, 2), (2, 4), (0, 5), (1, 5)] {
            #expect(running(bench, jobs) == [canary])
            bench.fail(jobs[canary], .classified(.network))
            #expect(running(bench, jobs).isEmpty && bench.next == bench.now + pause, "they share one growing delay")
            bench.pass(to: bench.now + pause)
        }
        #expect(jobs.allSatisfy { !bench.failures($0).contains { $0.contains("charged") } })
    }

    @Test func gateDelayIsJitteredByHalf() {
        var delays: [Double] = []
        for seed in 1...200 as ClosedRange<UInt64> {
            var core = RetryBusCore(release: .tuned(backoff: .seconds(4)), seed: seed)
            let scope = core.addCondition(Level(isSatisfied: true, epoch: 1), isReachability: true, unknownUntil: .start)
            _ = core.update(scope, Level(isSatisfied: true, epoch: 2), at: .start)
            let (key, _, _) = core.submit(RetryPolicy.plain.rules, scope: scope, at: .start)
            _ = core.fail(key, .unreachable, interruption: nil, isGone: false, delays: FailureDelays(.zero), at: .start)
            delays.append(Double(core.nextTime().nanoseconds) / 1e9)
        }
        #expect(delays.allSatisfy { (2...4).contains($0) })
        #expect(Set(delays).count == delays.count && (2.9...3.1).contains(delays.reduce(0, +) / 200))
    }

    @Test func longAttemptBlocksNoJob() {
        var (bench, jobs) = reconnected(4)
        bench.pass(to: 14.9)
        #expect(running(bench, jobs) == [0])
        bench.pass(to: 15)
        #expect(running(bench, jobs) == [0, 1], "it makes room for the next canary, and proves nothing")
    }

    @Test func progressOpensTheGateAndFreesThePlace() {
        var (bench, jobs) = reconnected(5)
        bench.progress(jobs[0])
        #expect(running(bench, jobs) == [0, 1, 2])
        bench.progress(jobs[1])
        bench.progress(jobs[2])
        #expect(running(bench, jobs) == [0, 1, 2, 3, 4])
    }

    @Test func progressOfAnEndedAttemptProvesNothing() {
        var (bench, jobs) = reconnected(3)
        bench.fail(jobs[0], .classified(.network))
        for job in jobs.dropFirst() { bench.cancel(job) }
        bench.pass(to: 11)
        let more = bench.submit()
        bench.progress(jobs[0], of: 1)
        #expect(bench.starts(jobs[0]) == [10, 11] && bench.state(more) == .queued)
        bench.progress(jobs[0], of: 2)
        #expect(bench.state(more) == .running)
    }

    @Test func gateWithoutQueuedJobsHasNoTimer() {
        var (bench, jobs) = reconnected(2)
        #expect(bench.next == 15, "the canary will have run for long")
        bench.cancel(jobs[1])
        #expect(bench.next == nil)
    }

    @Test func longAttemptProvesNothingByItsFailure() {
        var (bench, jobs) = reconnected(6)
        bench.succeed(jobs[0])
        #expect(running(bench, jobs) == [1, 2])
        for job in jobs.dropFirst(3) { bench.cancel(job) }
        bench.pass(to: 15)
        bench.fail(jobs[1], .unreachable)
        let more = (0..<2).map { _ in bench.submit() }
        #expect(running(bench, more) == [0], "one tries the way")
    }

    @Test func eachEdgeStartsANewCanary() {
        var (bench, jobs) = reconnected(3)
        bench.edge()
        #expect(running(bench, jobs) == [0, 1], "the first one's attempt says nothing about the new way")
        bench.succeed(jobs[0])
        #expect(running(bench, jobs) == [1])
        bench.succeed(jobs[1])
        #expect(running(bench, jobs) == [2])
    }

    @Test func newGateSoonAfterAReconnectProbes() {
        var bench = CoreBench(.unjittered)
        bench.edge()
        let jobs = (0..<3).map { _ in bench.submit(destination: "new") }
        #expect(running(bench, jobs) == [0])
        bench.pass(to: 31)
        let late = (0..<3).map { _ in bench.submit(destination: "later") }
        #expect(running(bench, late) == [0, 1, 2])
    }

    @Test func jobsWithUnmetConditionsAreNoCanaries() {
        var bench = CoreBench(online: false, .unjittered)
        let login = bench.add(isSatisfied: false)
        let jobs = [bench.submit(when: [login]), bench.submit()]
        bench.up()
        #expect(running(bench, jobs) == [1] && bench.unmet(jobs[0]) == [login])
        bench.up(login)
        #expect(running(bench, jobs) == [1])
        bench.succeed(jobs[1])
        #expect(running(bench, jobs) == [0])
    }

    // MARK: - Ramping

    @Test func windowDoublesAfterAWindowOfSuccesses() {
        var (bench, jobs) = reconnected(100)
        var widths: [Int] = []
        while !running(bench, jobs).isEmpty {
            let now = running(bench, jobs)
            widths.append(now.count)
            for job in now { bench.succeed(jobs[job]) }
        }
        #expect(widths == [1, 2, 4, 8, 16, 16, 16, 16, 16, 5] && bench.order == jobs)
    }

    @Test func emptyQueueEndsTheLimit() {
        var (bench, jobs) = reconnected(3)
        for job in jobs { bench.succeed(job) }
        let more = (0..<100).map { _ in bench.submit() }
        #expect(running(bench, more).count == 100)
    }

    @Test func overloadHalvesTheWindow() {
        var (bench, jobs) = reconnected(200, destination: "api")
        for width in [1, 2, 4, 8] {
            let now = running(bench, jobs)
            #expect(now.count == width)
            for job in now { bench.succeed(jobs[job]) }
        }
        bench.fail(jobs[running(bench, jobs)[0]], .classified(.overload()))
        for job in running(bench, jobs) { bench.succeed(jobs[job]) }
        #expect(running(bench, jobs).count == 9, "eight, and one more after a window of successes")
    }

    @Test func failingServerIsProbedWithGrowingDelays() {
        var (bench, jobs) = reconnected(30, destination: "api")
        var pauses: [Double] = []
        for _ in 0..<18 {
            guard let job = running(bench, jobs).first else { break }
            let start = bench.now
            bench.fail(jobs[job], .refused)
            while running(bench, jobs).isEmpty, let next = bench.next { bench.pass(to: next) }
            pauses.append(bench.now - start)
        }
        // Four failed jobs mean overload, twice.
        #expect(pauses == Array(repeating: 0, count: 7) + [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60])
    }

    @Test func poisonJobSlowsNoOtherJob() {
        var (bench, jobs) = reconnected(1, destination: "api")
        let poison = RetryPolicy(.immediate).giveUpAfter(maxAttempts: nil)
        let bad = bench.submit(poison, destination: "api")
        bench.succeed(jobs[0])
        for _ in 0..<50 { bench.fail(bad, .classified(.server)) }
        let others = (0..<20).map { _ in bench.submit(destination: "api") }
        #expect(running(bench, others).count == 20)
        bench.edge()
        for other in others { bench.succeed(other) }
        bench.fail(bad, .classified(.server))
        let late = (0..<2).map { _ in bench.submit(destination: "api") }
        #expect(running(bench, late).isEmpty, "it is the canary")
        bench.fail(bad, .classified(.server))
        #expect(running(bench, late).count >= 1, "its answer proved the way")
    }

    @Test func unansweredFailureOpensNoGate() {
        for report in [FailureReport.final, .unclassified, .timedOut, FailureReport(.unanswered, mayRetry: false), .shortage] {
            var (bench, jobs) = reconnected(5)
            bench.fail(jobs[0], report)
            bench.pass(to: bench.now + 4)
            #expect(running(bench, jobs).count == 1, "\(report)")
        }
    }

    @Test func nextCanaryWaitsAfterAnUnansweredFailure() {
        var (bench, jobs) = reconnected(4)
        for (canary, pause) in [(0, 1.0), (1, 2), (2, 4)] {
            #expect(running(bench, jobs) == [canary])
            bench.fail(jobs[canary], delay: .seconds(60))
            #expect(running(bench, jobs).isEmpty && bench.next == bench.now + pause)
            bench.pass(to: bench.now + pause)
        }
    }

    @Test func attemptsOfEarlierEpochsCountForTheWindow() {
        var bench = CoreBench(online: true, .tuned(maxInFlight: 3, interactiveBypass: 0))
        let old = (0..<3).map { _ in bench.submit() }
        bench.edge()
        let jobs = (0..<5).map { _ in bench.submit() }
        #expect(running(bench, jobs) == [0], "only the canary may exceed the window")
        bench.succeed(jobs[0])
        #expect(running(bench, jobs).isEmpty)
        for job in old { bench.succeed(job) }
        #expect(running(bench, jobs).count == 2)
    }

    @Test func openGateProbesAgainWhenTheServerFails() {
        var bench = CoreBench(.unjittered)
        let jobs = (0..<8).map { _ in bench.submit(destination: "api") }
        for job in jobs.prefix(3) { bench.fail(job, .refused) }
        let more = bench.submit(destination: "api")
        #expect(bench.state(more) == .running, "a few failures say nothing about the others")
        bench.fail(jobs[3], .refused)
        let late = bench.submit(destination: "api")
        #expect(bench.state(late) == .queued)
        bench.pass(to: 1)
        let canaries = running(bench, Array(jobs.prefix(4)) + [late])
        #expect(canaries.count == 1)
    }

    @Test func onlyConsecutiveFailuresMeanOverload() {
        var bench = CoreBench(.unjittered)
        let jobs = (0..<8).map { _ in bench.submit(destination: "api") }
        for job in jobs.prefix(3) { bench.fail(job, .refused) }
        bench.succeed(jobs[3])
        for job in jobs[4..<7] { bench.fail(job, .refused) }
        let more = bench.submit(destination: "api")
        #expect(bench.state(more) == .running)
        bench.fail(jobs[7], .refused)
        let late = bench.submit(destination: "api")
        #expect(bench.state(late) == .queued)
    }

    @Test func failureWithoutADestinationDelaysNoOther() {
        var bench = CoreBench(.unjittered)
        let jobs = (0..<8).map { _ in bench.submit() }
        for job in jobs { bench.fail(job, .refused) }
        let more = bench.submit()
        #expect(bench.state(more) == .running)
    }

    @Test func networkFailureRestartsProbing() {
        var (bench, jobs) = reconnected(20)
        bench.succeed(jobs[0])
        bench.succeed(jobs[1])
        bench.fail(jobs[2], .unreachable)
        // Others have succeeded, so the fault may be the job's own: the next one starts at once.
        #expect(running(bench, jobs) == [3, 4], "what runs goes on, and one tries")
        bench.fail(jobs[4], .unreachable)
        bench.succeed(jobs[3])
        #expect(running(bench, jobs) == [5, 6], "and it gets through")
    }

    @Test func requestFailureDelaysNoOtherJob() {
        var bench = CoreBench(.unjittered)
        let dead = bench.submit()
        bench.fail(dead, .unreachable)
        let others = (0..<3).map { _ in bench.submit() }
        #expect(running(bench, others) == [])
        bench.pass(to: 1)
        #expect(running(bench, others) == [0], "the next canary is another job")
        bench.succeed(others[0])
        #expect(running(bench, others) == [1, 2])
    }

    @Test(arguments: [nil, "dead"]) func silentHostDelaysOthersByOneCanary(destination: String?) {
        var bench = CoreBench(online: false, .unjittered)
        let dead = bench.submit(destination: destination)
        let jobs = (0..<20).map { _ in bench.submit() }
        bench.pass(to: 10)
        bench.up()
        if destination == nil {
            #expect(bench.state(dead) == .running && running(bench, jobs).isEmpty)
            bench.pass(to: 15)
        }
        while let job = running(bench, jobs).first { bench.succeed(jobs[job]) }
        #expect(jobs.allSatisfy { bench.result($0) == "ok" }, "not delayed beyond one canary")
        for _ in 0..<100 where bench.result(dead) == nil {
            if bench.state(dead) == .running {
                bench.pass(to: bench.now + 10)
                bench.fail(dead, .unanswered)
            } else {
                bench.pass(to: bench.next ?? bench.now)
            }
        }
        #expect(bench.result(dead) == "attempts")
        // No answer right after a reconnect is the network's fault, until a job succeeds or 30 s pass.
        #expect(bench.failures(dead).count { !$0.contains("charged") } <= (destination == nil ? 0 : 3))
    }

    // MARK: - Delays ordered by servers

    @Test func serverDelayAppliesToItsDestination() {
        var (bench, jobs) = reconnected(4, destination: "api")
        let other = bench.submit(destination: "other")
        bench.succeed(jobs[0])
        bench.fail(jobs[1], .classified(.overload(retryAfter: .seconds(30))))
        bench.succeed(jobs[2])
        #expect(running(bench, jobs).isEmpty && bench.state(other) == .running)
        bench.pass(to: 39.9)
        #expect(running(bench, jobs).isEmpty)
        bench.pass(to: 40)
        #expect(running(bench, jobs) == [1, 3])
    }

    @Test func jobsGatheredDuringAServerDelayStartInAWindow() {
        var bench = CoreBench(.unjittered)
        let first = bench.submit(destination: "api")
        bench.fail(first, .classified(.overload(retryAfter: .seconds(30))))
        let jobs = (0..<20).map { _ in bench.submit(destination: "api") }
        bench.pass(to: 29)
        #expect(running(bench, jobs).isEmpty && jobs.allSatisfy { bench.state($0) == .queued })
        bench.pass(to: 30)
        #expect(running(bench, jobs) == [0, 1])
    }

    @Test func serverDelayWithoutADestinationAppliesToOneJob() {
        var (bench, jobs) = reconnected(4)
        bench.succeed(jobs[0])
        bench.fail(jobs[1], .classified(.overload(retryAfter: .seconds(30))))
        #expect(running(bench, jobs) == [2, 3])
        bench.pass(to: 40)
        #expect(running(bench, jobs) == [1, 2, 3])
    }

    @Test func reconnectKeepsAServerDelay() {
        var (bench, jobs) = reconnected(2, destination: "api")
        bench.fail(jobs[0], .classified(.overload(retryAfter: .seconds(30))))
        bench.pass(to: 12)
        bench.edge()
        bench.retryNow()
        #expect(running(bench, jobs).isEmpty && bench.next == 40)
    }
}
