import Testing

@testable import ReachableRetry

/// Cancellation, shutdown, and cleanup.
struct CoreEndingTests {
    /// Jobs in each state: waiting for the network or another condition, backing off, running.
    private func crowd(_ bench: inout CoreBench) -> [JobKey] {
        let (down, login) = (bench.add(Level(isSatisfied: false), isReachability: true), bench.add(isSatisfied: false))
        let policy = RetryPolicy.plain.giveUpAfter(elapsed: .seconds(600)).interruptsAttempt(.whenUnsatisfied(grace: .seconds(1)))
        let jobs = [
            bench.submit(policy, to: down), bench.submit(policy, when: [login]), bench.submit(policy),
            bench.submit(policy.attemptTimeout(.seconds(60))),
        ]
        bench.fail(jobs[2])
        return jobs
    }

    private func isEmpty(_ bench: CoreBench) -> Bool {
        bench.core.count == 0 && bench.core.timerCount == 0 && bench.next == nil
            && bench.core.conditions.allSatisfy { record in
                record.map { $0.waiting.isEmpty && $0.attentive.isEmpty && $0.interruptible.isEmpty && $0.uses == 0 } ?? true
            }
    }

    @Test func cancellationIsPromptInEveryState() {
        var bench = CoreBench()
        let jobs = crowd(&bench)
        for job in jobs { bench.cancel(job) }
        #expect(jobs.map { bench.result($0) } == ["cancelled", "cancelled", "cancelled", nil])
        #expect(bench.interruptions(jobs[3]) == ["cancelled at 0.0"], "what runs is awaited")
        bench.pass(to: 1)
        bench.fail(jobs[3])
        #expect(bench.result(jobs[3]) == "cancelled" && isEmpty(bench))
        bench.up(1)
        bench.up(2)
        bench.pass(to: 1000)
        #expect(jobs.map { bench.starts($0) } == [[], [], [0], [0]], "no attempt follows")
    }

