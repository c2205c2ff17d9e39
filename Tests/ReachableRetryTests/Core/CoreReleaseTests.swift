import Testing

@testable import ReachableRetry

/// The limits of release policies and of the bus.
struct CoreReleaseTests {
    private func running(_ bench: CoreBench, _ jobs: [JobKey]) -> [Int] {
        jobs.indices.filter { bench.state(jobs[$0]) == .running }
    }

    private func starts(_ bench: CoreBench, _ jobs: [JobKey]) -> [Double] { jobs.flatMap { bench.starts($0) } }

    // MARK: - Flapping paths

    @Test func jobsWaitUntilThePathIsSteady() {
        var bench = CoreBench(.gated)
        let first = bench.submit()
        bench.succeed(first)
        bench.tell(0) { ($0.epoch, $0.isUnsteady) = ($0.epoch + 1, true) }
        let jobs = JobPriority.allCases.map { bench.submit(priority: $0) }
        func count(_ priority: JobPriority) -> Int {
            zip(JobPriority.allCases, jobs).reduce(0) { $1.0 == priority ? $0 + bench.starts($1.1).count : $0 }
        }
        #expect([count(.interactive), count(.normal), count(.bulk)] == [1, 0, 0])
        bench.pass(to: 60)
        #expect([count(.normal), count(.bulk)] == [0, 0], "no time ends that")
        bench.setUnsteady(false)
        #expect(count(.normal) == 1)
    }

    @Test func aPathMayBeFoundUnsteadyWithoutAnEdge() {
        var bench = CoreBench(.gated)
        let first = bench.submit()
        bench.succeed(first)
        bench.setUnsteady(true)
        let job = bench.submit()
        #expect(bench.state(job) == .queued)
        bench.setUnsteady(false)
        #expect(bench.state(job) == .running)
    }

    @Test func firstJobWaitsUntilThePathIsSteady() {
        var core = RetryBusCore(release: .gated)
        var level = Level(isSatisfied: true, epoch: 7)
        level.isUnsteady = true
        let scope = core.addCondition(level, isReachability: true, unknownUntil: .never)
        let (key, _, effects) = core.submit(RetryPolicy.plain.rules, scope: scope, at: .start)
        #expect(effects.isEmpty && core.description(of: key, at: .start)?.queueReason == .unsteady && core.nextTime().isNever)
        level.isUnsteady = false
        #expect(core.update(scope, level, at: .start).contains { if case .start = $0 { true } else { false } })
    }

    @Test func retryNowDoesNotWaitForASteadyPath() {
        var bench = CoreBench(.gated)
        bench.tell(0) { ($0.epoch, $0.isUnsteady) = ($0.epoch + 1, true) }
        let job = bench.submit()
        #expect(bench.starts(job).isEmpty)
        bench.retryNow()
        #expect(bench.starts(job) == [0])
    }

    @Test func endedMonitorDelaysNoJobForFlapping() {
        var bench = CoreBench(.gated)
        bench.tell(0) { ($0.epoch, $0.isUnsteady) = ($0.epoch + 1, true) }
        let job = bench.submit()
        #expect(bench.starts(job).isEmpty)
        bench.finish()
        #expect(bench.starts(job) == [0])
    }

    // MARK: - Pace and spread

    @Test func paceAppliesFromTheFirstJob() {
        var bench = CoreBench(.paced(perSecond: 10, burst: 3))
        let jobs = (0..<6).map { _ in bench.submit() }
        bench.pass(to: 10)
        #expect(starts(bench, jobs) == [0, 0, 0, 0.1, 0.2, 0.3])
        let more = (0..<4).map { _ in bench.submit(priority: .interactive) }
        bench.pass(to: 20)
        #expect(starts(bench, more) == [10, 10, 10, 10.1], "a pause earns a burst, and no more")
    }

    @Test(arguments: [0, -1, .nan, 1e-30, -.infinity] as [Double]) func zeroPaceIsTreatedAsOneAnHour(rate: Double) {
        var bench = CoreBench(.paced(perSecond: rate, burst: -3))
        let jobs = (0..<3).map { _ in bench.submit() }
        bench.pass(to: 7200)
        #expect(starts(bench, jobs) == [0, 3600, 7200])
    }

    @Test func hugeLimitsAreNoLimits() {
        var bench = CoreBench(
            online: false, .tuned(maxInFlight: .max, rate: .infinity, burst: .max, backoff: Duration(attoseconds: .max)))
        let jobs = (0..<50).map { _ in bench.submit() }
        bench.up()
        for job in jobs { bench.succeed(job) }
        #expect(jobs.allSatisfy { bench.result($0) == "ok" })
    }

