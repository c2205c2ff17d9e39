import Testing

@testable import ReachableRetry

/// Jobs that wait for the network, for the first verdict, or for other conditions.
struct CoreWaitingTests {
    private let limited = RetryPolicy.plain.connectivity(.wait(upTo: .seconds(3)))

    // MARK: - The limit of a wait

    @Test func waitOverItsLimitEndsTheJob() {
        var bench = CoreBench(online: false)
        let job = bench.submit(limited)
        #expect(bench.next == 3)
        bench.pass(to: 10)
        #expect(bench.ended(job) == 3 && bench.result(job) == "waitLimit" && bench.starts(job).isEmpty)
    }

    @Test func eachWaitIsMeasuredByItself() {
        var bench = CoreBench(online: false)
        let job = bench.submit(limited)
        bench.pass(to: 2)
        bench.up()
        bench.down()
        bench.pass(to: 3)
        bench.fail(job)
        bench.pass(to: 5.9)
        bench.up()
        #expect(bench.starts(job) == [2, 5.9])
        bench.pass(to: 7)
        bench.down()
        bench.fail(job)
        bench.pass(to: 20)
        #expect(bench.ended(job) == 10 && bench.result(job) == "waitLimit")
    }

    @Test func backingOffIsNoWait() {
        var bench = CoreBench()
        let job = bench.submit(limited.backoff(.constant(.seconds(60))))
        bench.fail(job)
        bench.pass(to: 60)
        #expect(bench.starts(job) == [0, 60])
    }