    @Test func successOfACancelledAttemptCounts() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.cancel(job)
        bench.succeed(job)
        #expect(bench.result(job) == "ok" && isEmpty(bench))
    }

    @Test func endedJobStaysEnded() {
        var bench = CoreBench()
        let old = bench.submit()
        bench.succeed(old)
        let new = bench.submit()
        #expect(old.index == new.index, "the place is used again")
        bench.cancel(old)
        bench.succeed(old)
        bench.fail(old, delay: .zero)
        #expect(bench.core[old] == nil && bench.state(new) == .running && bench.interruptions(new).isEmpty)
        bench.fail(new)
        bench.fail(old, delay: .zero)
        #expect(bench.starts(new) == [0])
    }

    @Test func endedJobsLeaveNothing() {
        var bench = CoreBench()
        for _ in 1...1000 {
            let job = bench.submit(.plain.giveUpAfter(elapsed: .seconds(60)))
            bench.fail(job)
            bench.cancel(job)
        }
        #expect(isEmpty(bench) && bench.core.jobs.count == 1 && bench.core.timers.count == 0)
        #expect(bench.core.gates.count == 1)
    }

    @Test func numberOfIdleGatesIsLimited() {
        var bench = CoreBench()
        for number in 0...(3 * GateTable.mostIdle) { bench.succeed(bench.submit(destination: "\(number)")) }
        #expect(bench.core.gates.count <= GateTable.mostIdle + 1)
    }

    // MARK: - Unused conditions

    @Test func conditionsAreRemovedWithTheirLastJob() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let (first, second) = (bench.submit(when: [login, login]), bench.submit(when: [login]))
        bench.succeed(first)
        var (idle, isRemoved) = (bench.takeIdleConditions(), bench.removeCondition(login))
        #expect(idle.isEmpty && !isRemoved)
        bench.cancel(second)
        bench.fail(second)
        idle = bench.takeIdleConditions()
        #expect(Set(idle) == [0, login] && idle.count == 2)
        idle = bench.takeIdleConditions()
        isRemoved = bench.removeCondition(login)
        #expect(idle.isEmpty && isRemoved)
        bench.up(login)
        let power = bench.add(isSatisfied: false)
        #expect(power == login, "the place is used again")
        let job = bench.submit(when: [power])
        #expect(bench.unmet(job) == [power])
    }

    @Test func aConditionThatIsNeededAgainIsKept() {
        var bench = CoreBench()
        bench.succeed(bench.submit())
        let job = bench.submit()
        let (idle, isRemoved) = (bench.takeIdleConditions(), bench.removeCondition(0))
        #expect(idle == [0] && !isRemoved && bench.state(job) == .running)
    }

    @Test func removedScopeDropsItsHistory() {
        var bench = CoreBench(online: false)
        let job = bench.submit()
        bench.up()
        bench.succeed(job)
        let isRemoved = bench.removeCondition(0)
        #expect(isRemoved && bench.core.gates.count == 0)
        let place = bench.add(Level(isSatisfied: true, epoch: 7), isReachability: true)
        #expect(place == 0)
        let next = bench.submit()
        bench.fail(next, .unanswered)
        #expect(bench.failures(next) == ["server, charged"], "its baseline is no edge")
    }

    // MARK: - Order

    @Test func urgentAndOldestJobsStartFirst() {
        var bench = CoreBench(online: false)
        // The index does not reflect the age: indices are reused.
        let gone = bench.submit()
        let priorities = [JobPriority.bulk, .normal, .interactive, .bulk, .interactive, .normal]
        var jobs = priorities.prefix(3).map { bench.submit(priority: $0) }
        bench.cancel(gone)
        jobs += priorities.dropFirst(3).map { bench.submit(priority: $0) }
        bench.up()
        #expect(bench.order == [2, 4, 1, 5, 0, 3].map { jobs[$0] })
        #expect(bench.core.liveKeys == bench.order)
    }

    @Test func backingOffAndWaitingJobsStartInOneOrder() {
        var bench = CoreBench(online: false)
        let waiting = [bench.submit(priority: .bulk), bench.submit()]
        let backingOff = [JobPriority.bulk, .interactive].map { priority in
            bench.submit(.plain.connectivity(.accelerate), priority: priority)
        }
        for job in backingOff { bench.fail(job) }
        bench.up()
        #expect(bench.order.suffix(4) == [backingOff[1], waiting[1], waiting[0], backingOff[0]])
    }

    @Test func jobsDueTogetherStartInOrder() {
        var bench = CoreBench()
        let jobs = [JobPriority.bulk, .normal, .interactive].map { bench.submit(priority: $0) }
        for job in jobs { bench.fail(job) }
        bench.pass(to: 1)
        #expect(bench.order.suffix(3) == jobs.reversed())
        for job in jobs {
            bench.fail(job)
            bench.pass(to: bench.now + 0.1)
        }
        bench.skip(to: 60)
        bench.pass(to: 60)
        #expect(bench.order.suffix(3) == jobs.reversed(), "a machine that slept")
    }

    // MARK: - Shutdown

    @Test func shutdownCancelsWaitingJobsAndAwaitsAttempts() {
        var bench = CoreBench()
        let jobs = crowd(&bench) + [bench.submit(), bench.submit()]
        bench.shutDown(drain: 10)
        #expect(jobs.map { bench.result($0) } == Array(repeating: "cancelled", count: 3) + [nil, nil, nil])
        #expect(bench.next == 10)
        bench.pass(to: 5)
        bench.succeed(jobs[3])
        bench.fail(jobs[4])
        #expect(bench.result(jobs[3]) == "ok" && bench.result(jobs[4]) == "shutDown")
        bench.pass(to: 20)
        #expect(bench.interruptions(jobs[5]) == ["cancelled at 10.0"] && bench.next == nil)
        bench.fail(jobs[5])
        #expect(bench.result(jobs[5]) == "cancelled" && isEmpty(bench))
    }

    @Test func zeroDrainTimeCancelsAttemptsAtOnce() {
        var bench = CoreBench()
        let job = bench.submit()
        bench.shutDown(drain: 0)
        #expect(bench.interruptions(job) == ["cancelled at 0.0"])
    }

    @Test func unlimitedDrainAwaitsAttempts() {
        var bench = CoreBench()
        let (job, limited) = (bench.submit(), bench.submit(.plain.giveUpAfter(elapsed: .seconds(5))))
        bench.shutDown(drain: nil)
        bench.pass(to: 1000)
        #expect(bench.interruptions(job).isEmpty && bench.interruptions(limited) == ["deadline at 5.0"])
        bench.fail(job, .unreachable)
        bench.fail(limited)
        #expect(bench.result(job) == "shutDown" && bench.result(limited) == "deadline, cut" && isEmpty(bench))
    }

    @Test(arguments: [(10, nil, 10), (nil, 3, 3), (10, 3, 3), (3, 10, 3)] as [(Double?, Double?, Double)])
    func shortestShutdownCounts(first: Double?, second: Double?, end: Double) {
        var bench = CoreBench()
        let job = bench.submit()
        bench.shutDown(drain: first)
        bench.shutDown(drain: second)
        bench.pass(to: 100)
        #expect(bench.interruptions(job) == ["cancelled at \(end)"])
    }
}