    @Test func gateRateAppliesWhileJobsWait() {
        var bench = CoreBench(online: false, .tuned(rate: 2))
        let jobs = (0..<4).map { _ in bench.submit() }
        bench.up()
        bench.succeed(jobs[0])
        bench.pass(to: 0.4)
        #expect(running(bench, jobs).isEmpty, "the canary counts, too")
        bench.pass(to: 0.5)
        #expect(running(bench, jobs) == [1])
        bench.succeed(jobs[1])
        bench.pass(to: 1)
        #expect(running(bench, jobs) == [2])
        bench.succeed(jobs[2])
        bench.pass(to: 1.5)
        bench.succeed(jobs[3])
        let more = (0..<9).map { _ in bench.submit() }
        #expect(running(bench, more).count == 9)
    }

    @Test func bulkJobsWaitForASpreadDrawnPerReconnect() {
        var delays: Set<Double> = []
        for seed in 1...20 as ClosedRange<UInt64> {
            var bench = CoreBench(online: false, .spread(over: .seconds(60)), seed: seed)
            let bulk = (0..<3).map { _ in bench.submit(priority: .bulk) }
            let normal = bench.submit()
            bench.up()
            #expect(bench.state(normal) == .running)
            bench.succeed(normal)
            let next = bench.next ?? -1
            #expect((0..<60).contains(next) && running(bench, bulk).isEmpty)
            bench.pass(to: next)
            #expect(running(bench, bulk).count == 2, "all of the host's jobs have the same draw")
            delays.insert(next)
        }
        #expect(delays.count == 20)
    }

    @Test func allServersOfAHostHaveTheSameDraw() {
        var bench = CoreBench(online: false, .spread(over: .seconds(60)))
        var bulk = ["a", "b", "c", nil].map { bench.submit(destination: $0, priority: .bulk) }
        bench.up()
        bulk.append(bench.submit(destination: "new", priority: .bulk))
        let next = bench.next ?? -1
        #expect((0..<60).contains(next) && running(bench, bulk).isEmpty)
        bench.pass(to: next)
        #expect(running(bench, bulk).count == bulk.count)
    }

    // MARK: - Fleets

    @Test func canariesOfAFleetSpread() {
        for (size, longest) in [(1, 0.0), (3, 0.01), (1000, 4.995), (100_000, 5)] {
            var delays: [Double] = []
            for seed in 1...30 as ClosedRange<UInt64> {
                var bench = CoreBench(online: false, .gated, seed: seed)
                bench.setFleetSize(size)
                let job = bench.submit(destination: "server")
                bench.up()
                #expect((bench.state(job) == .running) == (size == 1))
                delays.append(bench.next ?? 0)
            }
            #expect(delays.allSatisfy { $0 <= longest } && (delays.max() ?? 0) >= longest * 0.8)
            #expect((delays.min() ?? 0) <= longest * 0.2)
        }
    }

    @Test func anAnswerOrAPersonEndsTheWaitOfACanary() {
        for isAnswer in [true, false] {
            var bench = CoreBench(online: false, .gated, seed: 1)
            bench.setFleetSize(1000)
            let job = bench.submit(destination: "server")
            let interactive = isAnswer ? bench.submit(destination: "server", priority: .interactive) : nil
            bench.up()
            #expect(bench.state(job) != .running)
            if let interactive { bench.succeed(interactive) } else { bench.retryNow() }
            #expect(bench.state(job) == .running)
        }
    }

    @Test(arguments: [(20, 8), (21, 4)]) func windowOfALargeFleetGrowsByOne(size: Int, width: Int) {
        var bench = CoreBench(online: false, .gated)
        let jobs = (0..<40).map { _ in bench.submit(destination: "server") }
        bench.setFleetSize(size)
        bench.up()
        if let next = bench.next { bench.pass(to: next) }
        // The canary, and windows of 2 and 4, or of 2 and 3.
        for count in size > 20 ? [1, 2, 3] : [1, 2, 4] {
            let running = jobs.filter { bench.state($0) == .running }
            #expect(running.count == count)
            for job in running { bench.succeed(job) }
        }
        #expect(jobs.count { bench.state($0) == .running } == width)
    }

    // MARK: - Fairness

    @Test func bulkJobsGetTheirShare() {
        var bench = CoreBench(online: false, .unjittered)
        let bulk = (0..<10).map { _ in bench.submit(priority: .bulk) }
        let normal = (0..<100).map { _ in bench.submit() }
        bench.up()
        for _ in 0..<80 { bench.succeed(bench.order[bench.order.count { bench.result($0) != nil }]) }
        let share = bulk.count { !bench.starts($0).isEmpty }
        #expect((9...10).contains(share), "one of eight")
        #expect(bench.order.filter { normal.contains($0) } == Array(normal.prefix(bench.order.count - share)))
    }