    @Test func otherConditionsDoNotCount() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: false)
        let job = bench.submit(limited, when: [login])
        #expect(bench.next == nil && bench.unmet(job) == [login])
        bench.pass(to: 100)
        bench.down()
        #expect(bench.next == 103, "the network's absence counts, whatever else is missing")
        bench.pass(to: 101)
        bench.up()
        #expect(bench.next == nil)
        bench.down()
        bench.pass(to: 200)
        #expect(bench.ended(job) == 104 && bench.result(job) == "waitLimit")
    }

    @Test func waitBeforeTheFirstVerdictHasALimit() {
        var bench = CoreBench(maxConcurrent: 1)
        let other = bench.add(Level(isSatisfied: false, isKnown: false), isReachability: true)
        let login = bench.add(isSatisfied: false)
        let early = bench.submit(to: other)
        bench.pass(to: 3)
        #expect(bench.state(early) == .running, "the monitor does not look, so it goes on")
        // The job waits for the login, and then for its turn, at a gate without other jobs.
        let job = bench.submit(limited, to: other, when: [login], destination: "a")
        bench.pass(to: 5)
        bench.up(login)
        bench.up(other)
        bench.pass(to: 10)
        bench.down(other)
        bench.pass(to: 100)
        #expect(bench.ended(job) == 13 && bench.result(job) == "waitLimit" && bench.starts(job).isEmpty)
        #expect(bench.waits(job) == [3, 10] && bench.state(early) == .running)
    }

    @Test func zeroWaitLimitEndsTheJobAtOnce() {
        var bench = CoreBench(online: false)
        let job = bench.submit(.plain.connectivity(.wait(upTo: .zero)))
        bench.pass(to: 0)
        #expect(bench.ended(job) == 0 && bench.result(job) == "waitLimit")
    }

    @Test func unlimitedWaitSetsNoTimer() {
        var bench = CoreBench(online: false)
        for _ in 1...100 { _ = bench.submit() }
        #expect(bench.next == nil && bench.core.timerCount == 0)
        _ = bench.submit(limited)
        let last = bench.submit(.plain.connectivity(.accelerate))
        bench.fail(last)
        #expect(bench.next == 1 && bench.core.timerCount == 2)
    }

    // MARK: - Before the first verdict

    @Test func firstVerdictIsWaitedForTwoSeconds() {
        var bench = CoreBench.unknown
        let job = bench.submit()
        let patient = bench.submit(.plain.giveUpAfter(elapsed: .seconds(1)))
        bench.pass(to: 1.9)
        #expect(bench.starts(job).isEmpty && bench.result(patient) == "deadline")
        bench.pass(to: 2)
        #expect(bench.starts(job) == [2] && bench.waits(job).isEmpty, "no verdict says that the network is away")
        let late = bench.submit()
        #expect(bench.starts(late) == [2])
    }

    @Test(arguments: [true, false]) func firstVerdictDecides(isSatisfied: Bool) {
        var bench = CoreBench.unknown
        let job = bench.submit(limited)
        bench.pass(to: 1.5)
        if isSatisfied { bench.up() } else { bench.down() }
        bench.pass(to: 10)
        #expect(bench.starts(job) == (isSatisfied ? [1.5] : []))
        #expect(bench.ended(job) == (isSatisfied ? nil : 4.5), "the wait counts from the monitor's word")
        #expect(bench.waits(job) == (isSatisfied ? [] : [1.5]))
    }

    @Test func lateFirstVerdictCounts() {
        var bench = CoreBench.unknown
        let (job, running) = (bench.submit(), bench.submit())
        bench.pass(to: 2)
        bench.fail(job)
        bench.pass(to: 2.5)
        bench.down()
        #expect(bench.next == nil && bench.state(job) == .waiting)
        bench.fail(running)
        #expect(bench.failures(running) == ["network"])
        bench.pass(to: 10)
        bench.up()
        #expect(bench.starts(job) == [2, 10] && bench.starts(running) == [2, 10])
    }

    @Test func firstVerdictIsNoEdge() {
        var bench = CoreBench.unknown
        let job = bench.submit(.plain.backoff(.constant(.seconds(60))))
        bench.pass(to: 2)
        bench.fail(job)
        bench.pass(to: 5)
        bench.up()
        bench.pass(to: 100)
        #expect(bench.starts(job) == [2, 62])
    }

    @Test func noJobWaitsForAMonitorThatDoesNotRun() {
        var bench = CoreBench.unknown
        let job = bench.submit()
        bench.stopWaitingForTheFirstLook()
        #expect(bench.starts(job) == [0])
        bench.down()
        let late = bench.submit()
        #expect(bench.starts(late).isEmpty && bench.next == nil, "if it looks all the same, its word counts")
    }

    @Test(arguments: [true, false]) func jobsStartWhenTheMonitorEnds(hasLooked: Bool) {
        var bench = hasLooked ? CoreBench(online: false) : .unknown
        let jobs = [bench.submit(), bench.submit(limited)]
        bench.pass(to: 1)
        bench.finish()
        #expect(jobs.map { bench.starts($0) } == [[1], [1]])
    }

    // MARK: - Several conditions

    @Test func allConditionsMustBeMetAtOnce() {
        var bench = CoreBench(online: false)
        let (login, power) = (bench.add(isSatisfied: false), bench.add(isSatisfied: false))
        let job = bench.submit(when: [login, power])
        #expect(bench.unmet(job) == [0, login, power])
        for change in [power, 0, login] {
            bench.up(change)
            if change != login { bench.down(change) }
        }
        #expect(bench.starts(job).isEmpty)
        bench.up(power)
        #expect(bench.starts(job).isEmpty && bench.unmet(job) == [0])
        bench.up()
        #expect(bench.starts(job).count == 1 && bench.waits(job).count == 3, "for the scope, the login, the scope")
    }

    @Test func jobThatIgnoresTheNetworkWaitsForConditions() {
        for rule in [RetryPolicy.Connectivity.accelerate, .ignore] {
            var bench = CoreBench(online: false)
            let login = bench.add(isSatisfied: false)
            let jobs = [bench.submit(.plain.connectivity(rule)), bench.submit(.plain.connectivity(rule), when: [login])]
            #expect(jobs.map { bench.starts($0) } == [[0], []])
            bench.up(login)
            #expect(jobs.map { bench.starts($0) } == [[0], [0]])
        }
    }

    @Test func conditionThatEndsSatisfiedStaysSatisfied() {
        var bench = CoreBench()
        let login = bench.add(isSatisfied: true)
        let job = bench.submit(when: [login])
        bench.finish(login)
        bench.fail(job)
        bench.pass(to: 1)
        let late = bench.submit(when: [login])
        #expect(bench.starts(job) == [0, 1] && bench.starts(late) == [1])
    }

    /// In every state: waiting for it, for another condition or for a time, or running.
    @Test func conditionThatEndsUnsatisfiedEndsItsJobs() {
        var bench = CoreBench()
        let (login, power) = (bench.add(isSatisfied: true), bench.add(isSatisfied: true))
        let (backingOff, running) = (bench.submit(when: [login]), bench.submit(when: [power, login]))
        let (other, free) = (bench.submit(when: [power]), bench.submit())
        bench.fail(backingOff)
        bench.down(login)
        let waiting = bench.submit(when: [login])
        bench.down()
        let elsewhere = bench.submit(when: [login])
        bench.pass(to: 1)
        bench.finish(login)
        for job in [backingOff, waiting, elsewhere] {
            #expect(bench.ended(job) == 1 && bench.result(job) == "conditionEnded")
        }
        #expect(bench.ended(running) == nil)
        bench.fail(running)
        #expect(bench.result(running) == "conditionEnded")
        let late = bench.submit(when: [login])
        #expect(bench.result(late) == "conditionEnded" && bench.core.count == 2)
        #expect(bench.ended(other) == nil && bench.ended(free) == nil && bench.next == nil)
    }
}