    @Test func unlimitedBusNeedsNoBulkShare() {
        var bench = CoreBench(online: false)
        let bulk = bench.submit(priority: .bulk)
        let normal = (0..<20).map { _ in bench.submit() }
        bench.up()
        #expect(bench.order == normal + [bulk])
    }

    @Test func interactiveJobsPrecedeBulkJobs() {
        var bench = CoreBench(online: false, .tuned(interactiveBypass: 0))
        for _ in 0..<50 { _ = bench.submit(priority: .bulk) }
        let interactive = (0..<50).map { _ in bench.submit(priority: .interactive) }
        bench.up()
        while bench.order.count < 50 { bench.succeed(bench.order[bench.order.count { bench.result($0) != nil }]) }
        #expect(Array(bench.order.prefix(50)) == interactive)
    }

    // MARK: - The bus's limit

    @Test(arguments: [ReleasePolicy.immediate, .gated, .paced(perSecond: 1000, burst: 100)])
    func noMoreAttemptsRunThanTheBusAllows(release: ReleasePolicy) {
        var bench = CoreBench(release, maxConcurrent: 2)
        let jobs = [JobPriority.normal, .bulk, .normal, .interactive, .normal].enumerated().map { index, priority in
            bench.submit(index == 2 ? .plain.connectivity(.ignore) : .plain, destination: "\(index)", priority: priority)
        }
        #expect(running(bench, jobs) == [0, 1] && bench.core.running == 2)
        for expected in [[1, 3], [2, 3], [3, 4], [4]] {
            bench.succeed(jobs[running(bench, jobs)[0]])
            #expect(running(bench, jobs) == expected || running(bench, jobs) == [2, 3])
        }
    }

    @Test(arguments: [0, -7]) func atLeastOneAttemptMayRun(most: Int) {
        var bench = CoreBench(maxConcurrent: most)
        let jobs = [bench.submit(), bench.submit()]
        #expect(running(bench, jobs) == [0])
        bench.fail(jobs[0])
        #expect(running(bench, jobs) == [1])
    }

    // MARK: - Jobs without a gate

    @Test func aJobMayOptOut() {
        var bench = CoreBench(online: false, .unjittered)
        let jobs = (0..<3).map { _ in bench.submit() }
        let signIn = (0..<3).map { _ in bench.submit(.plain.bypassesGate()) }
        bench.pass(to: 1)
        #expect(running(bench, signIn).isEmpty, "it waits for the network all the same")
        bench.up()
        #expect(running(bench, signIn) == [0, 1, 2] && running(bench, jobs) == [0])
        bench.fail(signIn[0], .unreachable)
        #expect(running(bench, jobs) == [0] && bench.next == 2, "its delay is its own")
    }

    @Test(arguments: [RetryPolicy.Connectivity.accelerate, .ignore])
    func jobsThatDoNotWaitForTheNetworkAreNotGated(connectivity: RetryPolicy.Connectivity) {
        var bench = CoreBench(online: false, .unjittered)
        let waiting = (0..<3).map { _ in bench.submit() }
        let jobs = (0..<3).map { _ in bench.submit(.plain.connectivity(connectivity)) }
        #expect(running(bench, jobs) == [0, 1, 2] && running(bench, waiting).isEmpty)
    }

    @Test func retryNowEndsTheGatesOwnDelays() {
        var bench = CoreBench(.unjittered)
        let first = bench.submit()
        bench.fail(first, .unreachable)
        let second = bench.submit()
        #expect(bench.state(second) == .queued)
        bench.retryNow()
        #expect(running(bench, [first, second]).count == 1)
    }

    // MARK: - Costs of a transition

    @Test func lossTouchesNoQueuedJob() {
        var bench = CoreBench(online: false, .unjittered)
        let jobs = (0..<1000).map { _ in bench.submit() }
        bench.up()
        bench.down()
        #expect(bench.core.timerCount == 0 && bench.next == nil)
        #expect(bench.order == [jobs[0]])
        bench.pass(to: 5)
        bench.up()
        #expect(bench.order == [jobs[0], jobs[1]] && jobs.allSatisfy { bench.waits($0).count == 1 })
    }

    @Test func queueTimeIsNoOfflineTime() {
        var bench = CoreBench(online: false, .unjittered)
        let jobs = (0..<2).map { _ in bench.submit(.plain.connectivity(.wait(upTo: .seconds(3)))) }
        bench.pass(to: 1)
        bench.up()
        bench.pass(to: 4)
        #expect(bench.result(jobs[1]) == nil, "the network is there; it waits for its turn")
        bench.down()
        bench.pass(to: 6.9)
        #expect(bench.result(jobs[1]) == nil)
        bench.pass(to: 7)
        #expect(bench.result(jobs[1]) == "waitLimit" && bench.ended(jobs[1]) == 7)
    }
}
